"""What to try next, by setting, value, unit and reason."""

from __future__ import annotations

from reconciler.loadgen.suggestions import Suggestion


def test_a_setting_to_leave_out_has_no_unit() -> None:
    assert str(Suggestion("a", "1", "ns", "because")) == "a: 1 ns (because)"
    assert str(Suggestion("a", "", "", "because")) == "a: leave it out (because)"
