"""Why a user.conf says something else than its log: what else in its cell was started with that value."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.loadgen.user_conf import ConfValue
from reconciler.verify.causes import ConfCause, find_cause, is_rounded
from reconciler.verify.settings import ConfSetting
from tests.unit.tree.small_cells import parse_log

ANOTHER, AUDIT, ACCURACY = "conf-of-another-run", "conf-of-audit-run", "conf-of-accuracy-run"
QPS, LATENCY = "effective_target_qps", "effective_target_latency_ns"


def run(file: str, values: Mapping[str, object] | None = None, scenario: str = "Server") -> Any:
    return SimpleNamespace(log=parse_log({"effective_scenario": scenario, **(values or {})}, file))


def cell(performance: Any = None, accuracy: Any = None, **tests: Any) -> Any:
    """``rules``: a performance run lasts at least 600 s."""
    return SimpleNamespace(
        performance=performance or run("performance.txt"),
        accuracy=accuracy,
        test_views=tests,
        is_foreign=lambda name: name == "TEST99",
        cell=SimpleNamespace(scenario="Server"),
        rules=SimpleNamespace(get_value=lambda name, _: 600_000 if name == "least_min_duration" else None),
    )


def find(view: Any, name: str, value: object, logged: str = "100") -> tuple[str, str]:
    found = find_cause(view, name, ConfSetting(value, ConfValue(str(value), 3, name)), logged)
    assert isinstance(found, ConfCause)
    return found.text, found.mechanism


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("target_qps", QPS),
        ("min_duration", "effective_min_duration_ms"),
        ("min_query_count", "requested_min_query_count"),
        ("max_query_count", "effective_max_query_count"),
        ("max_duration", "effective_max_duration_ms"),
        ("target_latency", LATENCY),
    ],
)
def test_value_of_an_other_run_of_the_cell_is_said_to_be_that_runs_setting(name: str, key: str) -> None:
    other = run("accuracy.txt", {"effective_x": 1, key: 700_000})
    accuracy = ("the setting of the accuracy run (accuracy.txt:3)", ACCURACY)
    assert find(cell(accuracy=other), name, 700_000) == accuracy
    assert find(cell(TEST04=other), name, 700_000) == ("the setting of TEST04 (accuracy.txt:3)", AUDIT)
    assert find(cell(accuracy=other, TEST01=None, TEST04=run("TEST04.txt")), name, 700_000) == accuracy
    assert find(cell(accuracy=other, TEST04=run("TEST04.txt", {key: 700_000})), name, 700_000)[1] == AUDIT
    assert find(cell(accuracy=other), name, 699_990) == ("", ANOTHER)


@pytest.mark.parametrize(
    ("value", "same"),
    [("1000000", True), ("1000005", True), ("999995.1", True), ("1000005.1", False), ("999994", False)],
)
def test_values_are_the_same_to_five_millionths(value: str, same: bool) -> None:
    found, _ = find(cell(accuracy=run("accuracy.txt", {QPS: 1_000_000})), "target_qps", value)
    assert bool(found) is same


@pytest.mark.parametrize(
    ("value", "factor"),
    [
        ("92", "0.92"),
        ("96", "0.96"),
        ("92.05", "0.92"),
        ("91.95", "0.92"),
        ("92.06", ""),
        ("91.94", ""),
        ("94", ""),
        ("100", ""),
    ],
)
def test_rate_near_a_usual_part_of_the_published_one_is_no_proof_of_an_audit(value: str, factor: str) -> None:
    cause, mechanism = find(cell(), "target_qps", value)
    assert (bool(cause), cause.startswith(factor), mechanism) == (bool(factor), True, ANOTHER)
    assert find(cell(), "max_query_count", value) == ("", ANOTHER)
    for unknown in ("0", "", "many"):
        assert find(cell(), "target_qps", value, unknown) == ("", ANOTHER)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("min_duration", 599_999, "a quick test's duration"),
        ("min_duration", 600_000, ""),
        ("min_query_count", 1, "a quick test's query count"),
        ("min_query_count", 0, "a quick test's query count"),
        ("min_query_count", 2, ""),
        ("max_query_count", 1, ""),
        ("max_duration", 1, ""),
        ("min_duration", "soon", ""),
    ],
)
def test_what_is_less_than_any_run_needs_is_of_a_quick_test(name: str, value: object, text: str) -> None:
    assert find(cell(), name, value) == (text, "conf-of-quick-test" if text else ANOTHER)
    unruled = cell()
    unruled.rules = None
    assert find(unruled, "min_duration", 1) == ("", ANOTHER)


@pytest.mark.parametrize(
    ("text", "value", "logged", "rounded"),
    [
        ("3.33", 3.33, "3.3333", True),
        ("3.34", 3.34, "3.3333", False),
        ("3", 3_000_000, "3333333", True),  # milliseconds, and LoadGen's nanoseconds
        ("4", 4_000_000, "3333333", False),
        ("2", 2, "2.5", True),  # half to even
        ("3", 3, "2.5", False),
        ("0", 0, "0.2", False),
        ("x", 3, "3", False),
        ("3", "x", "3", False),
        ("3", 3, "x", False),
        ("3", 0, "3", False),
        ("1e-400", 3, "3e4000", False),
    ],
)
def test_value_with_fewer_digits_is_rounded(text: str, value: object, logged: str, rounded: bool) -> None:
    assert is_rounded(text, value, logged) is rounded
