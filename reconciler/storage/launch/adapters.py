"""The table of launchers: the first word of a command (srun, docker, ssh, …) and the module that knows it. Pure.

A launcher is a prefix. Whatever it is, the child gets its fixed environment from ``env``, its secrets and the end of
the pass from standard input, and goes to the folder of its request by itself; what differs is in its adapter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from reconciler.storage.launch import container, prefix, sflow, srun, ssh
from reconciler.storage.launch.container import name_container as name_container
from reconciler.storage.launch.launcher import Adapter, BareLaunch, Launch, Launcher, Problem, Started, Words

# The program that a launcher's words begin with → its adapter; any other is a mere prefix.
ADAPTERS: dict[str, Adapter] = {
    **dict.fromkeys(container.PROGRAMS, container),
    "sflow": sflow,
    "srun": srun,
    "ssh": ssh,
}


def find_adapter(launcher: Launcher) -> Adapter:
    return ADAPTERS.get(launcher.program, prefix)


def build_launch(
    launcher: Launcher, child: Words, environment: Mapping[str, str], name: str, seen: Sequence[Path]
) -> Started:
    """``child`` behind the launcher. ``environment``: what it must have, nothing secret. ``name``: of this start alone.
    ``seen``: folders that it needs, under the paths that they have here."""
    setting = [f"{variable}={value}" for variable, value in sorted(environment.items())]
    return find_adapter(launcher).build(Launch(launcher, ("env", *setting, *child), name, seen))


def start_bare(launch: BareLaunch) -> Started | None:
    """A declared command alone behind the launcher, and nothing of ours; None where it would leave this machine."""
    return find_adapter(launch.launcher).start_bare(launch)


def can_start_bare(launcher: Launcher) -> bool:
    return start_bare(BareLaunch(launcher, (), "", (), "", {}, ())) is not None


def find_unfit(words: Words) -> Problem | None:
    """Find what is wrong with a launcher, and the fix; None when nothing is known to be."""
    launcher = Launcher(tuple(words))
    return find_adapter(launcher).find_unfit(launcher)


def select_identity(words: Words) -> tuple[str, ...]:
    """The words that decide what runs: the image and how it is started, without where, for whom and from which path."""
    launcher = Launcher(tuple(words))
    return find_adapter(launcher).select_identity(launcher)


def choose_interpreter(launcher: Launcher, usual: str) -> str:
    """Another system of files has another Python; ``usual`` is that of this machine."""
    return launcher.python or ("python3" if find_adapter(launcher).enters_container(launcher) else usual)


def reaches_own_machine(launcher: Launcher) -> bool:
    """True where it reaches a machine by its name: two launchers with other words then reach two machines."""
    return find_adapter(launcher).reaches_own_machine(launcher)


def find_outermost(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Find the existing ones, without those below another."""
    found: list[Path] = []
    for path in sorted({path.resolve() for path in paths if path.exists()}):
        if not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return tuple(found)
