"""Each contradiction is found with both places, the likely cause, and nothing else beside it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from reconciler.tree.findings import Place, Severity, TreeFinding
from reconciler.verify.engine import ALL_RULES, verify_tree
from reconciler.verify.sources import LoadGenBuild, verify_sources
from tests.unit.tree.check.made import change_system, detail, set_log, write

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


def audit_target(root: Path) -> None:
    """The mechanism seen most: an audit run at a lower target was the last to write the file."""
    set_log(run(root, folder="TEST01/performance/run_1"), "effective_target_qps", 920)
    conf("*.Offline.target_qps = 920\n", root)


def accuracy_target(root: Path) -> None:
    """Another run than the published one was the last to write the file."""
    set_log(run(root, folder="accuracy"), "effective_target_qps", 700)
    conf("*.Offline.target_qps = 700\n", root)


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
    Case("audit factor", partial(conf, "*.Offline.target_qps = 960\n"), "user-conf.contradicts"),
    Case(
        "audit factor, rounded",
        partial(conf, "*.Offline.target_qps = 920.4\n"),
        "user-conf.contradicts",
        line="*.Offline.target_qps = 920.4",
    ),
    Case(
        "accuracy run",
        accuracy_target,
        "user-conf.contradicts",
        line="*.Offline.target_qps = 700",
    ),
    Case(
        "quick test of one query",
        partial(conf, "*.*.min_query_count = 1\n"),
        "user-conf.contradicts",
        line="*.*.min_query_count = 1",
        other='"requested_min_query_count"',
    ),
    Case(
        "audit run",
        audit_target,
        "user-conf.contradicts",
    ),
    Case(
        "quick test",
        partial(conf, "*.*.min_duration = 60000\n"),
        "user-conf.contradicts",
        line="*.*.min_duration = 60000",
        other='"effective_min_duration_ms"',
    ),
    Case(
        "more specific line",
        partial(conf, "resnet50.Offline.min_query_count = 5\n"),
        "user-conf.contradicts",
    ),
    Case(
        "rounded",
        rounded,
        "user-conf.contradicts",
        NOTE,
    ),
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
    Case(
        "seeds",
        partial(logged, "effective_qsl_rng_seed", 5, "accuracy"),
        "runs.seeds",
        WARNING,
    ),
    Case(
        "validity",
        partial(logged, "early_stopping_met", "false", "TEST04/performance/run_1"),
        "log.validity",
    ),
    Case(
        "accuracy run in place of the performance run",
        lambda root: copied(
            "Offline/accuracy/mlperf_log_detail.txt", "Offline/performance/run_1/mlperf_log_detail.txt", root
        ),
        "placement.performance",
        line='"effective_test_mode"',
    ),
    Case(
        "copied log",
        copied_test,
        "placement.compliance",
    ),
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
        "TEST PASS with one of two scores",
        lambda root: write(
            cell(root) / "TEST04/verify_performance.txt", "Verifying.\nreference score = 2001.5\nTEST PASS\n"
        ),
        "compliance.figures",
        WARNING,
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
        "our TEST PASS with differing answers",
        lambda root: write(cell(root) / "TEST01/verify_accuracy.txt", "differing: 7\nTEST PASS\n"),
        "compliance.counts",
    ),
    Case(
        "our verdict over another accuracy log",
        lambda root: write(
            cell(root) / "TEST01/verify_accuracy.txt", "answers in the accuracy run: 20 (0 repeated)\nTEST PASS\n"
        ),
        "compliance.counts",
    ),
    Case(
        "our verdict over another run",
        partial(replaced, "TEST01/verify_performance.txt", "Reference score = ", "performance run: 9"),
        "compliance.scores",
        WARNING,
        line="performance run: 9",
        other='"result_samples_per_second"',
    ),
    Case(
        "our verdict over another test run",
        partial(replaced, "TEST04/verify_performance.txt", "Test score = ", "audit run: 9"),
        "compliance.scores",
        WARNING,
        line="audit run: 9",
        other='"result_samples_per_second"',
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
    "audit run": {"summary.contradicts"},
    "summary": {"compliance.passes"},
    "another summary": {"compliance.passes"},
    "validity": {"summary.contradicts"},
    "accuracy run in place of the performance run": {"compliance.passes", "placement.copied", "summary.contradicts"},
    "copied log": {"placement.copied"},
    "TEST PASS with mismatches": {"compliance.figures"},
    "TEST PASS with one of two scores": {"compliance.scores"},
    "our TEST PASS with differing answers": {"compliance.figures"},
    "our verdict over another run": {"compliance.figures"},
    "our verdict over another test run": {"compliance.figures"},
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


@pytest.mark.parametrize(("entries", "believed"), [(49_999, False), (50_000, True), (50_343, True), (50_344, False)])
def test_a_multistream_run_fills_the_last_query_of_each_set(entries: int, believed: bool, tree: Path) -> None:
    """50,000 samples are 49 sets of 1,024 that it loads, in queries of 8."""
    write(cell(tree, "MultiStream") / "TEST01/verify_accuracy.txt", f"num_acc_log_entries = {entries}\nTEST PASS\n")
    counted = [finding for finding in verify_tree(tree).findings if finding.rule.id == "compliance.counts"]
    assert bool(counted) is not believed


def line_at(root: Path, place: Place) -> str:
    assert place.line > 0
    return (root / place.file).read_text().splitlines()[place.line - 1]


@pytest.mark.parametrize(
    "line", ["*.Offline.target_qps = 950\n", "*.*.min_query_count = 2\n", "*.*.min_duration = 700000\n"]
)
def test_a_contradiction_without_a_known_cause_names_none(line: str, tree: Path) -> None:
    conf(line, tree)
    (finding,) = [finding for finding in findings(tree) if finding.rule.id == "user-conf.contradicts"]
    assert finding.complaint.cause == ""


@pytest.mark.parametrize(
    ("scenario", "line", "mechanism"),
    [
        ("Offline", "target_qps = 500", "conf-estimate"),
        ("SingleStream", "target_latency = 77", "conf-estimate"),
        ("MultiStream", "target_latency = 77", "conf-estimate"),
        ("MultiStream", "min_duration = 60000", "conf-of-quick-test"),
    ],
)
def test_another_estimate_of_what_a_run_needs_is_told_from_other_causes(
    scenario: str, line: str, mechanism: str, tree: Path
) -> None:
    conf(f"*.{scenario}.{line}\n", tree, scenario)
    (finding,) = [finding for finding in findings(tree) if finding.rule.id == "user-conf.contradicts"]
    assert finding.complaint.mechanism == mechanism


@pytest.mark.parametrize(
    ("target", "factor"),
    [
        ("919.4", ""),
        ("919.5", "0.92"),
        ("920.5", "0.92"),
        ("920.6", ""),
        ("959.4", ""),
        ("960.5", "0.96"),
        ("960.6", ""),
    ],
)
def test_a_target_near_a_usual_part_of_the_published_one_is_taken_for_it(target: str, factor: str, tree: Path) -> None:
    conf(f"*.Offline.target_qps = {target}\n", tree)
    (finding,) = [finding for finding in findings(tree) if finding.rule.id == "user-conf.contradicts"]
    assert finding.complaint.cause.partition(" of the published target")[0] == factor


def test_a_cause_is_told_with_the_run_that_was_started_so_if_there_is_one(tree: Path) -> None:
    likely = "as audit runs are often started"
    conf("*.Offline.target_qps = 960\n", tree)
    assert [f.complaint.cause for f in findings(tree) if f.rule.id == "user-conf.contradicts"] == [
        f"0.96 of the published target, {likely}"
    ]
    audit_target(tree)
    (finding,) = [finding for finding in findings(tree) if finding.rule.id == "user-conf.contradicts"]
    assert finding.complaint.cause.startswith("the setting of TEST01 (")
    assert finding.complaint.cause.endswith(f"), 0.92 of the published target, {likely}")


def test_a_contradiction_names_both_lines(tree: Path) -> None:
    conf("*.Offline.target_qps = 500\n", tree)
    (finding,) = findings(tree)
    place, other = finding.complaint.place, finding.complaint.other
    assert other is not None
    assert (tree / place.file).read_text().splitlines()[place.line - 1] == "*.Offline.target_qps = 500"
    assert '"key": "effective_target_qps"' in (tree / other.file).read_text().splitlines()[other.line - 1]


@pytest.mark.parametrize("logged", ["0.9", "0.90000000000000002", '"90"'])
def test_a_percentile_of_the_round_or_none_is_not_refused(logged: str, tree: Path) -> None:
    percentile(logged, tree)
    set_log(run(tree), "effective_target_latency_percentile", "0.5")
    assert "run.percentile" not in {f.rule.id for f in findings(tree)}, "Offline's percentile decides nothing"


def test_a_line_for_another_scenario_or_model_decides_nothing(tree: Path) -> None:
    conf("*.Server.target_qps = 5\nbert.Offline.target_qps = 7\n", tree)
    assert not findings(tree)


def test_the_one_other_model_key_of_a_file_is_what_was_meant(tree: Path) -> None:
    path = cell(tree) / "user.conf"
    write(path, "my-resnet.Offline.target_qps = 77\n")
    assert [f.complaint.found.partition(" (")[0] for f in findings(tree) if f.severity is ERROR] == ["target_qps 77"]


def test_lengthened_logs_are_seen(tree: Path) -> None:
    """A run of a moment cannot have kept a minimum of ten minutes."""
    folder = run(tree)
    set_log(folder, "effective_min_duration_ms", 600_000)
    assert '"result_min_duration_met", "value": true' in detail(folder)
    ids = {finding.rule.id for finding in findings(tree)}
    assert "log.duration" in ids
    assert ids <= {"log.duration", "log.consistency", "summary.contradicts", "user-conf.contradicts"}


LIES = {
    "effective_performance_issue_same": ("true", "performance_issue_same True"),
    "result_samples_per_second": ("9999999", "result_samples_per_second 9999999"),
    "result_99.90_percentile_latency_ns": ("1", "result_99.90_percentile_latency_ns 1"),
    "power_begin": ('"12-31-2099 00:00:00.000"', "power_begin 12-31-2099 00:00:00.000"),
}


@pytest.mark.parametrize("key", LIES)
def test_a_log_that_was_edited_contradicts_itself(key: str, tree: Path) -> None:
    value, found = LIES[key]
    set_log(run(tree), key, value)
    said = [item.complaint for item in findings(tree) if item.rule.id == "log.consistency"]
    assert found in [complaint.found for complaint in said]
    assert {complaint.place.file for complaint in said} == {
        "closed/Acme/results/sys1/resnet/Offline/performance/run_1/mlperf_log_detail.txt"
    }


def test_tests_of_the_scenario_from_which_a_cell_is_inferred_are_at_their_place(tree: Path) -> None:
    shutil.rmtree(cell(tree))
    shutil.copytree(cell(tree, "SingleStream"), cell(tree))
    assert "placement.compliance" not in {item.rule.id for item in findings(tree)}
    shutil.rmtree(cell(tree) / "performance")
    assert "placement.compliance" in {item.rule.id for item in findings(tree)}


def test_one_log_in_two_cells(tree: Path) -> None:
    for name in ("mlperf_log_detail.txt", "mlperf_log_summary.txt"):
        copied(f"Offline/performance/run_1/{name}", f"MultiStream/performance/run_1/{name}", tree)
    found = {finding.rule.id: finding for finding in findings(tree)}
    assert "placement.performance" in found
    copied_to = found["placement.copied"].complaint if "placement.copied" in found else None
    assert copied_to is None or copied_to.other is not None


def test_a_log_of_another_run_is_known_by_its_latencies_whatever_its_dates(tree: Path) -> None:
    name = "mlperf_log_detail.txt"
    copied(f"Offline/performance/run_1/{name}", f"Offline/TEST01/performance/run_1/{name}", tree)
    set_log(run(tree, folder="TEST01/performance/run_1"), "test_datetime", '"2020-01-01T00:00:00Z"')
    (finding,) = [found for found in findings(tree) if found.rule.id == "placement.copied"]
    assert (finding.severity, finding.complaint.cause) == (ERROR, "one run's log twice, of which one was changed")
    places = {place.file for place in (finding.complaint.place, finding.complaint.other) if place}
    assert places == {f"{CELLS}/Offline/{part}/run_1/{name}" for part in ("performance", "TEST01/performance")}


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


def test_rules_have_names_of_their_own() -> None:
    assert all("." in rule.id and rule.title and rule.sources for rule in ALL_RULES)


def test_runs_of_one_system_at_one_time_are_asked_about(tree: Path) -> None:
    """Once for a system; accuracy runs beside each other slow nothing that is measured."""
    times = {"SingleStream": ("10:00:00", "10:20:00"), "MultiStream": ("10:15:00", "10:40:00")}
    for scenario, (begin, end) in times.items():
        for folder in ("performance/run_1", "accuracy"):
            set_log(run(tree, scenario, folder), "power_begin", f'"01-02-2026 {begin}.000"')
            set_log(run(tree, scenario, folder), "power_end", f'"01-02-2026 {end}.000"')
    asked = [item for item in findings(tree) if item.rule.id == "runs.overlap"]
    assert [(item.cell, item.severity) for item in asked] == [("closed/sys1", NOTE)]
    assert "for 300 s" in asked[0].complaint.found or "for 1200 s" in asked[0].complaint.found
    assert "the first of 5 such pairs" in asked[0].complaint.found
    hours = {("SingleStream", "accuracy"): 8, ("MultiStream", "performance/run_1"): 11, ("MultiStream", "accuracy"): 10}
    for (scenario, folder), hour in hours.items():
        set_log(run(tree, scenario, folder), "power_begin", f'"01-02-2026 {hour:02}:00:00.000"')
        set_log(run(tree, scenario, folder), "power_end", f'"01-02-2026 {hour:02}:20:00.000"')
    (alone,) = (item for item in findings(tree) if item.rule.id == "runs.overlap")
    assert "such pairs" not in alone.complaint.found
    for scenario in times:
        for folder in ("performance/run_1", "accuracy"):
            late = "21" if scenario == "MultiStream" else "11"
            late = late if folder == "accuracy" else f"{int(late) + 1}"
            set_log(run(tree, scenario, folder), "power_begin", f'"01-02-2026 {late}:00:00.000"')
            set_log(run(tree, scenario, folder), "power_end", f'"01-02-2026 {late}:20:00.000"')
    assert "runs.overlap" not in {item.rule.id for item in findings(tree)}


def test_another_loadgen_of_the_same_commit_is_asked_about(tree: Path) -> None:
    """What the build writes differs anywhere."""
    for scenario in ("SingleStream", "MultiStream", "Offline"):
        own = "2" if scenario == "Offline" else "1"
        sources = f'{{"/loadgen.cc": "{own}", "/logging.h": "1", "/build/test.h": "{scenario}"}}'
        text = re.sub(
            r'("loadgen_file_sha1", "value": ).*(, "time_ms")', rf"\g<1>{sources}\g<2>", detail(run(tree, scenario))
        )
        write(run(tree, scenario) / "mlperf_log_detail.txt", text)
    asked = [item for item in findings(tree) if item.rule.id == "runs.sources"]
    assert [(item.cell, item.severity) for item in asked] == [("closed/sys1/resnet/Offline", NOTE)]
    assert "with another loadgen.cc" in asked[0].complaint.found
    assert asked[0].complaint.wanted == "the sources of 2 other results of this commit"
    shutil.rmtree(cell(tree, "SingleStream"))
    assert "runs.sources" not in {item.rule.id for item in findings(tree)}


@pytest.mark.parametrize(
    ("names", "listed"),
    [
        (["/a.cc"], "a.cc"),
        (["/c.cc", "/b.h", "/a.cc"], "a.cc, b.h, c.cc"),
        (["/d.cc", "/c.cc", "/b.h", "/a.cc"], "a.cc, b.h, c.cc and 1 more"),
        (["/e.h", "/d.cc", "/c.cc", "/b.h", "/a.cc"], "a.cc, b.h, c.cc and 2 more"),
    ],
    ids=["one", "three", "four", "five"],
)
def test_three_of_the_sources_that_differ_are_listed(names: list[str], listed: str) -> None:
    def build(cell: str, digest: str) -> LoadGenBuild:
        sources = frozenset((name, digest) for name in names) | {("/same.cc", "0")}
        return LoadGenBuild("Acme", cell, "5.1", sources, Place(f"{cell}.txt", 7))

    (asked,) = verify_sources([build("other", "2"), build("first", "1"), build("second", "1")])
    assert (asked.cell, asked.complaint.found) == ("other", f"LoadGen 5.1 with another {listed}")
    assert (asked.complaint.place, asked.complaint.other) == (Place("other.txt", 7), Place("first.txt", 7))
