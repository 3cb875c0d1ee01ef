"""What to try next, by setting, value, unit and reason."""

from __future__ import annotations

import pytest

from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.margins import compute_margins
from reconciler.loadgen.suggestions import Suggestion, suggest
from tests.unit.mlperf.loadgen.test_contradictions import make_log

MAXIMUM = ("error_runtime", "Ending early: Max query count reached.")


def offered(log: DetailLog, *, valid: bool = False) -> str | None:
    found = suggest(log, compute_margins(log), valid=valid)
    return None if found is None else str(found)


def test_a_setting_to_leave_out_has_no_unit() -> None:
    assert str(Suggestion("a", "1", "ns", "because")) == "a: 1 ns (because)"
    assert str(Suggestion("a", "", "", "because")) == "a: leave it out (because)"


@pytest.mark.parametrize(("key", "name"), [("max_query_count", "max_query_count"), ("max_duration_ms", "max_duration")])
def test_a_bound_that_ended_the_run_is_left_out(key: str, name: str) -> None:
    bounded = {f"effective_{key}": 5, "effective_scenario": "SingleStream"}
    said = f"{name}: leave it out ({name} ended the run early)"
    assert offered(make_log("3.0 @ a", MAXIMUM, **bounded)) == said
    assert offered(make_log("3.0 @ a", MAXIMUM, **bounded), valid=True) is None
    assert offered(make_log("3.0 @ a", **bounded)) is None
    assert offered(make_log("3.0 @ a", ("error_runtime", "Something else"), **bounded)) is None
    assert offered(make_log("3.0 @ a", MAXIMUM, **bounded | {f"effective_{key}": 0})) is None
    assert offered(make_log("3.0 @ a", MAXIMUM, **bounded, result_validity=None)) is None
