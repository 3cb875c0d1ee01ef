"""Tests that are named as long or as waiting are there."""

from __future__ import annotations

from pathlib import Path

from tests import schedule

ROOT = Path(__file__).parents[2]


def test_what_is_named_as_long_or_waiting_is_there() -> None:
    assert [name for name in (*schedule.LONG, *schedule.WAITING) if not (ROOT / name).exists()] == []
