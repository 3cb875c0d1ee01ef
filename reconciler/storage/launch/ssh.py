"""ssh(1) to a node that sees the same folders under the same paths."""

from __future__ import annotations

import shlex

from reconciler.storage.launch.launcher import BareLaunch, Launch, Launcher, Problem, Started


def build(launch: Launch) -> Started:
    """Build the command. ssh joins words with spaces, and a shell there splits them again. A password cannot be
    typed."""
    program, *words = launch.launcher.words
    return Started((program, "-T", "-o", "BatchMode=yes", *words, shlex.join(launch.command)))


def start_bare(_launch: BareLaunch) -> Started | None:
    return None


def find_unfit(_launcher: Launcher) -> Problem | None:
    return None


def select_identity(_launcher: Launcher) -> tuple[str, ...]:
    """Return nothing: another node is another place, not another run."""
    return ()


def enters_container(_launcher: Launcher) -> bool:
    return False


def reaches_own_machine(_launcher: Launcher) -> bool:
    return True
