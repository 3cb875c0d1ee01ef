"""Layouts of older rounds, and token benchmarks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.check.engine import check_tree
from reconciler.check.limits import check_equal_issue
from reconciler.loadgen.compare import Asked, find_contradictions
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.user_conf import parse_user_conf
from reconciler.resource.rules import Severity
from reconciler.rules.rounds import load_ruleset
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.survey import find_official_name
from reconciler.tree.reading.view import RunView
from tests.unit.check.conftest import checked
from tests.unit.check.made import add_error, change_system, set_log, write
from tests.unit.check.written import SEEDS, TOKENS, as_legacy, open_cell
from tests.unit.tree.small_cells import parse_log

TTFT = "result_first_token_99.00_percentile_latency_ns"


def rules(root: Path) -> set[str]:
    return {finding.rule.id for finding in check_tree(root, round_name="v6.1").findings}


def test_the_legacy_layout_is_read(tree: Path) -> None:
    root = as_legacy(tree)
    report = check_tree(root, round_name="v6.1")
    assert not report.findings
    assert report.layouts == ("legacy",)


def test_the_legacy_layout_has_its_own_places(tree: Path) -> None:
    top = as_legacy(tree) / "closed/Acme"
    (top / "measurements/sys1/resnet/Offline/sys1.json").unlink()
    (top / "compliance/sys1/resnet/Offline/TEST04/verify_performance.txt").unlink()
    found = {f.rule.id: f.complaint.place.file for f in check_tree(tree, round_name="v6.1").findings}
    assert found["measurements.missing"].startswith("closed/Acme/measurements/sys1/resnet/Offline/")
    assert found["compliance.files"] == "closed/Acme/compliance/sys1/resnet/Offline/TEST04/verify_performance.txt"


def test_measurements_of_a_system_without_results(tree: Path) -> None:
    root = as_legacy(tree)
    write(root / "closed/Acme/measurements/sys2/resnet/Offline/sys2.json", "{}")
    for name, severity in (("v6.1", Severity.WARNING), ("v5.1", Severity.ERROR)):
        (finding,) = (f for f in check_tree(root, round_name=name).findings if f.rule.id == "submitter.systems")
        assert (finding.severity, finding.complaint.place.file) == (severity, "closed/Acme/measurements/sys2")


@pytest.mark.parametrize("scenario", ["Server", "Interactive"])
def test_token_results_within_their_limits(scenario: str, tmp_path: Path) -> None:
    open_cell(tmp_path, "llama3.1-8b", scenario, TOKENS)
    assert not rules(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        pytest.param(TTFT, 600_000_000, "run.token-limits", id="TTFT of Server in Interactive"),
        pytest.param(
            "result_time_per_output_token_99.00_percentile_ns", 30_000_000, "run.token-limits", id="TPOT at it"
        ),
        pytest.param("requested_server_ttft_latency", 2_000_000_000, "run.model-key", id="model key of Server"),
        pytest.param("requested_use_token_latencies", False, "run.token-latencies", id="no token latencies"),
        pytest.param("effective_sample_concatenate_permutation", False, "run.equal-issue", id="no equal issue"),
        pytest.param("effective_target_latency_ns", 99_000_000_000, "run.target-latency", id="target latency"),
        pytest.param("result_completed_tokens_per_second", 0, "run.metric", id="no tokens"),
    ],
)
def test_a_broken_interactive_run(key: str, value: Any, rule: str, tmp_path: Path) -> None:
    open_cell(tmp_path, "llama3.1-8b", "Interactive", {**TOKENS, key: value})
    assert rules(tmp_path) == {rule}


def test_the_target_latency_is_stated_and_at_most_the_rounds(tmp_path: Path) -> None:
    key, benchmark = "effective_target_latency_ns", load_ruleset("v6.1").find_benchmark("llama3.1-8b")
    assert benchmark is not None
    most = int(Decimal(str(benchmark.get_value("most_target_latency", "Server"))))
    for value, found in ((most, set()), (most + 1, {"run.target-latency"}), (None, {"run.target-latency"})):
        logged = {name: said for name, said in {**TOKENS, key: value}.items() if said is not None}
        open_cell(tmp_path / str(value), "llama3.1-8b", "Server", logged)
        assert rules(tmp_path / str(value)) == found


def test_the_limits_of_server_are_wider(tmp_path: Path) -> None:
    open_cell(tmp_path, "llama3.1-8b", "Server", {**TOKENS, TTFT: 600_000_000})
    assert not rules(tmp_path)


def test_a_model_mapping_names_the_benchmark(tmp_path: Path) -> None:
    open_cell(tmp_path, "ours", "Server", TOKENS)
    (finding,) = check_tree(tmp_path, round_name="v6.1").findings
    fix = "add the folder to model_mapping.json"
    assert (finding.rule.id, finding.complaint.found, finding.complaint.fix) == (
        "benchmark.known",
        "unknown benchmark ours",
        fix,
    )
    write(tmp_path / "open/Acme/model_mapping.json", json.dumps({"ours": "llama3.1-8b"}))
    assert not rules(tmp_path)


SECOND_CONFIGURATION = "Multiple conf files are used. This is not valid for official submission."


@pytest.mark.parametrize(
    ("folder", "texts", "severities"),
    [
        pytest.param(
            "TEST04/performance/run_1", [SECOND_CONFIGURATION], {"v6.1": "warning", "v5.1": "error"}, id="test"
        ),
        pytest.param(
            "TEST04/performance/run_1", [SECOND_CONFIGURATION, "Another"], {"v6.1": "error"}, id="another error"
        ),
        pytest.param("performance/run_1", [SECOND_CONFIGURATION], {"v6.1": "error"}, id="performance run"),
    ],
)
def test_a_second_configuration_is_waived_in_the_run_of_a_test(
    folder: str, texts: list[str], severities: dict[str, str], tree: Path
) -> None:
    """The newer official checker accepts it there, and published tests have it."""
    for text in texts:
        add_error(tree / "closed/Acme/results/sys1/resnet/Offline" / folder, text)
    for name, severity in severities.items():
        found = check_tree(tree, round_name=name).findings
        assert {finding.severity for finding in found if finding.rule.id == "run.errors"} == {severity}


def test_files_that_a_round_published_are_only_advised_against(tree: Path) -> None:
    """Submissions published in v6.0 and v6.1 have some, such as tables of a program's own, and hidden names."""
    write(tree / "closed/Acme/results/sys1/resnet/Offline/performance/run_1/latencies.csv", "1,2\n")
    write(tree / "closed/Acme/src/resnet/.dockerignore", "build\n")
    for name, severity in (("v6.1", "warning"), ("v5.1", "error")):
        found = check_tree(tree, round_name=name).findings
        named = {(item.rule.id, item.severity) for item in found if item.rule.id in ("files.extra", "submitter.names")}
        assert named == {("files.extra", severity), ("submitter.names", severity)}


