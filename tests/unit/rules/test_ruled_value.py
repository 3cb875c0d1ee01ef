"""One ruled value: which of its sources counts, what the others say, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.resource.ruled_values import Expected, parse_expected
from reconciler.rules.ruled_value import Ignored, RoundFileError, RuledValue, is_sourced, parse_ruled_value

KNOWN = "policy, checker, old checker, mlperf.conf, loadgen, audit.config, verification"


@pytest.mark.parametrize(
    ("name", "entry", "found"),
    [
        ("min_duration", {"checker": 5}, RuledValue(5, ("checker",))),
        ("min_duration", {"checker+policy": 5}, RuledValue(5, ("checker", "policy"))),
        (
            "min_duration",
            {"checker+policy": 5, "loadgen": 5, "mlperf.conf": 5},
            RuledValue(5, ("checker", "policy", "loadgen", "mlperf.conf")),
        ),
        (
            "least_runs",
            {"policy": 4, "checker+loadgen": 5, "old checker": 4, "mlperf.conf": 3},
            RuledValue(5, ("checker", "loadgen"), (("policy", 4), ("old checker", 4), ("mlperf.conf", 3))),
        ),
        (
            "most_ttft_latency",
            {"policy": "4.5", "checker": 4, "loadgen": "10"},
            RuledValue(4, ("checker",), (("policy", "4.5"), ("loadgen", "10"))),
        ),
        (
            "tests.TEST01.limits.most_score_change",
            {"policy": "9", "verification": "10"},
            RuledValue("9", ("policy",), (("verification", "10"),)),
        ),
        (
            "accuracy.acc.least",
            {"policy": "9.5", "checker": "10"},
            RuledValue("10", ("checker",), (("policy", "9.5"),)),
        ),
        (
            "model_key",
            {"checker": "a", "ignored": {"policy+loadgen": "b", "old checker": "c"}, "because": "a slip"},
            RuledValue(
                "a",
                ("checker",),
                (),
                (
                    Ignored("policy", "b", "a slip"),
                    Ignored("loadgen", "b", "a slip"),
                    Ignored("old checker", "c", "a slip"),
                ),
            ),
        ),
        (
            "least_runs",
            {"checker": 1, "policy": 2, "ignored": {"loadgen": 3}, "because": "old"},
            RuledValue(2, ("policy",), (("checker", 1),), (Ignored("loadgen", 3, "old"),)),
        ),
        ("accuracy_files", {"policy": [1, {"a": [2]}]}, RuledValue((1, {"a": (2,)}), ("policy",))),
    ],
    ids=["one", "two", "three agree", "least", "most", "a limit", "a bar", "ignored", "both", "a list"],
)
def test_the_strictest_source_counts(name: str, entry: dict[str, Any], found: RuledValue) -> None:
    assert parse_ruled_value(name, entry) == found


BOTH = "`ignored` and `because` require each other"
DIFFER = "sources differ, and neither is stricter"


@pytest.mark.parametrize(
    ("name", "entry", "problem", "fix"),
    [
        ("min_duration", {}, "no source", f"write {{SOURCE: value}}; known: {KNOWN}"),
        ("min_duration", {"ignored": {"policy": 1}, "because": "x"}, "no source", "write {SOURCE: value}"),
        ("min_duration", {"rumour": 1}, "unknown source 'rumour'", f"known: {KNOWN}"),
        ("min_duration", {"checker+rumour": 1}, "unknown source 'checker+rumour'", "known: policy"),
        ("min_duration", {"checker": 1, "ignored": {"me": 2}, "because": "x"}, "unknown source 'me'", "known: policy"),
        ("min_duration", {"checker": 1.5}, "1.5 is not exact as a number", 'write it in quotes: "1.5"'),
        ("min_duration", {"checker": [{"a": 1.5}]}, "1.5 is not exact as a number", "write it in quotes"),
        (
            "min_duration",
            {"checker": 1, "ignored": {"policy": 0.5}, "because": "x"},
            "0.5 is not exact as a number",
            "write it in quotes",
        ),
        ("min_duration", {"checker": 1, "ignored": {"policy": 2}}, BOTH, "write both `ignored` and `because`"),
        ("min_duration", {"checker": 1, "because": "x"}, BOTH, "or neither"),
        ("min_duration", {"checker": 1, "ignored": {}, "because": "x"}, BOTH, "or neither"),
        (
            "min_duration",
            {"checker": 1, "policy": 2},
            DIFFER,
            "list the ignored source under `ignored`, and the reason under `because`",
        ),
    ],
)
def test_what_is_no_value_is_reported_at_its_place(name: str, entry: dict[str, Any], problem: str, fix: str) -> None:
    for where, place in (("", name), ("general", f"general.{name}")):
        with pytest.raises(RoundFileError) as caught:
            parse_ruled_value(name, entry, where)
        assert (caught.value.place, caught.value.problem, caught.value.at) == (place, problem, "")
        assert caught.value.message == f"{place}: {problem}"
        assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("entry", "sourced"),
    [
        ({"policy": 1}, True),
        ({"policy+old checker": 1, "ignored": {}, "because": ""}, True),
        ({"policy": 1, "rumour": 2}, False),
        ({"policy+rumour": 1}, False),
        ({}, False),
        (["policy"], False),
        (7, False),
        ("policy", False),
    ],
    ids=str,
)
def test_a_mapping_of_sources_alone_is_a_value(entry: object, sourced: bool) -> None:
    assert is_sourced(entry) is sourced


def test_a_text_is_expected_anywhere_or_as_a_whole_line_and_a_list_in_a_list_holds_alternatives() -> None:
    entry = {"a.txt": ["= TEST PASS", "pass"], "b.txt": [["= yes", "= no"], ["one", "= two"], ("x",)], "c.txt": []}
    assert parse_expected(entry) == (
        Expected("a.txt", ("TEST PASS",), True),
        Expected("a.txt", ("pass",), False),
        Expected("b.txt", ("yes", "no"), True),
        Expected("b.txt", ("one", "two"), False),
        Expected("b.txt", ("x",), False),
    )


@pytest.mark.parametrize(
    ("lines", "whole", "anywhere"),
    [
        (["TEST PASS"], True, True),
        (["x", "  OK\t"], True, True),
        (["a TEST PASS"], False, True),
        (["TEST FAIL"], False, False),
        ([], False, False),
    ],
    ids=str,
)
def test_a_line_says_what_is_expected(lines: list[str], whole: bool, anywhere: bool) -> None:
    texts = ("TEST PASS", "OK")
    assert Expected("f", texts, True).stands_in(lines) is whole
    assert Expected("f", texts, False).stands_in(lines) is anywhere
