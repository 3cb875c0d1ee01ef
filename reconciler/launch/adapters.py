"""What each known launcher needs beside the words that a user wrote. Pure.

A launcher is a prefix. Whatever it is, the child gets its fixed environment from ``env``, its secrets and the end of
the pass from standard input, and goes to the folder of its request by itself; what differs is here, as in the
manuals of srun(1), docker-run(1), docker-exec(1), podman-run(1), ssh(1) and pyxis.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND, PYTHON = LAUNCHING = ("system.launcher", "system.python")  # settings of a system
CONTAINERS = ("docker", "podman")
# Options of srun that say where, when and for whom, or what a container sees of the disk; none changes a result.
_SRUN_PLACE = (
    *("-A", "--account", "-p", "--partition", "-q", "--qos", "-w", "--nodelist", "-x", "--exclude", "-t", "--time"),
    *("-J", "--job-name", "-D", "--chdir", "-W", "--wait", "-o", "--output", "-e", "--error", "-b", "--begin"),
    *("--reservation", "--jobid", "--comment", "--mail-type", "--mail-user", "--nice", "--deadline", "--time-min"),
    *("--container-mounts", "--container-name", "--container-workdir", "--container-save"),
)
_CONTAINER_PLACE = (
    *("-v", "--volume", "--mount", "-w", "--workdir", "-u", "--user", "-h", "--hostname", "-l", "--label"),
    *("--context", "-H", "--host", "--connection", "--userns"),
)
_CONTAINER_FLAGS = ("--rm", "-i", "--interactive", "--init")
# A container that is not attached ends with nothing, and one with a terminal has no standard input to end.
_UNFIT = ("-d", "--detach", "-t", "--tty", "-it", "-ti", "-id", "-di", "--name")


@dataclass(frozen=True, slots=True)
class Launcher:
    """``words`` before the command; none: this machine. ``python``: the interpreter there, "" for the usual one."""

    words: tuple[str, ...] = ()
    python: str = ""

    @property
    def program(self) -> str:
        return os.path.basename(self.words[0]) if self.words else ""  # noqa: PTH119 - a word, not a path

    @property
    def in_container(self) -> bool:
        """Whether its commands see another system of files than it does."""
        images = any(word.startswith("--container-image") for word in self.words)
        return self.program in CONTAINERS or (self.program == "srun" and images)

    def interpreter(self, usual: str) -> str:
        return self.python or ("python3" if self.in_container else usual)


@dataclass(frozen=True, slots=True)
class Started:
    """``command``: what to start. ``ending``: a command that ends what may be left of it, () where nothing is."""

    command: tuple[str, ...]
    ending: tuple[str, ...] = ()


def find_launcher(settings: Mapping[str, Any]) -> Launcher | None:
    """The launcher of a system, None where its commands run on this machine."""
    words = settings.get(COMMAND)
    return Launcher(tuple(map(str, words)), str(settings.get(PYTHON, ""))) if words else None


def find_unfit(words: Sequence[str]) -> tuple[str, str] | None:
    """What is wrong with a launcher, and the fix; None when nothing is known to be."""
    launcher = Launcher(tuple(words))
    if launcher.program in CONTAINERS:
        at = _verb(launcher)
        if at is None:
            return f"{launcher.program} starts nothing here", f"write [{launcher.program}, run, …, name@sha256:…]"
        wrong = next((word for word in words if word.partition("=")[0] in _UNFIT), None)
        if wrong is not None:
            return (
                f"{wrong} keeps a run from being followed and ended",
                "take it out: the name is ours, and input must reach the container",
            )
        if words[at] == "run" and not any(map(_pinned, words)):
            return (
                "the launcher pins no image: a tag may mean another one tomorrow",
                "write the image as name@sha256:…, as 'docker image inspect --format {{.RepoDigests}}' prints it",
            )
    image = next(_values(words, "--container-image"), "") if launcher.program == "srun" else ""
    # pyxis takes a registry's image, or a file that enroot imported.
    if image and not _pinned(image) and not image.endswith((".sqsh", ".squashfs")):
        return (
            f"{image} pins no image: a tag may mean another one tomorrow",
            "write name@sha256:…, or the .sqsh file that enroot imported it into",
        )
    return None


def _pinned(word: str) -> bool:
    return "sha256:" in word and len(word.rpartition("sha256:")[2]) == 64


def select_identity(words: Sequence[str]) -> tuple[str, ...]:
    """The words that decide what runs: the image and how it is started, without where, for whom and from which path.

    Another node behind ssh is another place, no other run: nothing is left of it.
    """
    launcher = Launcher(tuple(words))
    if launcher.program == "ssh" or not words:
        return ()
    if launcher.program == "srun":
        return (launcher.program, *_without(words[1:], _SRUN_PLACE))
    if launcher.program in CONTAINERS:
        kept = _without(words[1:], _CONTAINER_PLACE)
        return tuple(word for word in kept if word not in _CONTAINER_FLAGS)
    return (launcher.program, *words[1:])


def _without(words: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """``--name=value``, ``--name value``, ``-n value`` and ``-nvalue`` go, all else stays."""
    long = tuple(f"{option}=" for option in options if option.startswith("--"))
    short = tuple(option for option in options if not option.startswith("--"))
    skipped = False
    for word in words:
        if skipped:
            skipped = False
        elif word in options:
            skipped = True
        elif not word.startswith(long) and not (word.startswith(short) and not word.startswith("--")):
            yield word


def start(launcher: Launcher, child: Sequence[str], environment: Mapping[str, str], name: str, seen: Seen) -> Started:
    """``child`` behind the launcher. ``environment``: what it must have, nothing secret. ``name``: of this start alone.
    ``seen``: folders that it needs, under the paths that they have here."""
    setting = [f"{variable}={value}" for variable, value in sorted(environment.items())]
    command = ("env", *setting, *child)
    build: Callable[[Launcher, tuple[str, ...], str, Seen], Started] | None = _BUILDERS.get(launcher.program)
    return build(launcher, command, name, seen) if build else Started((*launcher.words, *command))


Seen = Sequence[Path]


def find_outermost(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Those that exist, without what lies below another."""
    found: list[Path] = []
    for path in sorted({path.resolve() for path in paths if path.exists()}):
        if not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return tuple(found)