def test_the_round_is_learned_from_the_seeds(tree: Path) -> None:
    assert check_tree(tree).rounds == ("v6.1",)
    from_v51 = {"qsl_rng_seed": 1780908523862526354, "sample_index_rng_seed": 14771362308971278857}
    for path in tree.rglob("run_1/mlperf_log_detail.txt"):
        for name, seed in {**from_v51, "schedule_rng_seed": 18209322760996052031}.items():
            set_log(path.parent, f"effective_{name}", seed)
    assert check_tree(tree).rounds == ("v5.1",)


def add_test_with_own_seeds(tree: Path) -> Path:
    """Add TEST05 of an older round, whose audit.config sets other seeds than the round's. -> Its folder."""
    rules = load_ruleset("v4.1").find_benchmark("resnet")
    assert rules is not None
    own = {name: item.value for name, item in rules.find_test("TEST05").settings.items() if name in SEEDS}
    cell = as_legacy(tree) / "closed/Acme/compliance/sys1/resnet/Offline"
    for path in tree.rglob("mlperf_log_detail.txt"):
        for name, seed in load_ruleset("v4.1").seeds().items():
            set_log(path.parent, f"effective_{name}", seed)
    shutil.copytree(cell / "TEST01", cell / "TEST05")
    for name, seed in own.items():
        set_log(cell / "TEST05/performance/run_1", f"effective_{name}", seed)
    return cell / "TEST05"


