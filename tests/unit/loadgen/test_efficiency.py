"""Samples per joule, as the final report of a round has them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.verdict import compute_efficiency
from tests.unit.tree.small_cells import parse_log


def make_log(*, without: Sequence[str] = (), **values: object) -> DetailLog:
    """A run of 600 s."""
    clock = {"power_begin": "11-22-2026 12:00:00.000", "power_end": "11-22-2026 12:10:00.000"}
    return parse_log({key: value for key, value in {**clock, **values}.items() if key not in without})


@pytest.mark.parametrize("unit", ["samples/s", "queries/s", "tokens/s"])
def test_rate_per_second_is_checked_against_the_power(unit: str) -> None:
    found = compute_efficiency(make_log(), {"value": "54.3", "unit": unit}, "200")
    assert found == {"value": "0.2715", "unit": f"{unit.removesuffix('/s')}/J"}


@pytest.mark.parametrize(("group", "value"), [(1, "0.05"), (8, "0.4")])
def test_of_a_latency_the_samples_of_the_whole_run_are_checked_against_its_energy(group: int, value: str) -> None:
    log = make_log(result_query_count=6000, generated_samples_per_query=group)
    assert compute_efficiency(log, {"value": "3.1", "unit": "ms"}, "200") == {"value": value, "unit": "samples/J"}


@pytest.mark.parametrize("watts", ["0", "-1", "", None])
def test_without_power_there_is_no_efficiency(watts: object) -> None:
    assert compute_efficiency(make_log(), {"value": "54", "unit": "samples/s"}, watts) is None


def test_without_a_result_there_is_no_efficiency() -> None:
    assert compute_efficiency(make_log(), None, "200") is None
    assert compute_efficiency(make_log(), {"value": "3.1", "unit": "ms"}, "200") is None


def test_of_a_run_shorter_than_a_second_and_of_queries_of_unknown_size() -> None:
    log = make_log(result_query_count=50, power_end="11-22-2026 12:00:00.500")
    assert compute_efficiency(log, {"value": "3.1", "unit": "ms"}, "200") == {"value": "0.5", "unit": "samples/J"}


def test_a_rate_of_none_is_no_efficiency() -> None:
    assert compute_efficiency(make_log(), {"value": "0", "unit": "samples/s"}, "200") is None
    assert compute_efficiency(make_log(), {"value": "fast", "unit": "samples/s"}, "200") is None
