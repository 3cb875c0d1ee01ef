"""The table of launchers: the first word of a command (srun, docker, ssh, …) and its adapter. Pure.

A launcher is a prefix. With any launcher, the child gets its fixed environment from ``env``, reads its secrets and the
end of the pass from standard input, and changes to its request's folder itself; the differences are in the adapters.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from reconciler.storage.launch.container import PROGRAMS, Container
from reconciler.storage.launch.container import name_container as name_container
from reconciler.storage.launch.launcher import (
    Adapter,
    BareLaunch,
    Launch,
    Launcher,
    Problem,
    Started,
    Words,
    drop_options,
    find_values,
    is_pinned,
)


class _Prefix(Adapter):
    """Any program that starts the command on this machine."""

    def start_bare(self, launch: BareLaunch) -> Started:
        """Start a bare command; its folder, and variables passed by name, come from the process that starts it."""
        setting = [f"{name}={value}" for name, value in sorted(launch.environment.items())]
        return Started((*launch.launcher.words, *(("env", *setting) if setting else ()), *launch.command))


class _Ssh(Adapter):
    """ssh(1) to a node that sees the same folders under the same paths."""

    reaches_own_machine = True

    def build(self, launch: Launch) -> Started:
        """Build the command. ssh joins words with spaces, and a shell there splits them again. A password cannot be
        typed."""
        program, *words = launch.launcher.words
        return Started((program, "-T", "-o", "BatchMode=yes", *words, shlex.join(launch.command)))

    def select_identity(self, _launcher: Launcher) -> tuple[str, ...]:
        """Return nothing, since another node is another place, not another run."""
        return ()


class _Srun(Adapter):
    """Slurm's `srun`, with or without pyxis containers."""

    # Options that set where, when and for whom a command runs, or which paths a container sees; none changes a result.
    _PLACE = (
        *("-A", "--account", "-p", "--partition", "-q", "--qos", "-w", "--nodelist", "-x", "--exclude", "-t", "--time"),
        *("-J", "--job-name", "-D", "--chdir", "-W", "--wait", "-o", "--output", "-e", "--error", "-b", "--begin"),
        *("--reservation", "--jobid", "--comment", "--mail-type", "--mail-user", "--nice", "--deadline", "--time-min"),
        *("--container-mounts", "--container-name", "--container-workdir", "--container-save"),
    )
    _FILES = (".sqsh", ".squashfs")  # pyxis takes a registry's image, or a file that enroot imported

    def build(self, launch: Launch) -> Started:
        """Build the command. Every task starts, so that every node is reserved; all but the first end at once, and the
        first has no time limit."""
        program, *words = launch.launcher.words
        if not self.enters_container(launch.launcher):
            return Started((program, "--wait=0", *words, *launch.command))
        mounts = [*(f"{path}:{path}" for path in launch.seen), *find_values(words, "--container-mounts")]
        kept = drop_options(words, ("--container-mounts",))
        ours = ("--wait=0", f"--container-mounts={','.join(mounts)}")
        return Started((program, *ours, *kept, *launch.command))

    def find_unfit(self, launcher: Launcher) -> Problem | None:
        image = next(find_values(launcher.words, "--container-image"), "")
        if not image or is_pinned(image) or image.endswith(self._FILES):
            return None
        return (
            f"{image} does not pin an image: tags can change",
            "write name@sha256:…, or the .sqsh file that enroot imported it into",
        )

    def select_identity(self, launcher: Launcher) -> tuple[str, ...]:
        return (launcher.program, *drop_options(launcher.words[1:], self._PLACE))

    def enters_container(self, launcher: Launcher) -> bool:
        return any(word.startswith("--container-image") for word in launcher.words)


class _Sflow(Adapter):
    """NVIDIA's sflow: a workflow of servers, probes and clients on this machine, Slurm or Kubernetes, from YAML files.

    It takes no command. Instead, the workflow declares a variable and a task that evaluates it. So our command starts
    where the workflow says, after whatever it says. Only the workflow's files would show a container, so the system's
    `python` declares it.
    """

    _VARIABLE = "RECONCILE_COMMAND"
    _PLACE = (
        *("--workspace-dir", "--output-dir", "--log-level", "--kubeconfig", "--kube-context", "--kube-namespace"),
        *("--include-nodes", "--exclude-nodes", "--tui-refresh"),
    )
    _FLAGS = ("--verbose", "-v", "--offload-task-logs", "--no-offload-task-logs", "--wait-for-gpus")
    # Options that start nothing, need a terminal, return early, or resume another workflow.
    _UNFIT = ("--dry-run", "--tui", "--task", "-t", "--resume", "--kube-handoff")

    def build(self, launch: Launch) -> Started:
        """Build the command. If a variable has two values, the last one wins."""
        return Started((*launch.launcher.words, "--set", f"{self._VARIABLE}={shlex.join(launch.command)}"))

    def find_unfit(self, launcher: Launcher) -> Problem | None:
        if launcher.words[1:2] != ("run",):
            return "sflow starts nothing to monitor", "write [sflow, run, -f, workflow.yaml]"
        wrong = next((word for word in launcher.words if word.partition("=")[0] in self._UNFIT), None)
        if wrong is not None:
            return f"{wrong} prevents sflow from completing the workflow", "remove it"
        return None

    def select_identity(self, launcher: Launcher) -> tuple[str, ...]:
        """Return the names of its files and the values set on the command line; the files' contents are not read."""
        words = drop_options(launcher.words[1:], self._PLACE)
        return (launcher.program, *(word for word in words if word not in self._FLAGS))


# The first word of a launcher → its adapter; any other program is a mere prefix.
ADAPTERS: dict[str, Adapter] = {
    **dict.fromkeys(PROGRAMS, Container()),
    "sflow": _Sflow(),
    "srun": _Srun(),
    "ssh": _Ssh(),
}
_PREFIX = _Prefix()


def find_adapter(launcher: Launcher) -> Adapter:
    return ADAPTERS.get(launcher.program, _PREFIX)


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
    """Choose the interpreter, since another file system has another Python. ``usual``: this machine's."""
    return launcher.python or ("python3" if find_adapter(launcher).enters_container(launcher) else usual)


def reaches_own_machine(launcher: Launcher) -> bool:
    """Return True if it reaches a machine by its name, so that two launchers with different words reach two
    machines."""
    return find_adapter(launcher).reaches_own_machine


def find_outermost(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the existing paths, without those below another."""
    found: list[Path] = []
    for path in sorted({path.resolve() for path in paths if path.exists()}):
        if not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return tuple(found)