def test_a_test_may_have_seeds_of_its_own(tree: Path) -> None:
    folder = add_test_with_own_seeds(tree)
    report = check_tree(tree)
    assert report.rounds == ("v4.1",)
    assert "run.seeds" not in {finding.rule.id for finding in report.findings}
    set_log(folder / "performance/run_1", "effective_qsl_rng_seed", 4)
    assert "run.seeds" in {finding.rule.id for finding in check_tree(tree).findings}


@pytest.mark.parametrize(
    ("round_name", "document", "described"),
    [("v4.1", "warning", "warning"), ("v5.1", "error", "error"), ("v6.1", "error", "warning")],
)
def test_what_only_some_checkers_ask_for_refuses_nothing_else(
    round_name: str, document: str, described: str, tree: Path
) -> None:
    """v4.1's checker looked at neither, that of v6.1 not at systems; the policy asks for the document."""
    shutil.rmtree(tree / "closed/Acme/documentation")
    (tree / "closed/Acme/systems/more.json").write_text("{}")
    found = {f.rule.id: f.severity for f in check_tree(tree, round_name=round_name).findings}
    assert (found["submitter.calibration"], found["submitter.systems"]) == (document, described)


@pytest.mark.parametrize(("round_name", "severity"), [("v4.1", "warning"), ("v5.1", "warning"), ("v6.1", "error")])
def test_a_document_for_code_refuses_nothing_before_v6(round_name: str, severity: str, tree: Path) -> None:
    """Published trees of v4.1 and v5.1 have such folders, and their checkers accept them."""
    (tree / "closed/Acme/src/resnet/run.py").unlink()
    found = {f.rule.id: f.severity for f in check_tree(tree, round_name=round_name).findings}
    assert found["submitter.code"] == severity


@pytest.mark.parametrize(("round_name", "severity"), [("v2.1", "warning"), ("v3.1", "error")])
def test_names_and_empty_values_were_not_always_looked_at(round_name: str, severity: str, tree: Path) -> None:
    top = as_legacy(tree) / "closed/Acme"
    (top / "documentation/a b.txt").write_text("x")
    (top / "documentation/nothing").mkdir()
    (top / "measurements/sys1/resnet/Offline/README.md").write_text("")
    findings = check_tree(tree, round_name=round_name).findings
    found = {f.rule.id: f.severity for f in findings if f.complaint.found != "missing"}
    rules = ("submitter.names", "submitter.empty", "files.document")
    assert {rule: found[rule] for rule in rules} == dict.fromkeys(rules, severity)


def test_before_early_stopping_a_number_of_queries_was_asked_for(tree: Path) -> None:
    folder = tree / "closed/Acme/results/sys1/resnet/SingleStream/performance/run_1"

    def complaints() -> list[tuple[str, str]]:
        found = [f.complaint for f in check_tree(tree, round_name="v1.0").findings if f.rule.id == "run.early-stopping"]
        return [(item.found, item.wanted) for item in found if "/SingleStream/perf" in item.place.file]

    set_log(folder, "early_stopping_met", "false")
    set_log(folder, "effective_min_query_count", 1023)
    assert complaints() == [("1023 queries", "at least 1024 queries")]
    set_log(folder, "effective_min_query_count", 1024)
    assert not complaints()


@pytest.mark.parametrize(
    ("round_name", "folder", "official"),
    [
        ("v1.0", "ssd-mobilenet-v2-edgetpu", "ssd-small"),
        ("v1.0", "mobilenet-v1-0.5-128", "resnet"),
        ("v3.0", "ssd-resnet34", "retinanet"),
        ("v6.1", "resnet50-sparse", "resnet"),
    ],
)
def test_a_folder_represents_what_the_round_s_checker_guesses(round_name: str, folder: str, official: str) -> None:
    assert find_official_name(folder, load_ruleset(round_name), {}) == official


