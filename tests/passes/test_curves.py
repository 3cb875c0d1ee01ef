"""A curve of MLPerf Endpoints through whole passes, with real processes for its client and its server."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reconciler.cli.main import main
from reconciler.diff.change import Work
from reconciler.diff.claims import Proof
from reconciler.diff.conditions import summarise_cells
from reconciler.endpoints.rules.regions import CHOICE
from reconciler.execute.outcome import Status
from reconciler.history.audit import audit
from reconciler.history.snapshot import read_snapshot
from reconciler.reconcile.planning import PlanResult
from reconciler.record.judgements import judge_record
from reconciler.resource.conditions import ConditionStatus
from reconciler.resource.kinds import Address
from tests.passes.curve import AGENTIC, make_curve
from tests.passes.repository import SPEC, Repository
from tests.shared import make_once

CELL = "standardized/box/oss"
POINTS = (1, 2, 3, 5, 10, 25, 40, 64)
TOP = "ACME/pending-submission-id/results/box/gpt-oss-120b"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return make_once(tmp_path_factory, "curve", _measure)


def _measure(folder: Path, *changes: tuple[str, str]) -> Repository:
    repository = make_curve(folder / "repository", *changes)
    outcomes = repository.reconcile().outcomes
    assert {o.status for o in outcomes} == {Status.DONE}, [o.message for o in outcomes]
    return repository


def list_work(seen: PlanResult) -> dict[str, Work]:
    return {str(change.address): change.how for change in seen.difference.changes}


def list_made(seen: PlanResult) -> set[str]:
    return {address for address, how in list_work(seen).items() if how is Work.MAKE}


def test_a_second_pass_has_nothing_to_do(measured: Repository) -> None:
    seen = measured.look()
    assert list_work(seen) == {}
    assert seen.difference.findings == ()
    for status in summarise_cells(seen.desired, seen.recorded, seen.observed, seen.difference):
        assert status.ready is ConditionStatus.TRUE
        assert status.metric is not None
        assert status.marks == ("rehearsal",)


def test_accuracy_is_measured_right_after_its_point_and_only_where_the_rules_ask(measured: Repository) -> None:
    runs = sorted((r.started, str(r.address)) for r in measured.records().values() if str(r.address).startswith("Run:"))
    order = [address.removeprefix(f"Run:{CELL}/") for _, address in runs]
    scored = [name for name in order if name.endswith("accuracy")]
    assert len(scored) == 4
    for name in scored:
        assert order[order.index(name) - 1] == name.replace("accuracy", "performance")


def test_every_point_was_asked_of_one_server(measured: Repository) -> None:
    assert len([r for r in measured.records().values() if str(r.address).startswith("Service:")]) == 1


def test_the_rendered_points_say_what_ran(measured: Repository) -> None:
    tree = measured.tree()
    for point in POINTS:
        assert f"{TOP}/r{point}/result_summary.json" in tree
        described = read_point(measured, point)
        assert described["concurrency"] == point
        assert described["max_supported_concurrency"] == 64
        assert described["link_to_model"] == "https://models/oss"
        assert described.get("offline") == ("elected" if point == 64 else None)
    assert len([path for path in tree if path.endswith("accuracy_results.json")]) == 4


def test_a_hand_edited_point_is_found_and_repaired(measured: Repository, tmp_path: Path) -> None:
    repository = measured.copy(tmp_path / "edited")
    before = repository.tree()
    path = repository.paths.tree / f"{TOP}/r10/point.yaml"
    path.write_text(path.read_text().replace("concurrency: 10", "concurrency: 12"))
    assert list_work(repository.look()) == {f"Result:{CELL}/c10": Work.RENDER}
    repository.reconcile()
    assert repository.tree() == before


def test_a_removed_point_only_renders(measured: Repository, tmp_path: Path) -> None:
    repository = measured.copy(tmp_path / "removed")
    repository.edit(SPEC, "25, 40, 64]", "25, 64]")
    assert set(list_work(repository.look()).values()) == {Work.RENDER}
    repository.reconcile()
    assert not [path for path in repository.tree() if "/r40/" in path]
    assert list_work(repository.look()) == {}


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [(SPEC, "--flag=one", "--flag=two"), ("server/serve.py", "b'{", "b' {"), ("model.bin", "weights", "others")],
    ids=["flag", "code of the server", "weights"],
)
def test_another_stack_makes_every_point_stale_and_none_measured_before_enters(
    measured: Repository, tmp_path: Path, path: str, old: str, new: str
) -> None:
    repository = measured.copy(tmp_path / "other")
    repository.edit(path, old, new)
    seen = repository.look()
    runs = {f"Run:{CELL}/c{point}/performance" for point in POINTS}
    assert runs <= list_made(seen)
    assert not any(chosen.performance or chosen.accuracy for chosen in seen.difference.chosen.values())


def test_a_dedicated_offline_run_is_one_more_point_and_nodes_are_distinguished(
    measured: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing else is measured again: the point at the maximum is only no longer elected."""
    repository = measured.copy(tmp_path / "offline")
    nodes = "node_types: {prefill: {number_of_nodes: 2, accelerators_per_node: 8}, decode: {number_of_nodes: 1}}"
    repository.edit(SPEC, "{serving_framework: none}", f"{{serving_framework: none}}, {nodes}")
    points = "points: {1: {nodes_used: {prefill: 1}}, 2: , 3: , 5: , 10: , 25: , 40: , 64: , offline: }"
    repository.edit(SPEC, "points: [1, 2, 3, 5, 10, 25, 40, 64]", points)
    made = {address.partition(f"{CELL}/")[2] for address in list_made(repository.look()) if address.startswith("Run:")}
    assert made == {"c80/performance", "c80/accuracy"}
    assert {o.status for o in repository.reconcile().outcomes} == {Status.DONE}
    described, first = (read_point(repository, point) for point in (80, 1))
    assert (described["offline"], described["region"], described["concurrency"]) == ("dedicated", CHOICE, 80)
    assert described["runtime_settings"]["load_pattern"] == "max_throughput"
    assert "offline" not in read_point(repository, 64)
    assert first["nodes_used"] == [{"system_node_ensemble_id": 2, "nodes": 1}]
    system = json.loads((repository.paths.tree / f"{TOP}/r1/system_desc.json").read_text())
    assert [node["number_of_nodes"] for node in system["node_types"]] == [1, 2]
    assert system["node_types"][1]["accelerator_info"] == [{"accelerators_per_node": 8}]
    assert (system["system_node_ensemble_total"], system["system_size"]) == (3, "0 accelerators + 16 accelerators")
    monkeypatch.chdir(repository.root)
    main(["check", str(repository.paths.tree)])
    refused = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("curve.")}
    assert not refused & {"curve.offline-point-present", "curve.point-count", "curve.accuracy-coverage"}


