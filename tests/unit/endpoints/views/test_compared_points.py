"""Comparing: where the result of a point is on its curve."""

from __future__ import annotations

from decimal import Decimal

import pytest
from msgspec.structs import replace

from reconciler.diff.timeline import CurvePoint, Side
from reconciler.history.compare import read_sides
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import DEDICATED_OFFLINE, CellSettings
from tests.unit.diff.simulated import Wish, desire
from tests.unit.history.test_compare import commit, measured


@pytest.mark.parametrize(
    ("settings", "entered", "point", "offline"),
    [
        ({"benchmark.official": "gpt-oss"}, "gpt-oss", CurvePoint(8, Decimal(20), Decimal(1), Decimal("12.5")), False),
        ({DEDICATED_OFFLINE: True}, "", None, True),
        (None, "", CurvePoint(8, Decimal(20), Decimal(1), Decimal("12.5")), False),
    ],
    ids=["entered as another", "a dedicated Offline run", "not declared any more"],
)
def test_a_point_is_on_its_curve(
    settings: dict[str, object] | None, entered: str, point: CurvePoint | None, offline: bool
) -> None:
    wish = Wish(scenario="c8", division="standardized")
    desired, world = desire([wish]), measured(wish)
    result = Address(Kind.RESULT, str(wish.cell))
    at = commit(desired, world, {"point": {"tps_per_user": "20", "ttft_p90_ms": "12.5"}})
    if settings is None:
        at.desired = replace(at.desired, by_address={})
    else:
        own = replace(desired.detail(result), settings=CellSettings(settings))
        at.desired = replace(at.desired, detail=lambda address: own if address == result else desired.detail(address))
    (point_side,) = read_sides(at).values()
    assert point_side == Side(wish.cell, "1", "samples/s", "VALID", entered=entered, point=point, offline=offline)
