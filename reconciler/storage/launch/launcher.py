"""A launcher: the words that a system puts before each of its commands, and what every adapter makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

LAUNCHER, PYTHON = LAUNCHING = ("system.launcher", "system.python")  # settings of a system
NO_PYTHON = "none"  # instead of an interpreter: the image has nothing of ours

Words = Sequence[str]
Problem = tuple[str, str]  # what is wrong, and the fix


class Launcher(Struct, frozen=True):
    """``words`` before the command; none: this machine. ``python``: the interpreter there, "" for the usual one."""

    words: tuple[str, ...] = ()
    python: str = ""

    @property
    def program(self) -> str:
        return self.words[0].rpartition("/")[2] if self.words else ""


class Launch(Struct, frozen=True):
    """Command to be started behind a launcher. ``name``: of this start alone. ``seen``: folders that it needs, under
    the paths that they have here."""

    launcher: Launcher
    command: tuple[str, ...]
    name: str
    seen: Sequence[Path]


class BareLaunch(Struct, frozen=True):
    """A declared command to be started in an image that has nothing of ours. ``cwd``: where it starts;
    ``environment``: its variables; ``passed``: those that it takes from its client, by name."""

    launcher: Launcher
    command: tuple[str, ...]
    name: str
    seen: Sequence[Path]
    cwd: str
    environment: Mapping[str, str]
    passed: Sequence[str]


class Started(Struct, frozen=True):
    """``command``: what to start. ``ending``: a command that ends what may be left of it, () where nothing is."""

    command: tuple[str, ...]
    ending: tuple[str, ...] = ()


class Adapter(Protocol):
    """Additions of a known launcher to the user's words, as its manual says. A module per launcher implements it."""

    def build(self, launch: Launch) -> Started:
        """The whole command line."""

    def start_bare(self, launch: BareLaunch) -> Started | None:
        """The whole command line of a declared command; None where it would start on another machine."""

    def find_unfit(self, launcher: Launcher) -> Problem | None:
        """Find what is wrong with the user's words; None when nothing is known to be."""

    def select_identity(self, launcher: Launcher) -> tuple[str, ...]:
        """The words that decide what runs: without where, for whom and from which path it is started."""

    def enters_container(self, launcher: Launcher) -> bool:
        """True where its commands see another system of files than it does."""

    def reaches_own_machine(self, launcher: Launcher) -> bool:
        """True where it reaches a machine by its name: two launchers with other words then reach two machines."""


def is_pinned(word: str) -> bool:
    """True where an image is named by its digest."""
    return "sha256:" in word and len(word.rpartition("sha256:")[2]) == 64


def find_values(words: Words, option: str) -> Iterator[str]:
    for at, word in enumerate(words):
        if word.startswith(f"{option}="):
            yield word.partition("=")[2]
        elif word == option and at + 1 < len(words):
            yield words[at + 1]


def drop_options(words: Words, options: Words) -> Iterator[str]:
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