def read_point(repository: Repository, point: int) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load((repository.paths.tree / f"{TOP}/r{point}/point.yaml").read_text())
    return found


def test_one_point_measured_on_another_stack_does_not_join_the_curve(measured: Repository, tmp_path: Path) -> None:
    """Its record is there, and valid; its key is not the one that the curve asks for."""
    repository = measured.copy(tmp_path / "mixed")
    repository.edit(SPEC, "--flag=one", "--flag=two")
    repository.reconcile(select=("scenario=c25",))
    repository.edit(SPEC, "--flag=two", "--flag=one")
    seen = repository.look()
    assert len(seen.recorded.by_address[_address("c25")]) == 2
    assert list_made(seen) == set()
    chosen = {cell.scenario: records.performance for cell, records in seen.difference.chosen.items()}
    assert chosen["c25"] == seen.recorded.by_address[_address("c25")][0].id


def test_history_names_the_flag_by_which_two_stacks_differ(
    measured: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = measured.copy(tmp_path / "two")
    repository.write(".gitignore", ".reconcile/\n__pycache__/\n")
    repository.commit()
    repository.edit(SPEC, "--flag=one", "--flag=two")
    repository.reconcile(select=("scenario=c25",))
    repository.commit()
    monkeypatch.chdir(repository.root)
    changed = ["Service", "harness.service.command", "--flag=one", "→", "--flag=two"]
    assert main(["blame", "c25"]) == 0
    assert [line.split()[:5] for line in capsys.readouterr().out.splitlines()[2:3]] == [changed]
    assert main(["diff", "HEAD~1..HEAD"]) == 2
    lines = capsys.readouterr().out.splitlines()
    order = [line.partition("  ")[0] for line in lines if line.startswith(CELL)]
    assert order == [f"{CELL}/c{point}" for point in POINTS]
    assert lines[lines.index(f"{CELL}/c25") + 1].split()[:5] == changed
    assert lines[lines.index(f"{CELL}/c25") + 2].startswith("  result"), "the change is reported once"
    assert main(["compare", "HEAD~1", str(repository.paths.tree)]) == 0
    assert f"Curve {CELL}:" in capsys.readouterr().out


def _address(point: str) -> Address:
    return Address.parse(f"Run:{CELL}/{point}/performance")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return make_once(tmp_path_factory, "agentic", lambda folder: _measure(folder, *AGENTIC))


def test_a_curve_of_an_agentic_benchmark_is_measured_and_published(
    played: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every point has the score of its performance run, one in each region SWE-bench's, and none counts as Offline."""
    seen = played.look()
    assert list_work(seen) == {}
    assert seen.difference.findings == ()
    cells = summarise_cells(seen.desired, seen.recorded, seen.observed, seen.difference)
    assert {cell.ready for cell in cells} == {ConditionStatus.TRUE}
    top, scored = played.paths.tree / TOP.replace("gpt-oss-120b", "kimi-k3"), []
    for point in POINTS:
        described = YAML(typ="safe").load((top / f"r{point}/point.yaml").read_text())
        assert described["runtime_settings"]["load_pattern"] == "agentic_inference"
        assert "offline" not in described
        entries = json.loads((top / f"r{point}/accuracy_results.json").read_bytes())["accuracy_scores"]
        assert (entries[0]["dataset_type"], entries[0]["score"]) == ("performance", 0.6)
        scored += [point for entry in entries[1:] if (entry["dataset_name"], entry["score"]) == ("swe_bench", 0.94)]
    assert len(scored) == 4
    monkeypatch.chdir(played.root)
    main(["check", str(played.paths.tree), "--all"])
    refused = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("curve.")}
    assert not [name for name in refused if name.startswith(("curve.agentic", "curve.accuracy", "curve.offline"))]


def test_a_performance_run_without_its_inline_score_is_no_point(played: Repository, tmp_path: Path) -> None:
    repository = played.copy(tmp_path / "unscored")
    repository.write("lie", "no inline score")
    report = repository.reconcile(rerun=("scenario=c2",), select=("scenario=c2",))
    outcome = next(o for o in report.outcomes if str(o.step.change.address) == f"Run:{CELL}/c2/performance")
    assert "agentic-accuracy-inline" in outcome.message


@pytest.mark.parametrize(
    ("lie", "status", "message"),
    [
        ("other concurrency", Status.FAILED, "target_concurrency: expected 25, config.yaml says 26"),
        pytest.param(*("failed sample", Status.DONE, "failed-samples: 1 sample failed"), marks=pytest.mark.slow),
        pytest.param(*("other model", Status.FAILED, "serves other, and not oss"), marks=pytest.mark.slow),
        pytest.param(*("other run", Status.FAILED, "config.yaml says elsewhere"), marks=pytest.mark.slow),
        pytest.param(*("more tokens", Status.DONE, ""), marks=pytest.mark.slow),
    ],
)
def test_a_client_that_ran_something_else_is_not_believed(
    measured: Repository, tmp_path: Path, lie: str, status: Status, message: str
) -> None:
    repository = measured.copy(tmp_path / "lying")
    repository.write("lie", lie)
    report = repository.reconcile(rerun=("scenario=c25",), select=("scenario=c25",))
    outcome = next(o for o in report.outcomes if str(o.step.change.address) == f"Run:{CELL}/c25/performance")
    assert outcome.status is status
    assert message in outcome.message
    if lie == "more tokens":
        found = [judge_record(repository.paths, i) for i in repository.records_of(str(outcome.step.change.address))]
        assert {item.rule for judgement in found for item in judgement.findings} == {"summary.events"}


def test_status_reports_of_the_curve_what_its_cells_do_not(
    measured: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(measured.root)
    assert main(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = lines.index(f"Curve {CELL}: 8 of 8 points measured, up to 64 requests at a time")
    assert [line.split() for line in lines[start + 1 : start + 5]] == [
        ["Ultra", "Low", "Concurrency", "1-32", "1,", "2,", "3,", "5,", "10", "and", "25"],
        ["Low", "Concurrency", "2-5", "2,", "3", "and", "5"],
        ["Medium", "Concurrency", "6-17", "10"],
        ["High", "Concurrency", "18-64", "25,", "40", "and", "64"],
    ]
    assert any(line.startswith("  One more point takes about") for line in lines)


def test_an_audit_proves_every_point_and_a_rehearsal_is_not_packed(
    measured: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = measured.copy(tmp_path / "committed")
    repository.write(".gitignore", ".reconcile/\n__pycache__/\n")
    repository.commit()
    report = audit(repository.root, read_snapshot(repository.root, "HEAD"))
    assert not [claim for claim in report.claims if claim.proof in (Proof.CONTRADICTED, Proof.MISSING)]
    assert {claim.where for claim in report.claims} >= {f"{CELL}/c{point}" for point in POINTS}
    monkeypatch.chdir(repository.root)
    assert main(["package"]) == 1
    assert "rehearsal" in capsys.readouterr().out


def test_a_clone_without_client_weights_and_data_is_in_sync(measured: Repository, tmp_path: Path) -> None:
    repository = measured.copy(tmp_path / "clone")
    for path in ("client", "server", ".reconcile"):
        shutil.rmtree(repository.root / path)
    for path in ("model.bin", "prompts.jsonl", "questions.jsonl"):
        (repository.root / path).unlink()
    assert list_work(repository.look()) == {}


def test_other_questions_are_asked_again_and_nothing_is_timed_again(measured: Repository, tmp_path: Path) -> None:
    repository = measured.copy(tmp_path / "questions")
    repository.write("questions.jsonl", '{"prompt": "0", "answer": "b"}\n')
    made = list_made(repository.look())
    assert {address.rpartition("/")[2] for address in made if address.startswith("Run:")} == {"accuracy"}
