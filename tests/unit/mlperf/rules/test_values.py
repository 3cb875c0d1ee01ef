"""The values that rules are made of: what a verdict file must say, and which metric of a benchmark is published."""

from __future__ import annotations

import pytest

from reconciler.resource.ruled_values import (
    EndpointsRules,
    Expected,
    Metric,
    NetworkRules,
    Presence,
    ScenarioTable,
    SystemField,
    parse_expected,
)


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


OWN = Metric("own", "s", divisor=1000, lower_is_better=True)


@pytest.mark.parametrize(
    ("metrics", "special", "key", "unit"),
    [
        ({}, {}, "own", "s"),
        ({"Server": {"key": "theirs", "unit": "x/s"}}, {}, "own", "s"),
        ({"Offline": {"key": "theirs", "unit": "x/s"}}, {}, "theirs", "x/s"),
        ({"Offline": {"key": "theirs"}}, {}, "theirs", "s"),
        ({"Offline": {"key": "own", "unit": "x/s"}}, {}, "own", "s"),
        ({"Offline": {"unit": "x/s"}}, {}, "own", "s"),
        ({"Offline": {"key": "theirs", "unit": "x/s"}}, {"net": {"Offline": "special"}}, "special", "s"),
        ({"Offline": {"key": "theirs", "unit": "x/s"}}, {"net": {"Offline": "own"}}, "own", "s"),
        ({}, {"net": {"Offline": "special"}}, "special", "s"),
        ({}, {"other": {"Offline": "special"}, "net": {"Server": "special"}}, "own", "s"),
    ],
    ids=str,
)
def test_the_harness_publishes_its_own_metric_where_the_round_says_so(
    metrics: dict[str, dict[str, str]], special: dict[str, dict[str, str]], key: str, unit: str
) -> None:
    rules = EndpointsRules(metrics=metrics, benchmark_metrics=special)
    assert rules.metric("net", "Offline", OWN) == Metric(key, unit, divisor=1000, lower_is_better=True)


def test_presence_is_told_in_a_word() -> None:
    assert [str(each) for each in Presence] == ["required", "optional", "forbidden"]


def test_what_a_round_does_not_say_binds_nobody() -> None:
    field = SystemField("status")
    assert (field.filled, field.integer, field.one_of) == (False, False, ())
    assert (Metric("k", "u").divisor, Metric("k", "u").lower_is_better) == (1, False)
    assert (ScenarioTable().required, ScenarioTable().optional, ScenarioTable().one_of) == ((), (), ())
    assert (NetworkRules().fields, NetworkRules().sut_name) == ((), "")
    assert (EndpointsRules().benchmarks, EndpointsRules().single, EndpointsRules().required) == ((), (), ())
