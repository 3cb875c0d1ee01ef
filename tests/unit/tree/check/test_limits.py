"""The limits of token latencies, on logs of a few lines."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.tree.check.limits import list_token_limits
from tests.unit.tree.check.test_runs import run

LIMITS = {"most_ttft_latency": 2_000_000_000, "most_tpot_latency": 100_000_000}
TTFT, TPOT = "result_first_token_99.00_percentile_latency_ns", "result_time_per_output_token_99.00_percentile_ns"


def tell(ttft: object, tpot: object, scenario: str, folder: str, limits: dict[str, int]) -> list[tuple[str, str, int]]:
    measured: Any = run((TTFT, ttft), (TPOT, tpot), folder=folder, ran=scenario)
    measured.cell.rules = SimpleNamespace(value=lambda name, _: limits.get(name))
    return [(told.found, told.wanted, told.place.line) for told in list_token_limits(measured)]


@pytest.mark.parametrize(
    ("ttft", "tpot", "told"),
    [
        (1_999_999_999, 99_999_999, []),
        (2_000_000_000, 1, [("p99 TTFT 2000 ms", "below 2000 ms, the limit of Server", 2)]),
        (1, 100_000_000, [("p99 TPOT 100 ms", "below 100 ms, the limit of Server", 3)]),
    ],
)
def test_token_latencies_of_server_are_below_their_limits(
    ttft: int, tpot: int, told: list[tuple[str, str, int]]
) -> None:
    assert tell(ttft, tpot, "Server", "Server", LIMITS) == told
    assert tell(ttft, tpot, "Server", "Server", {}) == []
    assert tell(ttft, tpot, "Offline", "Offline", LIMITS) == []
    assert tell(ttft, tpot, "Server", "Offline", LIMITS) == []
