"""Any unknown program: words before a command, without additions."""

from __future__ import annotations

from reconciler.storage.launch.launcher import BareLaunch, Launch, Launcher, Problem, Started


def build(launch: Launch) -> Started:
    return Started((*launch.launcher.words, *launch.command))


def start_bare(launch: BareLaunch) -> Started:
    """Start a bare command; its folder, and variables passed by name, come from the process that starts it."""
    setting = [f"{name}={value}" for name, value in sorted(launch.environment.items())]
    return Started((*launch.launcher.words, *(("env", *setting) if setting else ()), *launch.command))


def find_unfit(_launcher: Launcher) -> Problem | None:
    return None


def select_identity(launcher: Launcher) -> tuple[str, ...]:
    return (launcher.program, *launcher.words[1:]) if launcher.words else ()


def enters_container(_launcher: Launcher) -> bool:
    return False


def reaches_own_machine(_launcher: Launcher) -> bool:
    return False
