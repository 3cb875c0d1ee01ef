"""`reconcile import`: what is recorded of a run made elsewhere, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.importing import log_folder, log_tree
from reconciler.importing.adopted_records import ImportRecorder
from reconciler.loadgen.log import DetailLog
from reconciler.record.index import load
from reconciler.record.store import find_readable
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import REDUNDANT_LOGS
from reconciler.storage.files import RepositoryPaths

from .conftest import CELL, Reconcile, commit, edit, git

DETAIL = "mlperf_log_detail.txt"


def export(source: Path, folder: Path, mode: str) -> Path:
    """The logs of a recorded run as LoadGen wrote them, with its user.conf."""
    paths = RepositoryPaths(source)
    folder.mkdir(parents=True)
    recorded = load(paths).recorded
    for artifact in recorded.by_address[Address(Kind.RUN, f"{CELL}/{mode}")][-1].artifacts:
        if "truncated" not in artifact.name and artifact.name not in REDUNDANT_LOGS:
            shutil.copyfile(find_readable(paths, artifact), folder / artifact.name)
    if mode == "accuracy":
        score = recorded.by_address[Address(Kind.SCORE, CELL)][-1].artifacts[0]
        shutil.copyfile(find_readable(paths, score), folder / score.name)
    return folder


@pytest.fixture
def logs(recorded_once: Path, tmp_path: Path) -> dict[str, Path]:
    return {mode: export(recorded_once, tmp_path / "colleague" / mode, mode) for mode in ("performance", "accuracy")}


def imported(reconcile: Reconcile, logs: dict[str, Path]) -> None:
    for mode in ("accuracy", "performance"):
        reconcile.succeed("import", str(logs[mode]), "--cell", "offline")


def test_an_imported_cell_is_in_sync(declared: Path, reconcile: Reconcile, logs: dict[str, Path]) -> None:
    before = {path: path.read_bytes() for path in logs["accuracy"].iterdir()}
    imported(reconcile, logs)
    out = reconcile.succeed("plan")
    assert "nothing to do" in out or "in sync" in out
    reconcile.succeed()
    tree = declared / ".reconcile/tree" / "open/Tester/results/box/digits/Offline"
    published = (tree / f"performance/run_1/{DETAIL}").read_bytes()
    assert published == (logs["performance"] / DETAIL).read_bytes()
    assert {path: path.read_bytes() for path in logs["accuracy"].iterdir()} == before
    assert all(path.stat().st_nlink == 1 for path in logs["accuracy"].iterdir())
    marks = reconcile.report("status")["cells"][0]["marks"]
    assert {"imported", "unknown code", "unknown engine"} <= set(marks)


def test_importing_again_records_nothing_new(declared: Path, reconcile: Reconcile, logs: dict[str, Path]) -> None:
    git(declared, "init", "--quiet")
    imported(reconcile, logs)
    first = sorted(path.name for path in (declared / "state/records").glob("*/*"))
    commit(declared)
    for mode, count in (("accuracy", 2), ("performance", 1)):
        said = reconcile.succeed("import", str(logs[mode]), "--cell", "offline")
        assert (said.count(": already recorded as "), said.count(": recorded as ")) == (count, 0)
    assert sorted(path.name for path in (declared / "state/records").glob("*/*")) == first


def test_what_is_unknown_is_declared_later(declared: Path, reconcile: Reconcile, logs: dict[str, Path]) -> None:
    imported(reconcile, logs)
    said = ["--declare", "code=commit 1", "--declare", "dataset=sha256 2", "--declare", "engine=sha256 3"]
    assert "--declare machine=…" in reconcile.succeed("import", "--cell", CELL, *said)
    assert [
        record["unknown"]
        for record in reconcile.report("import", "--cell", CELL, "--declare", "machine=node 7")["records"]
    ] == [[], [], []]
    assert reconcile("plan")[0] == 0
    reconcile()
    assert not [mark for mark in reconcile.report("status")["cells"][0]["marks"] if mark.startswith("unknown")]


def test_no_declaration_means_nothing(declared: Path, reconcile: Reconcile, logs: dict[str, Path]) -> None:
    code, _, err = reconcile("import", str(logs["accuracy"]), "--cell", CELL, "--declare", "weather=fine")
    assert (code, "code, dataset, engine, machine" in err) == (1, True)
    assert "has no imported runs" in reconcile.refuse("import", "--cell", CELL, "--declare", "code=x")
    assert reconcile("import", "--cell", CELL)[0] == 1


def test_a_score_is_made_where_none_came(declared: Path, reconcile: Reconcile, logs: dict[str, Path]) -> None:
    (logs["accuracy"] / "accuracy.txt").unlink()
    imported(reconcile, logs)
    code, out, _ = reconcile("plan")
    assert (code, "Score" in out, "Run " in out.split("Plan:")[0]) == (2, True, False)
    assert reconcile()[0] == 0


def test_contradictions_are_named(declared: Path, reconcile: Reconcile, logs: dict[str, Path]) -> None:
    edit(declared, "target_qps: 1000", "target_qps: 2000")
    edit(declared, "min_query_count: 512", "min_query_count: 600")
    err = reconcile.refuse("import", str(logs["performance"]), "--cell", CELL)
    assert "target_qps: expected 2000, LoadGen logged 1000" in err
    assert "min_query_count: expected 600, LoadGen logged 512" in err
    assert not list((declared / "state").glob("records/*/*"))


def test_a_conf_of_another_run_is_not_taken(declared: Path, reconcile: Reconcile, logs: dict[str, Path]) -> None:
    (logs["performance"] / "user.conf").write_text("*.Offline.target_qps = 7\n")
    out = reconcile.succeed("import", str(logs["performance"]), "--cell", CELL)
    assert "is not the conf of this run (target_qps: expected 7, LoadGen logged 1000" in out
    (logs["performance"] / "user.conf").unlink()
    assert "no user.conf" in reconcile.succeed("import", str(logs["performance"]), "--cell", CELL)


def refused(reconcile: Reconcile, folder: Path, reason: str) -> None:
    err = reconcile.refuse("import", str(folder), "--cell", CELL)
    assert reason in err
    assert "fix: " in err


def test_a_folder_without_its_summary(declared: Path, reconcile: Reconcile, logs: dict[str, Path]) -> None:
    (logs["performance"] / "mlperf_log_summary.txt").unlink()
    refused(reconcile, logs["performance"], "no mlperf_log_summary.txt")


def test_a_folder_with_two_runs(declared: Path, reconcile: Reconcile, logs: dict[str, Path]) -> None:
    refused(reconcile, logs["performance"].parent, "contains logs of 2 runs")
    (logs["performance"] / f"2026_{DETAIL}").write_bytes((logs["performance"] / DETAIL).read_bytes())
    refused(reconcile, logs["performance"], "contains logs of 2 runs")


def test_logs_of_two_runs(declared: Path, reconcile: Reconcile, logs: dict[str, Path]) -> None:
    summary = logs["performance"] / "mlperf_log_summary.txt"
    summary.write_text(summary.read_text().replace("Scenario : Offline", "Scenario : Server"))
    refused(reconcile, logs["performance"], "different runs")


def test_a_scenario_that_is_not_declared_is_named_as_its_folder(
    declared: Path, reconcile: Reconcile, logs: dict[str, Path]
) -> None:
    """LoadGen logs Interactive runs as Server."""
    folder = logs["performance"].parent / "box/digits/Interactive/performance/run_1"
    shutil.copytree(logs["performance"], folder)
    for path in (folder / DETAIL, folder / "mlperf_log_summary.txt"):
        text = path.read_text().replace('_scenario", "value": "Offline"', '_scenario", "value": "Server"')
        path.write_text(text.replace("Scenario : Offline", "Scenario : Server"))
    code, out, err = reconcile("import", str(folder.parents[2]))
    assert code != 0
    assert "the spec declares no Interactive of digits for box" in out + err


def test_an_audit(declared: Path, reconcile: Reconcile, logs: dict[str, Path]) -> None:
    detail = logs["performance"] / DETAIL
    line = {"key": "warning_generic_message", "value": "Found Audit Config file (audit.config)", "metadata": {}}
    line["metadata"] = {"is_warning": True}
    detail.write_text(detail.read_text() + f":::MLLOG {json.dumps(line)}\n")
    refused(reconcile, logs["performance"], "is a compliance test")


@pytest.mark.parametrize("whole", [False, True])
def test_a_file_that_disappears_while_it_is_read(
    whole: bool, declared: Path, reconcile: Reconcile, logs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = logs["performance"] / "mlperf_log_summary.txt"
    judge = log_folder._check_same_run

    def lose(log: DetailLog, folder: Path) -> None:
        if folder == gone.parent:
            gone.unlink()
        judge(log, folder)

    monkeypatch.setattr(log_folder, "_check_same_run", lose)
    where = [str(gone.parent.parent)] if whole else [str(gone.parent), "--cell", "offline"]
    code, out, err = reconcile("import", *where)
    assert (code, f"{gone} disappeared" in out + err) == (2 if whole else 1, True), out + err
    assert "import it again" in out + err
    kinds = {
        record.address.part for found in load(RepositoryPaths(declared)).recorded.by_key.values() for record in found
    }
    assert "performance" not in kinds


def test_a_folder_that_disappears_during_the_search(
    declared: Path, reconcile: Reconcile, logs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = log_tree.walk_files

    def lose(folder: Path) -> Iterator[Path]:
        for path in walk(folder):
            shutil.rmtree(logs["performance"], ignore_errors=True)
            yield path

    monkeypatch.setattr(log_tree, "walk_files", lose)
    assert f"{logs['performance']} disappeared" in reconcile.refuse("import", str(logs["performance"].parent))
    assert not (declared / "state/records").exists()


def test_a_run_that_did_not_end(declared: Path, reconcile: Reconcile, logs: dict[str, Path]) -> None:
    detail = logs["performance"] / DETAIL
    lines = [line for line in detail.read_text().splitlines() if "result_validity" not in line]
    detail.write_text("\n".join(lines) + "\n")
    refused(reconcile, logs["performance"], "ends without a result")


def test_an_invalid_run_is_recorded_as_such(declared: Path, reconcile: Reconcile, logs: dict[str, Path]) -> None:
    for name in (DETAIL, "mlperf_log_summary.txt"):
        path = logs["performance"] / name
        text = path.read_text().replace('"result_validity", "value": "VALID"', '"result_validity", "value": "INVALID"')
        text = text.replace('"result_min_queries_met", "value": true', '"result_min_queries_met", "value": false')
        text = text.replace("Min queries satisfied : Yes", "Min queries satisfied : No")
        path.write_text(text.replace("Result is : VALID", "Result is : INVALID"))
    code, out, _ = reconcile("import", str(logs["performance"]), "--cell", CELL)
    assert code == 2
    assert "INVALID" in out
    code, out, _ = reconcile("plan")
    assert (code, "INVALID" in out or "Invalid" in out) == (2, True)


def test_a_truncated_log_needs_its_hash(declared: Path, reconcile: Reconcile, logs: dict[str, Path]) -> None:
    log = logs["accuracy"] / "mlperf_log_accuracy.json"
    data = log.read_bytes()
    log.write_bytes(data[:1024] + b"\n\n...\n\n" + data[-1024:])
    refused(reconcile, logs["accuracy"], "is truncated")
    (logs["accuracy"] / "accuracy.txt").write_text(f"accuracy=100.000%, good=1024, total=1024\nhash={'9' * 40}\n")
    refused(reconcile, logs["accuracy"], "is not a SHA-256")
    text = logs["accuracy"] / "accuracy.txt"
    text.write_text(f"{text.read_text()}\nhash={'ab' * 32}\n")
    assert reconcile("import", str(logs["accuracy"]), "--cell", CELL)[0] == 0
    assert reconcile("import", str(logs["performance"]), "--cell", CELL)[0] == 0
    assert reconcile()[0] == 0
    rendered = declared / ".reconcile/tree/open/Tester/results/box/digits/Offline/accuracy"
    assert (rendered / "accuracy.txt").read_bytes() == text.read_bytes()
    assert (rendered / log.name).read_bytes() == log.read_bytes()


@pytest.mark.parametrize("end", [0.5, -2, -1])
def test_a_log_of_answers_that_is_cut_short_is_named(
    end: float, declared: Path, reconcile: Reconcile, logs: dict[str, Path]
) -> None:
    log = logs["accuracy"] / "mlperf_log_accuracy.json"
    data = log.read_bytes().rstrip()
    log.write_bytes(data[: int(len(data) * end) if end > 0 else int(end)])
    refused(reconcile, logs["accuracy"], f"{log} is cut short")
    assert not list((declared / "state/records").glob("Run/*"))


def test_a_run_of_no_declared_cell(declared: Path, reconcile: Reconcile, logs: dict[str, Path]) -> None:
    assert "matches" in reconcile.refuse("import", str(logs["performance"]), "--cell", "open/box/digits/Serve")


def test_a_changed_spec_makes_imports_stale(declared: Path, reconcile: Reconcile, logs: dict[str, Path]) -> None:
    imported(reconcile, logs)
    edit(declared, "target_qps: 1000", "target_qps: 2000")
    code, out, _ = reconcile("plan")
    assert (code, "Run performance" in out, "Run accuracy" in out) == (2, True, False)


def test_a_run_is_imported_for_one_system(
    declared: Path, reconcile: Reconcile, logs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = CELL.replace("box", "crate")
    crate = "    crate: {category: edge, status: available}\n"
    edit(declared, "    box:\n      category", f"{crate}    box:\n      category")
    cell = "Offline: {target_qps: 1000, min_duration: 0, min_query_count: 512}"
    edit(declared, f"          {cell}\n", f"          {cell}\n      crate: {{digits: {{{cell}}}}}\n")
    for mode in ("accuracy", "performance"):
        reconcile.succeed("import", str(logs[mode]), "--cell", CELL)
        err = reconcile.refuse("import", str(logs[mode]), "--cell", other)
        assert f"is already recorded as Run:{CELL}/{mode}: state/records/Run/" in err
        reconcile.succeed("import", str(logs[mode]), "--cell", CELL)  # still the same run
    # As an older version recorded it for both.
    monkeypatch.setattr(ImportRecorder, "_refuse_claimed", lambda *_: None)
    for mode in ("accuracy", "performance"):
        reconcile.succeed("import", str(logs[mode]), "--cell", other)
    findings = reconcile.report("plan")["findings"]
    copied = {(where, message.partition(":")[0]) for _, where, message, *_ in findings}
    runs = [f"Run:{name}/{mode}" for name in (CELL, other) for mode in ("accuracy", "performance")]
    assert copied == {(run, "run.copied") for run in runs}
