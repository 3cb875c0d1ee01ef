"""The same repository on another machine: nothing there is stale, and what cannot be done says what it would take."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.diff.conditions import summarise_cells
from reconciler.errors import StalePlanError
from reconciler.observed import machine
from reconciler.plan.saved import load, save
from reconciler.reconcile import desired_cache
from reconciler.reconcile import planning as looking
from reconciler.reconcile.planning import Options
from reconciler.reconcile.run import run_pass
from reconciler.resource.conditions import ConditionStatus
from tests.passes.repository import SPEC, Repository, make_repository
from tests.shared import make_once, need

need("mlperf_loadgen")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return make_once(tmp_path_factory, "lab-box", _make)


def _make(folder: Path) -> Repository:
    repository = make_repository(folder / "repository")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "read_cpu_model", lambda: "CPU of the lab box")
        repository.edit(SPEC, "      status: available\n", "      status: available\n      hardware: {cpu: lab box}\n")
        assert repository.reconcile().after.plan.in_sync
    return repository


@pytest.fixture
def repository(made: Repository, tmp_path: Path) -> Repository:
    return made.copy(tmp_path / "repository")


def test_other_machine_is_in_sync_with_what_was_recorded(repository: Repository) -> None:
    report = repository.reconcile()
    assert report.after.plan.in_sync
    assert report.outcomes == ()
    assert "box" in report.after.observed.systems


def test_other_machine_blocks_what_is_due_and_says_where_to_go(repository: Repository) -> None:
    repository.edit(SPEC, "target_qps: 100,", "target_qps: 200,")
    records = set(repository.records())
    report = repository.reconcile()
    due = [step for step in report.after.plan.steps if step.change.how == "make"]
    assert [step.change.address.label for step in due] == ["Run performance"]
    assert "lab box" in due[0].blocked
    assert due[0].fix == "run it on that machine"
    assert set(repository.records()) == records
    look = report.after
    (standing,) = summarise_cells(look.desired, look.recorded, look.observed, look.difference)
    by_type = {condition.type: condition.status for condition in standing.conditions}
    assert (by_type["Built"], by_type["Performed"], by_type["Ready"]) == (
        ConditionStatus.TRUE,
        ConditionStatus.FALSE,
        ConditionStatus.FALSE,
    )


def test_other_machine_makes_nothing_for_cells_that_it_cannot_run(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    repository.edit(SPEC, "      status: available\n", "      status: available\n      hardware: {cpu: none's}\n")
    report = repository.reconcile()
    assert [step.change.address.label for step in report.after.plan.steps if not step.blocked] == []
    assert repository.records() == {}


def test_a_missing_backend_says_what_to_install(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "read_cpu_model", lambda: "CPU of the lab box")
    without = {"mlcommons-loadgen": "6"}
    for module in (looking, desired_cache):
        monkeypatch.setattr(module, "list_installed", lambda: without)
    assert repository.look().plan.in_sync
    repository.edit(SPEC, 'backend: "null"', "backend: openvino")
    engine = next(s for s in repository.look().plan.steps if s.change.address.label == "Engine")
    assert engine.blocked == "backend openvino is not installed here"
    assert engine.fix == "pip install 'mlperf-reconciler[cpu]', or in a checkout: pip install -e '.[cpu]'"


def test_no_loadgen_is_in_sync_and_blocks_runs(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "read_cpu_model", lambda: "CPU of the lab box")
    for module in (looking, desired_cache):
        monkeypatch.setattr(module, "list_installed", dict)
    assert repository.look().plan.in_sync
    repository.edit(SPEC, "target_qps: 100,", "target_qps: 200,")
    run = next(s for s in repository.look().plan.steps if s.change.how == "make")
    assert run.blocked == "LoadGen is not installed here"
    assert run.fix == "pip install 'mlperf-reconciler[cpu]', or in a checkout: pip install -e '.[cpu]'"


# -- saved plans ----------------------------------------------------------------------------------------------------


def apply(repository: Repository, path: Path) -> list[str]:
    report = run_pass(repository.paths, Options(), report=lambda _: None, saved=load(path))
    return [outcome.step.change.address.label for outcome in report.outcomes]


@pytest.fixture
def here(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setattr(machine, "read_cpu_model", lambda: "CPU of the lab box")
    repository.reconcile()
    return repository


def test_saved_plan_is_carried_out_and_nothing_else(here: Repository, tmp_path: Path) -> None:
    cell = "          Offline: {target_qps: 100, min_query_count: 100}\n"
    here.edit(SPEC, cell, cell.replace("100,", "200,") + "          SingleStream: {min_query_count: 100}\n")
    save(here.look(select=("scenario=Offline",)).plan, tmp_path / "plan.json")
    done = apply(here, tmp_path / "plan.json")
    assert "Run performance" in done
    assert "Run accuracy" not in done
    left = {step.change.address.cell.scenario for step in here.look().plan.steps if step.change.address.cell}
    assert left == {"SingleStream"}


def test_saved_plan_of_another_spec_is_refused_and_nothing_is_done(here: Repository, tmp_path: Path) -> None:
    save(here.look().plan, tmp_path / "plan.json")
    here.edit(SPEC, "target_qps: 100,", "target_qps: 200,")
    records = set(here.records())
    with pytest.raises(StalePlanError, match="spec changed"):
        apply(here, tmp_path / "plan.json")
    assert set(here.records()) == records


def test_saved_plan_from_before_other_records_is_refused(here: Repository, tmp_path: Path) -> None:
    here.edit(SPEC, "target_qps: 100,", "target_qps: 200,")
    save(here.look().plan, tmp_path / "plan.json")
    here.reconcile()
    with pytest.raises(StalePlanError, match="records or decisions changed"):
        apply(here, tmp_path / "plan.json")


# -- where a pass is started, and what it renders -------------------------------------------------------------------


def test_folder_of_caller_does_not_matter(here: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in (here.root / "specs", tmp_path):
        monkeypatch.chdir(folder)
        assert here.look().plan.in_sync


def test_rendering_ignores_zone_and_language(here: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees = [here.tree()]
    for zone, language in (("Pacific/Kiritimati", "C"), ("America/New_York", "tr_TR.UTF-8")):
        monkeypatch.setenv("TZ", zone)
        monkeypatch.setenv("LC_ALL", language)
        copied = here.copy(tmp_path / zone.replace("/", "-"))
        copied.reconcile()
        trees.append(copied.tree())
    assert trees[0]
    assert trees[0] == trees[1] == trees[2]
    everything = b"".join(path.read_bytes() for path in here.paths.tree.rglob("*") if path.is_file())
    for private in (str(here.root), "lab box CPU"):
        assert private.encode() not in everything
