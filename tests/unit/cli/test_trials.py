"""Trials and quick runs: recorded alongside everything that is published, and never among it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.publish.preconditions import find_refused_cells
from reconciler.reconcile.planning import Options, compute_plan
from reconciler.record.index import load, load_record
from reconciler.resource.conditions import CellStatus, Condition, ConditionStatus
from reconciler.resource.kinds import Cell
from reconciler.storage.files import RepositoryPaths, TrialPaths
from tests.processes import wait_for
from tests.shared import copy_folder, make_once
from tests.unit.cli.conftest import CELL, SPEC, Reconcile, enter_copy, git
from tests.warm.commands import run_command, start_command


@pytest.fixture(scope="session")
def tried_once(recorded_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One recorded cell, and one trial of it with another rate. Not to be changed."""

    def make(folder: Path) -> Path:
        root = copy_folder(recorded_once, folder / "repository")
        ended = run_command(["try", "digits", "target_qps=700", "min_query_count=600"], root)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return root

    return make_once(tmp_path_factory, "tried", make)


@pytest.fixture
def tried(tried_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter_copy(tried_once, tmp_path, monkeypatch)


def list_published(root: Path) -> Mapping[str, bytes]:
    """What is in git, and the rendered tree."""
    folders = (root / "state", root / "specs", root / ".reconcile/tree")
    return {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


def test_a_trial_is_recorded_on_top_of_results(recorded_once: Path, tried: Path, reconcile: Reconcile) -> None:
    before = {path.removeprefix(str(recorded_once)): data for path, data in list_published(recorded_once).items()}
    after = {path.removeprefix(str(tried)): data for path, data in list_published(tried).items()}
    assert after == before
    assert git(tried, "status", "--porcelain") == ""
    runs = reconcile.report("history", "digits", "--trials")["trials"]
    assert [run["settings"]["target_qps"] for run in runs] == [700]
    assert isinstance(runs[0]["metric"]["value"], float)
    assert not {type(margin[name]) for margin in runs[0]["margins"] for name in ("measured", "limit", "headroom")} & {
        str
    }
    assert {"trial", "rehearsal"} <= set(runs[0]["marks"])


def test_nothing_that_publishes_knows_of_a_trial(tried: Path, reconcile: Reconcile) -> None:
    with_trial = [reconcile.report(*words) for words in (["plan"], ["status"], ["check"], ["history", "digits"])]
    shutil.rmtree(tried / ".reconcile/trials")
    assert [
        reconcile.report(*words) for words in (["plan"], ["status"], ["check"], ["history", "digits"])
    ] == with_trial


def test_a_trial_that_somebody_puts_among_the_records_still_counts_for_nothing(tried: Path) -> None:
    paths, there = RepositoryPaths(tried), TrialPaths(tried)
    before = compute_plan(paths, Options())
    moved = [path for path in there.records.glob("Run/*.json") if not (paths.records / "Run" / path.name).exists()]
    for path in moved:
        shutil.copy(path, paths.records / "Run" / path.name)
    shutil.copytree(there.logs, paths.logs, dirs_exist_ok=True)
    after = compute_plan(paths, Options())
    assert len(moved) == 1
    assert after.plan.in_sync
    assert after.difference.chosen == before.difference.chosen
    assert after.recorded.by_address == before.recorded.by_address


def test_a_trial_has_another_key_than_the_run_it_is_like(tried: Path) -> None:
    trial = next(TrialPaths(tried).records.glob("Run/*.json"))
    record = load_record(TrialPaths(tried), f"Run/{trial.stem}")
    assert record.inputs["trial"].value == "full"
    assert not load(RepositoryPaths(tried)).recorded.list_done(record.key)


@pytest.mark.parametrize("mark", ["trial", "quick"])
def test_a_cell_with_such_a_mark_is_not_packed(mark: str) -> None:
    ready = (Condition("Ready", ConditionStatus.TRUE, "Measured"),)
    found = find_refused_cells([CellStatus(Cell.parse(CELL), ready, marks=(mark,))], [])
    assert [refusal.where for refusal in found] == [CELL]


def test_the_logs_of_a_trial_are_kept_until_trials_are_collected(tried: Path, reconcile: Reconcile) -> None:
    reconcile.succeed("gc")
    logs = reconcile.report("logs", "digits", "--trials")["logs"]
    assert {"mlperf_log_summary.txt", "mlperf_log_detail.txt"} <= {str(log["name"]).rpartition("/")[2] for log in logs}
    assert "target_qps : 700" in reconcile.succeed("logs", "digits", "--trials", "--print", "mlperf_log_summary.txt")
    assert reconcile.report("gc", "--trials")["trials"] == 1
    assert reconcile.report("history", "digits", "--trials")["trials"] == []
    assert reconcile("plan")[0] == 0


def test_a_selection_is_tried_cell_by_cell(recorded: Path, reconcile: Reconcile) -> None:
    path = recorded / "specs/one.yaml"
    short = "{min_duration: 0, min_query_count: 64}"
    cells = f"Offline: {{infer_from: SingleStream}}, SingleStream: {short}, MultiStream: {short}"
    path.write_text(f"{SPEC[: SPEC.index('        digits:', SPEC.index('  divisions:'))]}        digits: {{{cells}}}\n")
    found = reconcile.report("try", "scenario=*Stream", "run.streams=1")
    trials = found["trials"]
    assert [trial["cell"] for trial in trials] == [f"open/box/digits/{name}Stream" for name in ("Single", "Multi")]
    assert len({trial["trial"]["id"] for trial in trials}) == 2
    assert reconcile.report("try", "open/*/Multi*")["cell"] == "open/box/digits/MultiStream"
    assert "matches 3 cells" in reconcile.refuse("try", "digits")
    assert reconcile("try", "scenario=Serve*")[0] == 1


def test_a_setting_that_is_none_is_named_with_its_place(recorded: Path, reconcile: Reconcile) -> None:
    err = reconcile.refuse("try", "digits", "target_qsp=700")
    assert "target_qsp" in err
    assert "target_qps" in err
    assert "specs/" not in err
    assert reconcile("try", "digits", "700")[0] != 0
    assert not (recorded / ".reconcile/trials/records/Run").exists()


@pytest.mark.parametrize(
    ("setting", "fix"), [("target_qps=abc", "write a rate"), ("batch_size=4", "write engine.batch_size=4")]
)
def test_a_wrong_setting_is_refused_before_anything_is_made(
    setting: str, fix: str, declared: Path, reconcile: Reconcile
) -> None:
    assert fix in reconcile.refuse("try", "digits", setting)
    assert not (declared / "state/records").exists() or not list((declared / "state/records").iterdir())


def test_a_quick_pass_leaves_what_is_published_as_it_is(recorded: Path, reconcile: Reconcile) -> None:
    path = recorded / "specs/one.yaml"
    path.write_text(SPEC.replace("min_query_count: 512", "min_query_count: 4096"))
    before = list_published(recorded)
    assert reconcile("plan", "--quick")[0] == 2
    assert "never published" in reconcile.succeed("--quick")
    assert reconcile("plan", "--quick")[0] == 0
    assert list_published(recorded) == before
    assert reconcile("plan")[0] == 2  # the real run is still to be made
    marks = {mark for found in load(TrialPaths(recorded)).recorded.by_key.values() for s in found for mark in s.marks}
    assert {"trial", "quick"} <= marks


def test_a_quick_run_may_have_a_duration(recorded: Path, reconcile: Reconcile) -> None:
    path = recorded / "specs/one.yaml"
    path.write_text(SPEC.replace("min_duration: 0, ", ""))
    durations = {}
    for option in ("--quick", "--quick=60s", "--quick=2 min"):
        plan = reconcile.report("plan", option, "scenario=Offline")
        steps = plan["steps"]
        durations[option] = json.dumps(steps)
        assert steps
    assert len({*durations.values()}) == 3
    for wrong in ("--quick=60", "--quick=soon", "--quick=0s"):
        assert "--quick" in reconcile.refuse("plan", wrong)


def test_quick_runs_are_not_committed_nor_planned_for_later(recorded: Path, reconcile: Reconcile) -> None:
    assert reconcile("--quick", "--commit")[0] != 0
    assert reconcile("plan", "--quick", "-o", "plan.json")[0] != 0
    assert not (recorded / "plan.json").exists()


def test_tune_chooses_among_candidates_and_proposes_the_edit(recorded: Path, reconcile: Reconcile) -> None:
    before = (recorded / "specs/one.yaml").read_text()
    found = reconcile.report("tune", "digits", "--vary", "run.batch_size=1,8", "--quick", "-o", "tuned.patch")
    assert found["settled"]
    assert found["made"] >= 2
    assert found["settings"]["run.batch_size"] in (1, 8)
    assert (recorded / "specs/one.yaml").read_text() == before
    git(recorded, "apply", "tuned.patch")
    assert f"batch_size: {found['settings']['run.batch_size']}" in (recorded / "specs/one.yaml").read_text()
    again = reconcile.report("history", "digits", "--trials")["trials"]
    assert len(again) == found["made"]


def test_tune_ends_with_its_budget_and_goes_on_from_what_is_recorded(recorded: Path, reconcile: Reconcile) -> None:
    found = reconcile.report("tune", "digits", "--trials", "1", "--quick")
    assert not found["settled"]
    assert found["made"] == 1
    again = reconcile.report("tune", "digits", "--quick")
    assert again["known"] == 1
    assert again["settled"]
    assert reconcile("tune", "digits", "--for", "2")[0] != 0
    assert reconcile("tune", "digits", "--vary", "target_qps=1,2")[0] != 0


def test_a_search_killed_in_a_trial_loses_that_trial_alone(recorded: Path, reconcile: Reconcile) -> None:
    before = list_published(recorded)
    there, words = TrialPaths(recorded), ("tune", "digits", "--vary", "run.batch_size=1,8", "--busy")
    search = start_command(words, recorded, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def is_in_second_trial() -> bool:
        assert search.poll() is None
        made = list((there.records / "Run").glob("*.json"))
        started = {path.parent.name for path in there.attempts.glob("*/request.json")}
        return bool(made) and bool(started - {load_record(there, f"Run/{path.stem}").attempt for path in made})

    try:
        wait_for(is_in_second_trial)
    finally:
        os.killpg(search.pid, signal.SIGKILL)
        search.wait()
    kept = len(list((there.records / "Run").glob("*.json")))
    assert kept >= 1
    assert list_published(recorded) == before
    assert reconcile("plan")[0] == 0
    found = reconcile.report(*words)
    assert found["known"] in (kept, kept + 1)  # one whose result was whole when the kill came is taken over
    assert found["settled"]
    assert not list(there.attempts.glob("*/attempt.json"))
    assert list_published(recorded) == before
    assert reconcile("plan")[0] == 0
