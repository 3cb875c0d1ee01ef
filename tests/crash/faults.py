"""Disks and machines that refuse: ``python -m tests.crash.faults [--count N] [--seed N] [--only COMMAND]``.

Each try copies a repository and starts a command, most of which write; from a certain call on, one or all calls of one
kind that touch a file of its folder are refused, in the command and in its children (``refuse.c``). It must end by
itself, with an error that says what was refused and what to do. What `plan` says then must be true, and the same
command, run again on a disk that is well, must leave what an undisturbed run leaves. Prints a line for each failure and
a table.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import mmap
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.crash.commands import COMMANDS, LOOKS, Written, make_starts
from tests.crash.kills import Reference, check, copy, finish, measure, said
from tests.passes.crashing import wait_for_end_of
from tests.passes.repository import Repository

WRITES, REMOVALS, READS, LOCKS, OPENS = 1, 2, 4, 8, 16  # as in refuse.c
SPARED = b"/said.txt"  # what the command says is not written to that disk
NEVER = 1 << 40
TRIED: Mapping[str, Written] = {**COMMANDS, **LOOKS}


@dataclass(frozen=True, slots=True)
class Fault:
    """``once``: a single call is refused, as where somebody removed a file just then."""

    name: str
    kinds: int
    once: bool = False


FAULTS: Mapping[str, Fault] = {
    "full": Fault("ENOSPC", WRITES),
    "over quota": Fault("EDQUOT", WRITES),
    "read-only": Fault("EROFS", WRITES | REMOVALS),
    "failing": Fault("EIO", WRITES | REMOVALS | READS),
    "failing writes": Fault("EIO", WRITES),
    "one failing write": Fault("EIO", WRITES, once=True),
    "one failing read": Fault("EIO", READS, once=True),
    "stale": Fault("ESTALE", WRITES | REMOVALS | READS),
    "one stale file": Fault("ESTALE", READS, once=True),
    "no locks": Fault("ENOLCK", LOCKS),
    "too many open files": Fault("EMFILE", OPENS),
    "machine out of files": Fault("ENFILE", OPENS),
    "forbidden": Fault("EACCES", WRITES | REMOVALS),
    "one forbidden write": Fault("EACCES", WRITES, once=True),
    "vanished": Fault("ENOENT", READS, once=True),
}


class _Control(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_long) for name in ("armed", "number", "kinds", "at", "last", "count")),
        *((name, ctypes.c_char * size) for name, size in (("root", 512), ("spared", 128), ("met", 512))),
    )


class Disk:
    """What ``refuse.c`` obeys, in every process that was started with it."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as stream:
            self._memory = mmap.mmap(stream.fileno(), ctypes.sizeof(_Control))
        self._control = _Control.from_buffer(self._memory)

    def refuse(self, folder: Path, fault: Fault, at: int) -> None:
        self._control.root, self._control.spared, self._control.met = os.fsencode(folder), SPARED, b""
        self._control.number, self._control.kinds = getattr(errno, fault.name), fault.kinds
        self._control.at, self._control.last, self._control.count = at, at if fault.once else NEVER, 0
        self._control.armed = 1

    def recover(self) -> tuple[int, str]:
        """How many calls there were, and the first file that was refused."""
        self._control.armed = 0
        return self._control.count, os.fsdecode(self._control.met)


@dataclass(frozen=True, slots=True)
class Try:
    number: int
    command: str
    fault: str
    at: int
    calls: int
    met: str
    status: int
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        where = f"call {self.at} of {self.calls}, {self.met}" if self.met else "nothing met"
        return f"try {self.number}, {self.command}, {self.fault}: {where}, ended with {self.status}"


def one_try(
    number: int, name: str, fault: str, share: float, disk: Disk, starts: Path, folder: Path, reference: Reference
) -> Try:
    """``share``: where among its calls the first one is refused, from 0 to 1."""
    command = TRIED[name]
    words = command.words if command.then is None else command.then
    copy(starts, command, folder)
    disk.refuse(folder, FAULTS[fault], NEVER)
    finish(folder, command.at, words)
    calls, _ = disk.recover()
    shutil.rmtree(folder)
    copy(starts, command, folder)
    at = 1 + int(share * calls)
    disk.refuse(folder, FAULTS[fault], at)
    status = finish(folder, command.at, words)
    _, met = disk.recover()
    wrong = judge(status, FAULTS[fault], said(folder)) if met else []
    (folder / "said.txt").unlink(missing_ok=True)
    left = wait_for_end_of(folder)
    wrong += [f"still running {left}"] if left else []
    kept = set(Repository(folder / "repository").whole_records())
    wrong += find_lie(command, folder)
    ended = finish(folder, command.at, words)
    wrong += check(command, folder, ended, "process", kept, reference)
    where = met.removeprefix(f"{folder}/")
    return Try(number, name, fault, at, calls, where, status, tuple(wrong))


