"""Progress of a child whose clock is another machine's."""

from __future__ import annotations

import struct
from pathlib import Path

from harness.contract import STAGES, CounterCopy, read_progress


def write(path: Path, stage: str, done: int, expected: int) -> None:
    """As a machine that started long ago, and one whose clock is behind ours, would."""
    path.write_bytes(struct.pack("=IIQQQQ", STAGES.index(stage), 0, done, expected, 1, 2))


def test_progress_is_dated_by_our_own_clock(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    copied = CounterCopy(there, here)
    copied.copy()
    for stage, done in (("loading", 0), ("running", 5), ("running", 9), ("completing", 0), ("running", 2)):
        write(there, stage, done, 10)
        copied.copy()
        found = read_progress(here)
        assert found is not None
        assert (found.stage, found.done, found.expected) == (stage, done, 10)
        assert 0 <= found.idle <= found.seconds < 300


def test_standstill_there_is_idle_here(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    copied = CounterCopy(there, here)
    write(there, "running", 5, 10)
    copied.copy()
    before = here.read_bytes()
    write(there, "running", 5, 10)
    copied.copy()
    assert here.read_bytes() == before
