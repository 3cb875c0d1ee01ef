"""How long runs take is known apart from what reads their results, and of every format."""

from __future__ import annotations

import pytest

from reconciler.reconcile.planning import predict_run
from reconciler.resource.settings import RESULTS, CellSettings
from reconciler.rules.results.table import FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_says_how_long_its_runs_take(name: str) -> None:
    inputs = {"mode": "performance", "scenario": "Offline", "min_duration": 600_000, "target_qps": "10"}
    assert (predict_run(CellSettings({RESULTS: name}), inputs) or 0) >= 600


def test_a_run_lasts_by_the_formulas_of_loadgen_where_nothing_else_is_said() -> None:
    inputs = {"mode": "performance", "scenario": "Offline", "min_duration": 600_000, "target_qps": "10"}
    assert (predict_run(CellSettings({}), inputs) or 0) >= 600