def _container(launcher: Launcher, command: tuple[str, ...], name: str, seen: Seen) -> Started:
    """Ours stand first: of two options of one name the later wins, which is the user's."""
    at = _verb(launcher)
    if at is None:
        return Started((*launcher.words, *command))
    before, verb, after = launcher.words[:at], launcher.words[at], launcher.words[at + 1 :]
    if verb == "exec":
        return Started((*before, verb, "--interactive", *after, *command))
    user = ("--userns=keep-id",) if launcher.program == "podman" else ("--user", f"{os.getuid()}:{os.getgid()}")
    mounts = [word for path in seen for word in ("--volume", f"{path}:{path}")]
    # A user without an entry in the image's /etc/passwd has no home that can be written.
    ours = ("--rm", "--interactive", "--name", name, *user, "--env", "HOME=/tmp", *mounts)
    return Started((*before, verb, *ours, *after, *command), (*before, "rm", "--force", name))


def _verb(launcher: Launcher) -> int | None:
    """Where run or exec stands: behind global options, and behind ``container``."""
    return next((at for at, word in enumerate(launcher.words) if at and word in ("run", "exec")), None)


def _ssh(launcher: Launcher, command: tuple[str, ...], _name: str, _seen: Seen) -> Started:
    """ssh joins words by spaces, and a shell there takes them apart again. Nobody is there to type a password."""
    before = (launcher.words[0], "-T", "-o", "BatchMode=yes", *launcher.words[1:])
    return Started((*before, shlex.join(command)))


def _srun(launcher: Launcher, command: tuple[str, ...], _name: str, seen: Seen) -> Started:
    """Every task starts, so that every node is held; those beside the first end at once, and the first may then take as
    long as it likes."""
    words = launcher.words[1:]
    if not launcher.in_container:
        return Started((launcher.words[0], "--wait=0", *words, *command))
    mounts = [*(f"{path}:{path}" for path in seen), *_values(words, "--container-mounts")]
    kept = _without(words, ("--container-mounts",))
    ours = ("--wait=0", f"--container-mounts={','.join(mounts)}")
    return Started((launcher.words[0], *ours, *kept, *command))


def _values(words: Sequence[str], option: str) -> Iterator[str]:
    for at, word in enumerate(words):
        if word.startswith(f"{option}="):
            yield word.partition("=")[2]
        elif word == option and at + 1 < len(words):
            yield words[at + 1]


_BUILDERS = {"docker": _container, "podman": _container, "ssh": _ssh, "srun": _srun}
