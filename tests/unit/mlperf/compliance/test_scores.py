"""The score of a summary, and what TEST01 concludes from its parts."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from reconciler.loadgen.log import parse_detail
from reconciler.loadgen.log_files import BASELINE, COMPLIANCE
from reconciler.loadgen.summary import parse_summary
from reconciler.rules.compliance.definition import MissingLogError, RunLogs, VerdictInputs
from reconciler.rules.compliance.judging import find_test, judge
from reconciler.rules.compliance.scores import (
    Scored,
    find_score_key,
    find_unfit,
    measure_distance,
    read_from_detail,
    read_from_summary,
)
from reconciler.rules.compliance.test01 import judge_test01
from reconciler.rules.compliance.verdict import Part

RIGHT, WRONG = Part(figures={"samples": "9"}), Part(("2 answers differ",), {"samples": "7"})
FAST, SLOW = Part(figures={"change": "0"}), Part(("12 % slower",), {"change": "-12"}, by_speed=True)
CLOSE, FAR = Part(figures={"F1": "90"}), Part(("F1 is 80",), {"F1": "80"})
NOTE = "compared by accuracy, because 2 answers differ"


@pytest.mark.parametrize(
    ("accuracy", "performance", "fallback", "reasons", "notes", "by_speed"),
    [
        pytest.param(RIGHT, FAST, None, (), (), False, id="all is right"),
        pytest.param(RIGHT, SLOW, None, ("12 % slower",), (), True, id="slow"),
        pytest.param(WRONG, FAST, None, ("2 answers differ",), (), False, id="no fallback"),
        pytest.param(WRONG, FAST, FAR, ("2 answers differ", "F1 is 80"), (), False, id="fallback fails"),
        pytest.param(WRONG, FAST, CLOSE, (), (NOTE,), False, id="fallback holds"),
        pytest.param(WRONG, SLOW, CLOSE, ("12 % slower",), (NOTE,), True, id="fallback holds, slow"),
        pytest.param(WRONG, SLOW, FAR, ("2 answers differ", "F1 is 80", "12 % slower"), (), False, id="all is wrong"),
        pytest.param(WRONG, SLOW, None, ("2 answers differ", "12 % slower"), (), False, id="both are wrong"),
    ],
)
def test_test01_needs_its_speed_and_its_answers_or_their_accuracy(
    accuracy: Part,
    performance: Part,
    fallback: Part | None,
    reasons: tuple[str, ...],
    notes: tuple[str, ...],
    by_speed: bool,
) -> None:
    verdict = judge_test01(accuracy, performance, fallback)
    assert (verdict.test, verdict.reasons, verdict.notes, verdict.by_speed) == ("TEST01", reasons, notes, by_speed)
    own = {"fallback.F1": fallback.figures["F1"]} if fallback else {}
    figures = {"accuracy.samples": accuracy.figures["samples"], "performance.change": performance.figures["change"]}
    assert verdict.figures == figures | own


def test_verify_files_of_test01_hold_figures_and_reasons_of_their_own_part() -> None:
    answers, speed = (
        "TEST01: the audit run's answers against the accuracy run's",
        "TEST01: the audit run's speed against",
    )
    assert judge_test01(RIGHT, SLOW).files == {
        "verify_accuracy.txt": f"{answers}\nsamples: 9\nTEST PASS\n",
        "verify_performance.txt": f"{speed} the performance run's\nchange: -12\nTEST FAIL: 12 % slower\n",
    }
    assert judge_test01(WRONG, FAST).files == {
        "verify_accuracy.txt": f"{answers}\nsamples: 7\nTEST FAIL: 2 answers differ\n",
        "verify_performance.txt": f"{speed} the performance run's\nchange: 0\nTEST PASS\n",
    }


@pytest.mark.parametrize(
    ("scenario", "lines", "score", "lower"),
    [
        ("Offline", ["Samples per second: 12.5"], 12.5, False),
        ("Offline", ["Samples per second: fast"], None, False),
        ("Offline", [], None, False),
        ("Server", ["Completed samples per second: 7"], 7, False),
        ("Server", ["Completed samples per second: 7", "Early stopping satisfied: true"], 7, False),
        ("Server", ["Scheduled samples per second: 7"], 7, False),
        ("SingleStream", ["90th percentile latency (ns) : 400"], 400, True),
        ("MultiStream", ["Samples per query : 8"], 8, False),
        ("MultiStream", [" * Early stopping 99th percentile estimate: 500"], 500, True),
        ("Interactive", ["Samples per second: 12.5"], None, False),
    ],
)
def test_score_of_a_summary_is_that_of_its_scenario(
    scenario: str, lines: list[str], score: float | None, lower: bool
) -> None:
    text = "\n".join([f"Scenario : {scenario}", "Result is : VALID", *lines])
    assert read_from_summary(parse_summary(text.encode())) == Scored(scenario, "VALID", score, lower_is_better=lower)


@pytest.mark.parametrize(
    ("reference", "test", "reasons"),
    [
        (Scored("Offline", "VALID", 9), Scored("Offline", "VALID", 1), []),
        (
            Scored("", "INVALID", 9),
            Scored("Server", "", None),
            [
                "the performance run is INVALID, not VALID",
                "the audit run is without a result, not VALID",
                "the performance run is unknown, the audit run Server",
                "the audit run's log holds no score",
            ],
        ),
        (Scored("Server", "VALID", None), Scored("Server", "VALID", 0), ["the performance run's log holds no score"]),
    ],
)
def test_runs_of_which_no_scores_can_be_compared_say_why(reference: Scored, test: Scored, reasons: list[str]) -> None:
    assert find_unfit(reference, test) == reasons


def test_distance_is_in_percent_of_the_reference() -> None:
    assert [measure_distance(200, test) for test in (210, 150, 200)] == ["+5.00 %", "-25.00 %", "+0.00 %"]
    assert measure_distance(0, 5) == "beyond measure"


def offline(rate: str, *more: str) -> RunLogs:
    lines = ["Scenario : Offline", f"Samples per second: {rate}", "Result is : VALID", *more]
    return RunLogs(summary="\n".join(lines).encode())


@pytest.mark.parametrize(
    ("test", "performance", "audit", "limits", "reasons"),
    [
        ("TEST04-A", offline("100"), offline("109"), {}, ()),
        ("TEST04-A", offline("100"), offline("50"), {}, ()),
        (
            "TEST04-A",
            offline("100"),
            offline("111"),
            {},
            ("TEST04-B is faster: +11.00 % of TEST04-A's score",),
        ),
        (
            "TEST04-A",
            offline("100", "performance_issue_unique : 0"),
            offline("100", "performance_issue_unique : 0"),
            {},
            ("TEST04-A did not issue different samples (performance_issue_unique is off)",),
        ),
        ("TEST05", offline("100"), offline("96"), {}, ()),
        ("TEST05", offline("100"), offline("94"), {}, ("the score 94 is -6.00 % of that measured",)),
        ("TEST05", offline("100"), offline("106"), {}, ()),
        (
            "TEST05",
            offline("100"),
            offline("106"),
            {"most_score_gain": "5"},
            ("the score 106 is +6.00 % of that measured",),
        ),
    ],
)
def test_tests_of_earlier_rounds_compare_the_run_of_the_test_with_the_other(
    test: str, performance: RunLogs, audit: RunLogs, limits: dict[str, str], reasons: tuple[str, ...]
) -> None:
    verdict = judge(test, VerdictInputs(audit, performance, limits=limits))
    assert (verdict.test, verdict.reasons) == (test, reasons)
    assert list(verdict.files) == ["verify_performance.txt"]


@pytest.mark.parametrize(
    ("test", "performance", "audit", "lacking"),
    [
        ("TEST04-A", offline("1"), RunLogs(), "TEST04-B"),
        ("TEST04-A", RunLogs(), offline("1"), "TEST04-A"),
        ("TEST05", offline("1"), RunLogs(), "audit"),
        ("TEST05", RunLogs(), offline("1"), "performance"),
    ],
)
def test_summary_that_is_not_there_is_told_by_its_run(
    test: str, performance: RunLogs, audit: RunLogs, lacking: str
) -> None:
    with pytest.raises(MissingLogError) as caught:
        judge(test, VerdictInputs(audit, performance))
    assert lacking in str(caught.value)


@pytest.mark.parametrize(
    ("different", "same", "reasons"),
    [
        (["Samples per second: fast"], ["Samples per second: 9"], ["TEST04-A holds no score"]),
        (["Samples per second: 9"], [], ["TEST04-B holds no score"]),
        ([], [], ["TEST04-A holds no score", "TEST04-B holds no score"]),
        (
            ["Samples per second: 9", "performance_issue_same : 0"],
            ["Samples per second: 9", "performance_issue_same : 0"],
            ["TEST04-B did not issue the same sample (performance_issue_same is off)"],
        ),
        (
            ["Samples per second: 9", "performance_issue_unique : 0"],
            ["Scenario : Server"],
            [
                "TEST04-A did not issue different samples (performance_issue_unique is off)",
                "TEST04-A is Offline, TEST04-B Server",
                "TEST04-B holds no score",
            ],
        ),
        (
            ["Samples per second: 9"],
            ["Scenario : "],
            ["TEST04-A is Offline, TEST04-B unknown", "TEST04-B holds no score"],
        ),
        (
            ["Scenario : "],
            ["Samples per second: 9"],
            ["TEST04-A is unknown, TEST04-B Offline", "TEST04-A holds no score"],
        ),
    ],
)
def test_runs_of_test04_that_cannot_be_compared_are_told_by_their_names(
    different: list[str], same: list[str], reasons: list[str]
) -> None:
    def run(lines: list[str]) -> RunLogs:
        named = any(line.startswith("Scenario") for line in lines)
        return RunLogs(summary="\n".join([*([] if named else ["Scenario : Offline"]), *lines]).encode())

    verdict = judge("TEST04-A", VerdictInputs(run(same), run(different)))
    assert list(verdict.reasons) == reasons


def detail(**values: object) -> bytes:
    logged = {"loadgen_version": "6.0", "effective_scenario": "Offline", "result_validity": "VALID", **values}
    lines = (
        {"key": key, "value": value, "metadata": {"is_error": False, "is_warning": False}}
        for key, value in logged.items()
    )
    return "".join(f":::MLLOG {json.dumps(line)}\n" for line in lines).encode()


def state(*accuracies: str) -> str:
    return "".join(f"accuracy={accuracy}%, good=7, total=9\n" for accuracy in accuracies)


SMALL, ONE_OF = {"most_accuracy_change": "0.5"}, {"most_accuracy_change": "0.5", "most_accuracy_change_acc": "2"}
NONE_SAID = "the {} accuracy is not known or zero"


@pytest.mark.parametrize(
    ("baseline", "compliance", "limits", "reasons"),
    [
        pytest.param(state("70.0"), state("70.6"), {}, [], id="a percent"),
        pytest.param(
            state("70.0"), state("70.8"), {}, ["70.8 differs by 1.130 % from 70.0; 1 % allowed"], id="more than that"
        ),
        pytest.param(
            state("70.0"), state("70.6"), SMALL, ["70.6 differs by 0.850 % from 70.0; 0.5 % allowed"], id="less allowed"
        ),
        pytest.param(state("70.0"), state("70.8"), ONE_OF, [], id="more allowed of this one"),
        pytest.param(state("1.0", "70.0"), state("1.0", "70.1"), {}, [], id="the last one counts"),
        pytest.param("", state("70.0"), {}, [NONE_SAID.format("baseline")], id="no baseline"),
        pytest.param(state("70.0"), "nothing\n", {}, [NONE_SAID.format("compliance")], id="no accuracy"),
    ],
)
def test_answers_that_differ_are_compared_by_what_the_scorer_said_of_both(
    baseline: str, compliance: str, limits: dict[str, str], reasons: list[str]
) -> None:
    log = RunLogs(detail(result_samples_per_second=1000.0))
    inputs = VerdictInputs(
        audit=log,
        performance=log,
        metrics=("acc",),
        limits=limits,
        known_answers=WRONG,
        reports={BASELINE: baseline, COMPLIANCE: compliance},
    )
    verdict = judge("TEST01", inputs)
    assert list(verdict.reasons) == ([*WRONG.reasons, *(f"acc: {reason}" for reason in reasons)] if reasons else [])
    assert list(verdict.notes) == ([] if reasons else [NOTE])
    half = replace(inputs, reports={COMPLIANCE: compliance})
    assert judge("TEST01", half).reasons == WRONG.reasons


@pytest.mark.parametrize(("differing", "judged"), [((), False), (("2 answers differ",), True)])
def test_accuracies_are_compared_only_where_answers_differ(differing: tuple[str, ...], judged: bool) -> None:
    """TEST01, whose whole logs are elsewhere and whose scorer left its reports."""
    keys = {"effective_scenario": '"Offline"', "result_validity": '"VALID"', "result_samples_per_second": "100"}
    lines = "".join(f':::MLLOG {{"key": "{key}", "value": {value}}}\n' for key, value in keys.items())
    run = RunLogs(detail=lines.encode())
    inputs = VerdictInputs(
        run,
        run,
        known_answers=Part(differing, {"samples": "9"}),
        metrics=("acc",),
        reports={BASELINE: "accuracy=76.456%", COMPLIANCE: "accuracy=76.456%"},
    )
    verdict = judge("TEST01", inputs)
    assert verdict.passed
    assert any(name.startswith("fallback.") for name in verdict.figures) is judged
    assert bool(verdict.notes) is judged


SCENARIOS = ("Offline", "SingleStream", "MultiStream", "Server", "Interactive")
SINCE_2 = (
    *("result_samples_per_second", "early_stopping_latency_ss", "early_stopping_latency_ms"),
    *("result_completed_samples_per_sec", ""),
)
BEFORE_2 = (
    *("result_samples_per_second", "result_90.00_percentile_latency_ns", "effective_samples_per_query"),
    *("result_scheduled_samples_per_sec", ""),
)

# LoadGen 2.0 estimates, and the scripts of its round compared percentiles still.
OF_2_0 = (
    *("result_samples_per_second", "result_90.00_percentile_latency_ns"),
    *("result_99.00_percentile_per_query_latency_ns", "result_scheduled_samples_per_sec", ""),
)


@pytest.mark.parametrize(
    ("release", "more", "keys"),
    [
        ("6.0", {}, SINCE_2),
        ("2.1", {}, SINCE_2),
        ("2.0", {"early_stopping_met": True}, OF_2_0),
        ("1.9", {"early_stopping_met": True}, SINCE_2),
        ("1.9", {}, BEFORE_2),
    ],
    ids=["now", "its first", "between", "already", "before"],
)
def test_the_score_of_a_detail_log_is_under_the_key_of_its_release(
    release: str, more: dict[str, object], keys: tuple[str, ...]
) -> None:
    for scenario, key in zip(SCENARIOS, keys, strict=True):
        logged = detail(loadgen_version=release, effective_scenario=scenario, **more, **({key: 7} if key else {}))
        log = parse_detail(logged)
        assert find_score_key(log) == key
        assert read_from_detail(log) == Scored(scenario, "VALID", 7 if key else None)


STOPPED = "Early stopping satisfied: true"


@pytest.mark.parametrize(
    ("scenario", "lines", "score", "lower"),
    [
        ("Offline", ["Samples per second: 5", STOPPED], 5, False),
        ("Server", ["Scheduled samples per second: 5", STOPPED], None, False),
        ("Server", ["Scheduled samples per second: 5", "Completed samples per second: 6"], 5, False),
        ("SingleStream", ["90th percentile latency (ns): 5", STOPPED], None, False),
        ("SingleStream", [" * Early stopping 90th percentile estimate: 5", STOPPED], 5, True),
        ("SingleStream", [" * Early stopping 90.0th percentile estimate: 5"], 5, True),
        ("SingleStream", [" * Early stopping 99.9th percentile estimate: 5"], 5, True),
        ("SingleStream", [" * Early stopping 99th percentile estimate: 5"], None, False),
        ("SingleStream", ["90.0th percentile latency (ns): 5"], 5, True),
        ("MultiStream", [" * Early stopping 99.0th percentile estimate: 5"], 5, True),
        ("MultiStream", [" * Early stopping 90th percentile estimate: 5"], None, False),
        ("MultiStream", ["Samples per query: 5", STOPPED], None, False),
        ("Offline", ["Samples per second: 5", "Samples per second (again): 6"], 6, False),
    ],
    ids=str,
)
def test_the_score_of_a_summary_is_an_estimate_where_it_stopped_early(
    scenario: str, lines: list[str], score: float | None, lower: bool
) -> None:
    text = "\n".join([f"Scenario : {scenario}", "Result is : VALID", *lines])
    assert read_from_summary(parse_summary(text.encode())) == Scored(scenario, "VALID", score, lower_is_better=lower)


@pytest.mark.parametrize(
    ("release", "passed"),
    [("2.0 @ 701847516c", True), ("2.1 @ abc", False)],
)
def test_test05_compares_percentiles_where_the_scripts_of_the_round_did(release: str, passed: bool) -> None:
    """Estimates of runs with other counts of queries are farther apart than their percentiles."""

    def logs(percentile: int, estimate: int) -> RunLogs:
        lines = [
            *("Scenario : MultiStream", "Result is : VALID", f"99th percentile latency (ns) : {percentile}"),
            *("  Early stopping satisfied: Yes", f" * Early stopping 99th percentile estimate: {estimate}"),
        ]
        return RunLogs(detail(loadgen_version=release, effective_scenario="MultiStream"), "\n".join(lines).encode())

    limits = {"most_score_change": "5", "most_score_gain": "5"}
    question = VerdictInputs(
        audit=logs(59_805_408, 59_806_819),
        performance=logs(59_880_924, 63_913_466),
        scenario="MultiStream",
        limits=limits,
    )
    assert (not find_test("TEST05").judge(question).reasons) is passed
