"""Which kind of value LoadGen writes for a key, and what it is called where there is another."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.loadgen.value_formats import find_wrong_notation
from tests.unit.loadgen.test_contradictions import make_log

NUMBERS = (
    *("result_samples_per_second", "result_token_throughput", "result_qps_with_loadgen_overhead", "result_query_count"),
    *("result_mean_latency_ns", "result_99.00_percentile_latency_ns", "result_time_to_output_token_max"),
)
OTHERS = (
    *("result_validity", "result_min_duration_met", "early_stopping_met", "early_stopping_latency_ss", "num_errors"),
    *(
        "effective_target_qps",
        "effective_min_query_count",
        "requested_server_coalesce_queries",
        "generated_query_count",
    ),
    *("power_end", "sut_name", "my_result_query_count", "early_stopping_result", "result_query_counts"),
)
ODD: tuple[Any, ...] = (True, 7, 0.5, -1, -0.5, "x", [7])


def reported(version: str, key: str, value: Any) -> list[str]:
    values = {"test_datetime": None, key: value}
    return list(map(str, find_wrong_notation(make_log(version, **values))))


@pytest.mark.parametrize("key", [*NUMBERS, *OTHERS])
def test_of_early_releases_numbers_among_the_results_are_judged(key: str) -> None:
    for value in ODD:
        number = type(value) in (int, float) and value >= 0
        assert bool(reported("3.1 @ a", key, value)) is (key in NUMBERS and not number), value


@pytest.mark.parametrize(
    ("version", "key", "value", "fine"),
    [
        ("2.1 @ a", "result_query_count", "12", True),
        ("3.0 @ a", "result_query_count", "12", False),
        ("2.1 @ a", "result_query_count", "1.5", False),
        ("2.1 @ a", "result_query_count", True, False),
        ("2.1 @ a", "result_min_latency_ns", "12", False),
    ],
)
def test_the_first_releases_wrote_their_count_as_text(version: str, key: str, value: object, fine: bool) -> None:
    assert bool(reported(version, key, value)) is not fine
