"""A few kills of every command that writes, and every command on disks that refuse at random; ``python -m
tests.crash.kills --count 1000`` and ``python -m tests.crash.faults`` make more such tries."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.commands import COMMANDS
from tests.crash.faults import TRIED
from tests.shared import need

need("mlperf_loadgen")

TOP = Path(__file__).parents[2]


def strike(module: str, count: int, seed: int, *words: str) -> str:
    """In a process of its own, which may fork."""
    command = [sys.executable, "-m", f"tests.crash.{module}", "--count", str(count), "--seed", str(seed), *words]
    ended = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
    return ended.stdout.splitlines()[-1]


@pytest.mark.timeout(600)
def test_next_run_after_a_kill_finishes_by_itself() -> None:
    chosen = [word for name in ("pass --commit", "adopt", "import", "accept") for word in ("--only", name)]
    # A process that gives way to all others would take minutes.
    assert strike("kills", 8, 3, "--nice", "0", *chosen).endswith("in 8 tries, 0 problems")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_next_run_after_many_kills_of_every_command_finishes_by_itself() -> None:
    assert strike("kills", 20 * len(COMMANDS), 4, "--nice", "0").endswith("0 problems")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_disk_that_refuses_is_reported_and_the_next_run_finishes_by_itself() -> None:
    strike("faults", 4 * len(TRIED), 5)
