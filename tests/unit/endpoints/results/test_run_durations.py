"""How long the run of a point takes."""

from __future__ import annotations

import pytest

from reconciler.reconcile.planning import predict_run
from reconciler.resource.settings import RESULTS, CellSettings

POINT = {"mode": "performance", "min_duration": 90_000}


@pytest.mark.parametrize(
    ("inputs", "seconds"),
    [(POINT, 90.0), ({**POINT, "min_duration": 0}, None), ({**POINT, "mode": "accuracy"}, None)],
    ids=["performance", "without a duration", "accuracy"],
)
def test_a_point_lasts_as_long_as_it_is_asked_to(inputs: dict[str, object], seconds: float | None) -> None:
    assert predict_run(CellSettings({RESULTS: "points"}), inputs) == seconds
