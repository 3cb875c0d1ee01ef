"""A launcher: the words that a system puts before each of its commands, and the interface of every adapter for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

LAUNCHER, PYTHON = LAUNCHING = ("system.launcher", "system.python")  # settings of a system
NO_PYTHON = "none"  # given instead of an interpreter if the image has none of our code

Words = Sequence[str]
Problem = tuple[str, str]  # the problem, and the fix


class Launcher(Struct, frozen=True):
    """A system's launcher. ``words``: placed before the command; none for this machine. ``python``: the interpreter
    there, "" for the default."""

    words: tuple[str, ...] = ()
    python: str = ""

    @property
    def program(self) -> str:
        return self.words[0].rpartition("/")[2] if self.words else ""


class Launch(Struct, frozen=True):
    """A command to start behind a launcher. ``name``: unique to this start. ``seen``: folders that it needs, under the
    same paths as here."""

    launcher: Launcher
    command: tuple[str, ...]
    name: str
    seen: Sequence[Path]


class BareLaunch(Launch, frozen=True):
    """A declared command to start in an image without our code. ``cwd``: its working folder; ``environment``: its
    variables; ``passed``: names of the variables that it takes from its client."""

    cwd: str
    environment: Mapping[str, str]
    passed: Sequence[str]


class Started(Struct, frozen=True):
    """A command line to start. ``command``: the command to start. ``ending``: a command that ends any remains of it, or
    ()."""

    command: tuple[str, ...]
    ending: tuple[str, ...] = ()


class Adapter:
    """Add a launcher's options to the user's words, following its manual. The defaults only put the words before the
    command; each known launcher has a subclass.

    ``reaches_own_machine``: it reaches a machine by its name, so two launchers with different words reach two machines.
    """

    reaches_own_machine = False

    def build(self, launch: Launch) -> Started:
        """Return the complete command line."""
        return Started((*launch.launcher.words, *launch.command))

    def start_bare(self, _launch: BareLaunch) -> Started | None:
        """Return the complete command line of a declared command; None if it would start on another machine."""
        return None

    def find_unfit(self, _launcher: Launcher) -> Problem | None:
        """Return the problem with the user's words; None if none is known."""
        return None

    def select_identity(self, launcher: Launcher) -> tuple[str, ...]:
        """Return the words that decide what runs: without where, for whom and from which path it starts."""
        return (launcher.program, *launcher.words[1:]) if launcher.words else ()

    def enters_container(self, _launcher: Launcher) -> bool:
        """Return True if its commands see another file system than the launcher does."""
        return False


def is_pinned(word: str) -> bool:
    """Return True if an image is named by its digest."""
    return "sha256:" in word and len(word.rpartition("sha256:")[2]) == 64


def find_values(words: Words, option: str) -> Iterator[str]:
    for at, word in enumerate(words):
        if word.startswith(f"{option}="):
            yield word.partition("=")[2]
        elif word == option and at + 1 < len(words):
            yield words[at + 1]


def drop_options(words: Words, options: Words) -> Iterator[str]:
    """Drop options written as ``--name=value``, ``--name value``, ``-n value`` or ``-nvalue``; keep all other words."""
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
