"""--quiet: nothing where all is well, everything where something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import CELL, Reconcile, edit


@pytest.mark.parametrize(
    "words",
    [("plan", "-q"), ("-q", "plan"), ("--quiet",), ("status", "--quiet"), ("show", "-q", "digits")],
    ids=" ".join,
)
@pytest.mark.usefixtures("recorded")
def test_where_all_is_well_nothing_is_said(words: tuple[str, ...], reconcile: Reconcile) -> None:
    assert reconcile(*words) == (0, "", "")


def test_what_is_not_in_sync_is_reported_as_ever(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "batch_size: 8", "batch_size: 16")
    assert reconcile("plan", "-q") == reconcile("plan")
    assert reconcile("plan", "-q")[0] == 2


@pytest.mark.usefixtures("recorded")
def test_what_was_asked_for_is_written(reconcile: Reconcile) -> None:
    code, out, err = reconcile("-q", "plan", "--json")
    assert (code, json.loads(out)["in_sync"], err) == (0, True, "")
    _, out, _ = reconcile("logs", "digits", "-q", "--print", "performance/mlperf_log_summary.txt")
    assert "MLPerf Results Summary" in out


@pytest.mark.usefixtures("recorded")
def test_errors_are_said_with_their_fix(reconcile: Reconcile) -> None:
    code, out, err = reconcile("-q", "show", "nothing/like/it")
    assert (code, out) == (1, "")
    assert "no cell matches 'nothing/like/it'" in err
    assert "fix: " in err


@pytest.mark.usefixtures("recorded")
def test_one_quiet_command_leaves_the_next_as_it_is(reconcile: Reconcile) -> None:
    reconcile("-q", "status")
    assert CELL.split("/")[-1] in reconcile("status")[1]