CELLS = "closed/Acme/results/sys1/resnet"


KEY = "sample_concatenate_permutation"


def log(version: str, **values: object) -> DetailLog:
    return parse_log({"loadgen_version": version, "effective_scenario": "Offline", **values})


def run_with(
    parsed: DetailLog, conf: str = "", mlperf_conf: str = "", sources: tuple[str, ...] = ("old checker", "mlperf.conf")
) -> RunView:
    """As much of a run as the rule reads. ``sources``: who asks for equal issue."""
    confs = {name: Read(name, parse_user_conf(text.encode())) for name, text in (("u", conf), ("m", mlperf_conf))}
    ruled = SimpleNamespace(sources=sources)
    rules = SimpleNamespace(
        get_value=lambda name, _: {"model_key": "acme"}.get(name, True), find_ruled_value=lambda *_: ruled
    )
    files = SimpleNamespace(user_conf=confs["u"], mlperf_conf=confs["m"])
    cell = SimpleNamespace(files=files, rules=rules, official="acme")
    return cast("RunView", SimpleNamespace(cell=cell, log=parsed, scenario="Offline"))


@pytest.mark.parametrize(
    ("sources", "severity"),
    [(("old checker",), None), (("checker", "mlperf.conf"), None), (("mlperf.conf",), Severity.WARNING)],
)
def test_equal_issue_that_no_checker_asks_for_is_a_warning(sources: tuple[str, ...], severity: Severity | None) -> None:
    """An earlier LoadGen of the round may not have set it yet."""
    (found,) = check_equal_issue(run_with(log("6.0.5 @ abc", **{f"effective_{KEY}": False}), sources=sources))
    assert found.severity is severity


@pytest.mark.parametrize(("version", "known"), [("4.0 @ abc", False), ("5.0.25 @ abc", True), ("", True)])
def test_a_setting_that_a_release_did_not_log_is_unknown(version: str, known: bool) -> None:
    parsed = log(version, effective_test_mode="PerformanceOnly", result_validity="VALID")
    found = find_contradictions(parsed, Asked("Offline", "performance", {KEY: True}))
    assert [item.field for item in found] == ([KEY] if known else [])


def test_an_inferred_multistream_is_eight_times_the_estimate(tree_of: Callable[[str], Path]) -> None:
    tree = tree_of("closed")
    change_system(tree, system_type="edge")
    shutil.rmtree(tree / CELLS / "MultiStream")
    shutil.copytree(tree / CELLS / "SingleStream", tree / CELLS / "MultiStream")
    facts = {item.cell.rpartition("/")[2]: item for item in checked(tree).facts}
    text = (tree / CELLS / "SingleStream/performance/run_1/mlperf_log_detail.txt").read_text()
    estimate = next(json.loads(line[8:]) for line in text.splitlines() if '"early_stopping_latency_ms"' in line)[
        "value"
    ]
    assert facts["MultiStream"].metric == pytest.approx(8 * estimate / 1e6)
    assert facts["MultiStream"].metric != facts["SingleStream"].metric


def test_videos_that_no_submitter_has_are_a_question(tmp_path: Path) -> None:
    def severities() -> dict[str, Severity]:
        found = check_tree(tmp_path, round_name="v6.0").findings
        return {item.submitter: item.severity for item in found if item.rule.id == "accuracy.extra"}

    cell = open_cell(tmp_path, "wan-2.2-t2v-a14b", "Offline", TOKENS)
    assert severities() == {"Acme": Severity.ERROR}
    shutil.copytree(tmp_path / "open/Acme", tmp_path / "open/Other")
    assert severities() == {"Acme": Severity.NOTE, "Other": Severity.NOTE}
    write(cell / "accuracy/videos/1.mp4", b"one")
    assert severities() == {"Acme": Severity.ERROR, "Other": Severity.ERROR}
