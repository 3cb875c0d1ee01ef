"""Each contradiction is found with both places, the likely cause, and nothing else next to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from reconciler.resource.rules import Severity
from reconciler.tree.findings import Place, TreeFinding
from reconciler.verify.engine import verify_tree
from tests.unit.check.made import change_system, set_log, write

CELLS = "closed/Acme/results/sys1/resnet"


def cell(root: Path, scenario: str = "Offline") -> Path:
    return root / CELLS / scenario


def run(root: Path, scenario: str = "Offline", folder: str = "performance/run_1") -> Path:
    return cell(root, scenario) / folder


def conf(text: str, root: Path, scenario: str = "Offline") -> None:
    """Put lines over the conf's own; a later line of the same name wins."""
    path = cell(root, scenario) / "user.conf"
    write(path, path.read_text() + text)


def replaced(path: str, old: str, new: str, root: Path) -> None:
    target = cell(root) / path
    text = target.read_text()
    assert old in text
    write(target, text.replace(old, new, 1))


def make_folder(path: str, root: Path) -> None:
    (cell(root) / path).unlink()
    (cell(root) / path).mkdir()


def logged(key: str, value: object, folder: str, root: Path) -> None:
    set_log(run(root, "Offline", folder), key, value)


def copied(old: str, new: str, root: Path) -> None:
    shutil.copyfile(root / CELLS / old, root / CELLS / new)


def percentile(logged: str, root: Path) -> None:
    """Wrong in what was asked for and in what came of it alike, so that the log agrees with itself."""
    folder = run(root, "SingleStream")
    set_log(folder, "requested_single_stream_target_latency_percentile", logged)
    set_log(folder, "effective_target_latency_percentile", logged)


def open_percentile(root: Path) -> None:
    percentile("0.5", root)
    (root / "closed").rename(root / "open")


def foreign_summary(root: Path) -> None:
    copied(
        "SingleStream/performance/run_1/mlperf_log_summary.txt",
        "Offline/performance/run_1/mlperf_log_summary.txt",
        root,
    )


def measured(root: Path, **fields: str) -> None:
    path = cell(root) / "measurements.json"
    write(path, json.dumps({**json.loads(path.read_text()), **fields}, indent=2))


def rounded(root: Path) -> None:
    """A target that LoadGen logged with more digits than the conf has."""
    logged("effective_target_qps", 1000.4, "performance/run_1", root)
    replaced("performance/run_1/mlperf_log_summary.txt", "target_qps : 1000", "target_qps : 1000.4", root)


def copied_test(root: Path) -> None:
    for name in ("mlperf_log_detail.txt", "mlperf_log_summary.txt"):
        copied(f"Offline/TEST01/performance/run_1/{name}", f"Offline/TEST04/performance/run_1/{name}", root)


def _write_bare_pass(root: Path, file: str) -> None:
    write(cell(root) / file, "TEST PASS\n")


@dataclass(frozen=True)
class Case:
    """``line`` is part of the line that the complaint names, and ``other`` of the line that contradicts it."""

    name: str
    change: Callable[[Path], None]
    rule: str
    severity: Severity = Severity.ERROR
    line: str = ""
    other: str = ""


ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
CASES = (
    Case(
        "target",
        partial(conf, "*.Offline.target_qps = 500\n"),
        "user-conf.contradicts",
        line="*.Offline.target_qps = 500",
        other='"effective_target_qps"',
    ),
    Case(
        "percentile",
        partial(percentile, "0.5"),
        "run.percentile",
        line='"effective_target_latency_percentile", "value": 0.5',
    ),
    Case("percentile of the open division", open_percentile, "run.percentile", severity=WARNING),
    Case(
        "quick test",
        partial(conf, "*.*.min_duration = 60000\n"),
        "user-conf.contradicts",
        line="*.*.min_duration = 60000",
        other='"effective_min_duration_ms"',
    ),
    Case("rounded", rounded, "user-conf.contradicts", NOTE),
    Case("refused", partial(conf, "*.*.x = 5 # five\n"), "user-conf.refused"),
    Case("ignored", partial(conf, "*.*.min_duration=5\n"), "user-conf.ignored", NOTE),
    Case(
        "unexplained",
        partial(replaced, "user.conf", "*.Offline.target_qps = 1000\n", ""),
        "user-conf.unexplained",
        NOTE,
    ),
    Case(
        "mlperf.conf",
        lambda root: write(cell(root) / "mlperf.conf", "*.*.qsl_rng_seed = 3\n"),
        "user-conf.mlperf-conf",
        NOTE,
    ),
    Case(
        "summary",
        partial(replaced, "performance/run_1/mlperf_log_summary.txt", "Result is : VALID", "Result is : INVALID"),
        "summary.contradicts",
    ),
    Case("another summary", foreign_summary, "summary.contradicts"),
    Case("seeds", partial(logged, "effective_qsl_rng_seed", 5, "accuracy"), "runs.seeds", WARNING),
    Case("validity", partial(logged, "early_stopping_met", "false", "TEST04/performance/run_1"), "log.validity"),
    Case(
        "accuracy run in place of the performance run",
        lambda root: copied(
            "Offline/accuracy/mlperf_log_detail.txt", "Offline/performance/run_1/mlperf_log_detail.txt", root
        ),
        "placement.performance",
        line='"effective_test_mode"',
    ),
    Case("copied log", copied_test, "placement.compliance"),
    Case(
        "TEST PASS with mismatches",
        lambda root: write(
            cell(root) / "TEST01/verify_accuracy.txt", "Verifying.\nnum_perf_log_data_mismatch = 3\nTEST PASS\n"
        ),
        "compliance.counts",
        line="num_perf_log_data_mismatch = 3",
    ),
    *(
        Case(
            f"{test} passed by a word alone in {file}",
            partial(_write_bare_pass, file=f"{test}/{file}"),
            "compliance.figures",
            WARNING,
            line="TEST PASS",
        )
        for test, file in (
            ("TEST01", "verify_performance.txt"),
            ("TEST01", "verify_accuracy.txt"),
            ("TEST04", "verify_performance.txt"),
        )
    ),
    Case(
        "verdict over another accuracy log",
        lambda root: write(
            cell(root) / "TEST01/verify_accuracy.txt", "Verifying.\nnum_acc_log_entries = 20\nTEST PASS\n"
        ),
        "compliance.counts",
        line="num_acc_log_entries = 20",
        other="50000",
    ),
    Case(
        "verdict over another run",
        partial(replaced, "TEST01/verify_performance.txt", "Reference score = ", "Reference score = 9"),
        "compliance.scores",
        WARNING,
        line="Reference score = 9",
        other='"result_samples_per_second"',
    ),
    Case(
        "score over fewer samples",
        partial(replaced, "accuracy/accuracy.txt", "total=50000", "total=500"),
        "accuracy.samples",
        line="total=500",
        other="50000",
    ),
    Case(
        "hash of the accuracy run",
        lambda root: shutil.copyfile(cell(root) / "accuracy/accuracy.txt", cell(root) / "TEST01/accuracy/accuracy.txt"),
        "accuracy.hash",
    ),
    Case("submitter", lambda root: change_system(root, submitter="Bcme"), "system.names"),
    Case("category", lambda root: change_system(root, system_type="datacenter"), "system.category"),
    Case("retraining", lambda root: measured(root, retraining="Yes"), "measurements.retraining", WARNING),
    Case("rehearsal", lambda root: measured(root, rehearsal="true"), "measurements.rehearsal", WARNING),
    Case("broken", lambda root: write(cell(root) / "measurements.json", "{"), "files.readable"),
    *(
        Case(f"{name} that is no file", partial(make_folder, name), "files.readable")
        for name in ("user.conf", "accuracy/accuracy.txt", "performance/run_1/mlperf_log_summary.txt")
    ),
)

