"""Samples per joule of a measured run, as the final report of a round computes them from power and result."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal

from reconciler.loadgen import keys
from reconciler.loadgen.log import DetailLog
from reconciler.resource.canonical import show_decimal
from reconciler.resource.quantities import parse_decimal

_DIGITS = Context(prec=6)


def compute_efficiency(log: DetailLog, metric: Mapping[str, object] | None, watts: object) -> dict[str, str] | None:
    """Value and unit; None where the result or the power is unknown. A rate per second is one per watt-second as well;
    of a latency it is the samples of the whole run by the energy that it took."""
    power = parse_decimal(watts)
    if metric is None or power is None or power <= 0:
        return None
    unit = str(metric["unit"])
    if unit.endswith("/s"):
        rate, unit = parse_decimal(metric["value"]), f"{unit.removesuffix('/s')}/J"
    else:
        rate, unit = _compute_rate(log), "samples/J"
    return {"value": show_decimal(_DIGITS.divide(rate, power)), "unit": unit} if rate else None


def _compute_rate(log: DetailLog) -> Decimal | None:
    """Samples per second between power_begin and power_end."""
    queries, group = (
        parse_decimal(log.get(key)) for key in (keys.RESULT_QUERY_COUNT, keys.GENERATED_SAMPLES_PER_QUERY)
    )
    if queries is None or log.started is None or log.ended is None:
        return None
    lasted = Decimal(str((log.ended - log.started).total_seconds()))
    return queries * (group or 1) / lasted if lasted > 0 else None
