"""The words that all rules share."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from reconciler.check.demands import NEW, OLD, OURS, read_demand, read_setting, show_milliseconds, soften
from reconciler.tree.findings import Severity
from tests.unit.tree.small_cells import DETAIL, RUN, log, rules, small_cell


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [
        (None, "nothing"),
        (0, "0 ms"),
        (1_000_000, "1 ms"),
        (1_500_000, "1.5 ms"),
        (2_000_000_000, "2000 ms"),
        (1, "0.000001 ms"),
    ],
)
def test_times_are_shown_in_milliseconds(nanoseconds: int | None, shown: str) -> None:
    assert show_milliseconds(None if nanoseconds is None else Decimal(nanoseconds)) == shown


def test_what_a_round_demands_of_a_run(tmp_path: Path) -> None:
    files = {f"{RUN}/{DETAIL}": log(("effective_scenario", "Offline"))}
    run = small_cell(tmp_path, files, benchmark=rules(values={"least": 5, "word": "x"}), exempt=("mild",)).performance
    assert run is not None
    assert (read_demand(run, "least"), read_demand(run, "word"), read_demand(run, "most")) == (Decimal(5), None, None)
    assert (read_setting(run, "word"), read_setting(run, "most")) == ("x", None)
    assert (soften(run.cell, "mild"), soften(run.cell, "strict")) == (Severity.WARNING, None)
    unruled = small_cell(tmp_path, files, benchmark=None).performance
    assert unruled is not None
    assert read_demand(unruled, "least") is read_setting(unruled, "word") is None
    assert (NEW, OLD, OURS) == ("submission checker", "older submission checker", "ours")
