"""``reconcile`` as a process of its own without its start: a fork of one that has loaded what it loads.

For tests of what a pass does, however it is ended. What the start itself does is for ``subprocess``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.warm.command import LOADED
from tests.warm.forks import ForkedProcess, Forks
from tests.warm.server import CHILD
from tests.warm.server import LOADED as LOADED_BY_CHILDREN

_forks = Forks("tests.warm.command", *LOADED, CHILD, *LOADED_BY_CHILDREN)  # it ends with this process


def start_command(words: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None, **streams: Any) -> Any:
    """A ``Popen``. ``streams``: as that takes them."""
    named = {"cwd": cwd, "env": dict(os.environ if env is None else env), **streams}
    if _forks.on:
        return ForkedProcess(_forks, words, **named)
    return subprocess.Popen([sys.executable, "-P", "-m", "reconciler.cli.main", *words], **named)


def run_command(
    words: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What it printed, and how it ended."""
    process = start_command(words, cwd, env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