def judge(status: int, fault: Fault, reported: str) -> list[str]:
    """What is wrong with how it ended. Nothing need be said of what could be done in spite of it."""
    wrong = [f"ended with {status}: {reported}"] if status not in (0, 1, 2) else []
    wrong += [f"says {word!r}: {reported}" for word in ("Traceback", "a bug", "please send") if word in reported]
    if status == 1 and fault.name != "ENOENT" and not wrong:
        known = os.strerror(getattr(errno, fault.name)) in reported or fault.name in reported
        wrong += [] if known else [f"does not name what was refused: {reported}"]
    wrong += [f"names no fix: {reported}"] if status == 1 and "fix:" not in reported else []
    return wrong


def find_lie(command: Written, folder: Path) -> list[str]:
    """Where `plan` says that all is in sync, a pass has nothing to do."""
    root = folder / command.at
    if command.plan is None or not (root / "specs").is_dir() or finish(folder, command.at, ("plan", "--deep")):
        return []
    copied = folder.with_name(f"{folder.name} again")
    shutil.copytree(folder, copied, symlinks=True)
    try:
        before = set(Repository(copied / command.at).whole_records())
        ended = finish(copied, command.at, ())
        after = set(Repository(copied / command.at).whole_records())
        return ["plan says that all is in sync, and it is not"] if ended or before != after else []
    finally:
        shutil.rmtree(copied)


def strike(count: int, seed: int, disk: Disk, folder: Path, only: tuple[str, ...] = ()) -> Iterator[Try]:
    starts = folder / "starts"
    names = [name for name in TRIED if not only or name in only]
    make_starts(starts, {TRIED[name].start for name in names})
    references: dict[str, Reference] = {}
    for number in range(count):
        draw = random.Random(f"{seed} {number}")
        name, fault = names[number % len(names)], draw.choice([*FAULTS])
        if name not in references:
            references[name] = measure(starts, TRIED[name], folder / "reference")
        yield one_try(number, name, fault, draw.random(), disk, starts, folder / str(number), references[name])
        shutil.rmtree(folder / str(number))


def build(folder: Path) -> dict[str, str]:
    """The environment of processes whose disk may refuse."""
    library, control = folder / "refuse.so", folder / "control"
    source = Path(__file__).with_name("refuse.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    control.write_bytes(bytes(ctypes.sizeof(_Control)))
    return {"LD_PRELOAD": str(library), "REFUSE_CONTROL": str(control)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="tries (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what is refused when (default %(default)s)")
    parser.add_argument("--only", action="append", default=[], metavar="COMMAND", choices=[*TRIED])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a line for each try here")
    given = parser.parse_args()
    if "REFUSE_CONTROL" not in os.environ:  # again, in processes that obey it
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tests.crash.faults", *sys.argv[1:]]
            return subprocess.run(command, env={**os.environ, **build(Path(folder))}, check=False).returncode
    os.nice(10)
    tries = list[Try]()
    with tempfile.TemporaryDirectory() as folder:
        disk = Disk(Path(os.environ["REFUSE_CONTROL"]))
        for made in strike(given.count, given.seed, disk, Path(folder).resolve(), tuple(given.only)):
            tries.append(made)
            for problem in made.wrong:
                print(f"{made}: {problem}", flush=True)
            if given.json:
                with given.json.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps([str(made), *made.wrong]) + "\n")
        os.chdir("/")
    met = Counter(made.command for made in tries if made.met)
    for name, number in Counter(made.command for made in tries).items():
        print(f"{name}: {number} tries, refused {met[name]}")
    kinds = ", ".join(f"{n} {name}" for name, n in Counter(made.fault for made in tries if made.met).items())
    print(f"{met.total()} refusals ({kinds}) in {len(tries)} tries, {sum(len(m.wrong) for m in tries)} problems")
    return any(made.wrong for made in tries)


if __name__ == "__main__":
    sys.exit(main())
