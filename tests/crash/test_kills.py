"""A few kills of every command that writes; ``python -m tests.crash.kills --count 1000`` makes more of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.commands import COMMANDS
from tests.shared import need

need("mlperf_loadgen")

TOP = Path(__file__).parents[2]


def kill(count: int, seed: int, *only: str) -> str:
    """In a process of its own, which may fork. A process that gives way to all others would take minutes."""
    chosen = [word for name in only for word in ("--only", name)]
    words = ["--count", str(count), "--seed", str(seed), "--nice", "0", *chosen]
    command = [sys.executable, "-m", "tests.crash.kills", *words]
    ended = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
    return ended.stdout.splitlines()[-1]


@pytest.mark.timeout(600)
def test_next_run_after_a_kill_finishes_by_itself() -> None:
    assert kill(8, 3, "pass --commit", "adopt", "import", "accept").endswith("in 8 tries, 0 problems")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_next_run_after_many_kills_of_every_command_finishes_by_itself() -> None:
    assert kill(20 * len(COMMANDS), 4).endswith("0 problems")
