"""The score of a summary, and what TEST01 concludes from its parts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.loadgen.log import parse_detail
from reconciler.loadgen.log_files import BASELINE, COMPLIANCE
from reconciler.rules.compliance.definition import Part, RunLogs, VerdictInputs
from reconciler.rules.compliance.judging import find_test, judge
from reconciler.rules.compliance.scores import Scored, find_score_key, read_from_detail
from tests.unit.rules.compliance.runs import write_detail

WRONG = Part(("2 answers differ",), {"samples": "7"})
NOTE = "compared by accuracy, because 2 answers differ"


def offline(rate: str, *more: str) -> RunLogs:
    lines = ["Scenario : Offline", f"Samples per second: {rate}", "Result is : VALID", *more]
    return RunLogs(summary="\n".join(lines).encode())


@pytest.mark.parametrize(
    ("test", "performance", "audit", "limits", "reasons"),
    [
        ("TEST04-A", offline("100"), offline("109"), {}, ()),
        ("TEST04-A", offline("100"), offline("50"), {}, ()),
        ("TEST04-A", offline("100"), offline("111"), {}, ("TEST04-B is faster: 11.00 % above 100 of TEST04-A",)),
        (
            "TEST04-A",
            offline("100", "performance_issue_unique : 0"),
            offline("100", "performance_issue_unique : 0"),
            {},
            ("TEST04-A did not issue different samples (performance_issue_unique is off)",),
        ),
        ("TEST05", offline("100"), offline("96"), {}, ()),
        ("TEST05", offline("100"), offline("94"), {}, ("the score 94 is 6.00 % below 100",)),
        ("TEST05", offline("100"), offline("106"), {}, ()),
        ("TEST05", offline("100"), offline("106"), {"most_score_gain": "5"}, ("the score 106 is 6.00 % above 100",)),
    ],
)
def test_tests_of_earlier_rounds_compare_the_run_of_the_test_with_the_other(
    test: str, performance: RunLogs, audit: RunLogs, limits: dict[str, str], reasons: tuple[str, ...]
) -> None:
    verdict = judge(test, VerdictInputs(audit, performance, limits=limits))
    assert verdict.reasons == reasons
    assert list(verdict.files) == ["verify_performance.txt"]


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
    log = RunLogs(write_detail(result_samples_per_second=1000.0))
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
def test_the_score_of_a_log_has_its_releases_key(release: str, more: dict[str, object], keys: tuple[str, ...]) -> None:
    for scenario, key in zip(SCENARIOS, keys, strict=True):
        logged = write_detail(loadgen_version=release, effective_scenario=scenario, **more, **({key: 7} if key else {}))
        log = parse_detail(logged)
        assert find_score_key(log) == key
        assert read_from_detail(log) == Scored(scenario, "VALID", 7 if key else None)


@pytest.mark.parametrize(("release", "passed"), [("2.0 @ 701847516c", True), ("2.1 @ abc", False)])
def test_test05_compares_percentiles_where_the_scripts_of_the_round_did(release: str, passed: bool) -> None:
    """Estimates of runs with other counts of queries are farther apart than their percentiles."""

    def logs(percentile: int, estimate: int) -> RunLogs:
        lines = [
            *("Scenario : MultiStream", "Result is : VALID", f"99th percentile latency (ns) : {percentile}"),
            *("  Early stopping satisfied: Yes", f" * Early stopping 99th percentile estimate: {estimate}"),
        ]
        return RunLogs(
            write_detail(loadgen_version=release, effective_scenario="MultiStream"), "\n".join(lines).encode()
        )

    limits = {"most_score_change": "5", "most_score_gain": "5"}
    question = VerdictInputs(
        audit=logs(59_805_408, 59_806_819),
        performance=logs(59_880_924, 63_913_466),
        scenario="MultiStream",
        limits=limits,
    )
    assert (not find_test("TEST05").judge(question).reasons) is passed