# Rules that a case breaks in addition to its own.
ALSO = {
    "percentile of the open division": {"system.names"},
    "summary": {"compliance.passes"},
    "another summary": {"compliance.passes"},
    "validity": {"summary.contradicts"},
    "accuracy run in place of the performance run": {"compliance.passes", "placement.copied", "summary.contradicts"},
    "copied log": {"placement.copied"},
    "TEST PASS with mismatches": {"compliance.figures"},
    "score over fewer samples": {"accuracy.possible"},
}


def findings(root: Path) -> list[TreeFinding]:
    return list(verify_tree(root).findings)


def test_real_runs_do_not_contradict_themselves(consistent: Path) -> None:
    report = verify_tree(consistent)
    assert not report.findings
    assert report.rounds == ("v6.1",)
    assert {facts.cell.rpartition("/")[2]: facts.conf_target for facts in report.facts} == {
        "SingleStream": 1_000,
        "MultiStream": 200_000,
        "Offline": 1_000,
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_contradiction_is_found(case: Case, tree: Path) -> None:
    case.change(tree)
    everything = findings(tree)
    found = [finding for finding in everything if finding.rule.id == case.rule]
    assert found, [f"{f.rule.id}: {f.complaint}" for f in everything]
    first = found[0].complaint
    assert found[0].severity is case.severity
    assert (tree / first.place.file).exists()
    if case.line:
        assert case.line in line_at(tree, first.place)
    if case.other:
        assert first.other is not None
        assert case.other in line_at(tree, first.other)
    # Tests of LoadGen's logs cover a log that contradicts itself.
    also = {finding.rule.id for finding in everything} - {case.rule, "log.consistency"}
    assert also == ALSO.get(case.name, set())


def line_at(root: Path, place: Place) -> str:
    assert place.line > 0
    return (root / place.file).read_text().splitlines()[place.line - 1]


def test_tests_of_the_scenario_from_which_a_cell_is_inferred_are_at_their_place(tree: Path) -> None:
    shutil.rmtree(cell(tree))
    shutil.copytree(cell(tree, "SingleStream"), cell(tree))
    assert "placement.compliance" not in {item.rule.id for item in findings(tree)}
    shutil.rmtree(cell(tree) / "performance")
    assert "placement.compliance" in {item.rule.id for item in findings(tree)}


def test_one_user_conf_for_all(tree: Path) -> None:
    for scenario in ("SingleStream", "MultiStream", "Offline"):
        write(cell(tree, scenario) / "user.conf", "*.*.min_query_count = 3\n")
    causes = {finding.complaint.cause for finding in findings(tree) if finding.severity is ERROR}
    assert causes == {
        "one user.conf in 3 cells, as in closed/sys1/resnet/MultiStream",
        "one user.conf in 3 cells, as in closed/sys1/resnet/Offline",
    }


def test_a_part_of_a_tree_can_be_verified(tree: Path) -> None:
    conf("*.Offline.target_qps = 500\n", tree)
    for part in ("closed", "closed/Acme", "closed/Acme/results", "closed/Acme/results/sys1/resnet/Offline"):
        (finding,) = findings(tree / part)
        assert finding.cell == "closed/sys1/resnet/Offline", part
    assert not findings(cell(tree, "MultiStream"))


def test_a_folder_of_trees_can_be_verified(tree: Path, tmp_path: Path) -> None:
    conf("*.Offline.target_qps = 500\n", tree)
    (finding,) = findings(tmp_path)
    assert finding.complaint.place.file.startswith("tree/closed/Acme/")
