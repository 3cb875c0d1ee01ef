"""The table of launchers: the first word of a command (srun, docker, ssh, …) and its adapter module. Pure.

A launcher is a prefix. With any launcher, the child gets its fixed environment from ``env``, reads its secrets and the
end of the pass from standard input, and changes to its request's folder itself; the differences are in the adapters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from reconciler.storage.launch import container, prefix, sflow, srun, ssh
from reconciler.storage.launch.container import name_container as name_container
from reconciler.storage.launch.launcher import Adapter, BareLaunch, Launch, Launcher, Problem, Started, Words

# The first word of a launcher → its adapter; any other program is a mere prefix.
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
    """Build the start of ``child`` behind the launcher. ``environment``: variables that it needs, without secrets.
    ``name``: unique to this start. ``seen``: folders that it needs, under the same paths as here."""
    setting = [f"{variable}={value}" for variable, value in sorted(environment.items())]
    return find_adapter(launcher).build(Launch(launcher, ("env", *setting, *child), name, seen))


def start_bare(launch: BareLaunch) -> Started | None:
    """Build the start of a declared command behind the launcher, without our code; None if it would leave this
    machine."""
    return find_adapter(launch.launcher).start_bare(launch)


def can_start_bare(launcher: Launcher) -> bool:
    return start_bare(BareLaunch(launcher, (), "", (), "", {}, ())) is not None


def find_unfit(words: Words) -> Problem | None:
    """Return the problem with a launcher and the fix; None if none is known."""
    launcher = Launcher(tuple(words))
    return find_adapter(launcher).find_unfit(launcher)


def select_identity(words: Words) -> tuple[str, ...]:
    """Return the words that decide what runs: the image and how it starts, without where, for whom and from which
    path."""
    launcher = Launcher(tuple(words))
    return find_adapter(launcher).select_identity(launcher)


def choose_interpreter(launcher: Launcher, usual: str) -> str:
    """Choose the interpreter: another file system has another Python; ``usual`` is this machine's."""
    return launcher.python or ("python3" if find_adapter(launcher).enters_container(launcher) else usual)


def reaches_own_machine(launcher: Launcher) -> bool:
    """Return True if it reaches a machine by its name: then two launchers with different words reach two machines."""
    return find_adapter(launcher).reaches_own_machine(launcher)


def find_outermost(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the existing paths, without those below another."""
    found: list[Path] = []
    for path in sorted({path.resolve() for path in paths if path.exists()}):
        if not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return tuple(found)
