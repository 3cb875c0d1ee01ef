"""How checks read values of a log and show them."""

from __future__ import annotations

from decimal import Decimal

from reconciler.loadgen.inconsistency import elapsed_seconds
from reconciler.loadgen.log import DetailLog, parse_detail


def make_log(**values: str) -> DetailLog:
    """Of the JSON text of values."""
    return parse_detail(
        "".join(f':::MLLOG {{"key": "{key}", "value": {text}}}\n' for key, text in values.items()).encode()
    )


def test_a_run_lasts_from_its_beginning_to_its_end() -> None:
    begun, ended = '"11-22-2026 12:00:00.250"', '"11-22-2026 12:00:10.500"'
    assert elapsed_seconds(make_log(power_begin=begun, power_end=ended)) == Decimal("10.25")
    for values in ({"power_begin": begun}, {"power_end": ended}, {"power_begin": begun, "power_end": '"late"'}):
        assert elapsed_seconds(make_log(**values)) is None
