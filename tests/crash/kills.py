"""Kills at random instants: ``python -m tests.crash.kills [--count N] [--seed N] [--only COMMAND] [--into FILE]``.

Each try copies a repository, starts a command that writes, and after a random time kills the process, one of its
children or its whole group. Then the same command is run again, to its end, and everything is compared with what an
undisturbed run left: nothing lost, nothing doubled, nothing to do by hand. Prints a line for each failure and a table.

FILE gets a line of JSON for each try, and tries that it holds already are not made again: what was broken off goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NoReturn

import psutil

from reconciler.cli.main import main as reconcile
from reconciler.storage.leftovers import sweep
from tests.crash.commands import COMMANDS, Written, find_uncommitted, find_wrong, make_starts, place, seen_by_git
from tests.passes.crashing import wait_for_end_of
from tests.passes.repository import Repository
from tests.shared import copy_folder

TARGETS = ("process", "child", "group")
LONGEST = 120.0  # seconds that an undisturbed command may take


_SHRINK = 0.85  # of the time in which kills are drawn, after one that came too late


@dataclass(frozen=True, slots=True)
class Try:
    """``met``: what the kill met alive, "" for nothing; ``after`` so many of ``seconds``. ``wrong``: what was not as it
    has to be, once the command had been run again."""

    number: int
    command: str
    met: str
    after: float
    seconds: float
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        return f"try {self.number}, {self.command}: {self.met} after {self.after:.3f} of {self.seconds:.3f} s"


@dataclass(frozen=True, slots=True)
class Reference:
    """What an undisturbed run of a command left, and in how many seconds."""

    seconds: float
    files: dict[str, bytes]
    records: frozenset[str]


def start(folder: Path, at: str, words: tuple[str, ...]) -> int:
    """A command in a process group of its own; what it says goes to a file."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        _run(folder, at, words)
    return pid


def _run(folder: Path, at: str, words: tuple[str, ...]) -> NoReturn:
    status = 99
    try:
        os.setsid()
        os.chdir(folder / at)
        said = os.open(folder / "said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        status = reconcile(list(words))
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # which would end the process here, without a word of what it was
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def finish(folder: Path, at: str, words: tuple[str, ...]) -> int:
    """Its exit status; that of SIGKILL when it takes too long."""
    pid = start(folder, at, words)
    give_up = time.monotonic() + LONGEST
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > give_up:
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.005)


def has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def strike(pid: int, target: str, draw: random.Random) -> str:
    """Gives what was killed; "" where the command had ended already. Without a child, the process itself."""
    if has_ended(pid):
        return ""
    if target == "child":
        try:
            found = psutil.Process(pid).children(recursive=True)
            if living := [child for child in found if child.status() != psutil.STATUS_ZOMBIE]:
                draw.choice(living).kill()
                return target
        except psutil.NoSuchProcess:
            return ""
    if target == "group":
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:  # it has not made its group yet
            os.kill(pid, signal.SIGKILL)
        return target
    os.kill(pid, signal.SIGKILL)
    return "process"


def copy(starts: Path, command: Written, folder: Path) -> Path:
    copy_folder(starts / command.start, folder)
    place(folder)
    return folder


def measure(starts: Path, command: Written, folder: Path) -> Reference:
    copy(starts, command, folder)
    began = time.monotonic()
    status = finish(folder, command.at, command.words if command.then is None else command.then)
    seconds = time.monotonic() - began
    assert status in (0, 2), (command.words, status, said(folder))
    (folder / "said.txt").unlink()
    left = Reference(seconds, seen_by_git(folder), frozenset(Repository(folder / "repository").whole_records()))
    shutil.rmtree(folder)
    return left


def said(folder: Path) -> str:
    return (folder / "said.txt").read_text(errors="replace").strip()[-600:]


def one_try(number: int, name: str, starts: Path, folder: Path, reference: Reference, draw: random.Random) -> Try:
    command, target = COMMANDS[name], draw.choice(TARGETS)
    copy(starts, command, folder)
    pid = start(folder, command.at, command.words)
    after = draw.random() * reference.seconds
    time.sleep(after)
    met = strike(pid, target, draw)
    if command.then is not None and met in ("child", "process") and not has_ended(pid):
        os.killpg(pid, signal.SIGKILL)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    wrong = [f"ended by itself with {ended}: {said(folder)}"] if not met and ended not in (0, 2) else []
    left = wait_for_end_of(folder)
    wrong += [f"still running {left}"] if left else []
    kept = set(Repository(folder / "repository").whole_records())
    status = finish(folder, command.at, command.words if command.then is None else command.then)
    wrong += check(command, folder, status, met, kept, reference)
    return Try(number, name, met, round(after, 3), round(reference.seconds, 3), tuple(wrong))


def check(command: Written, folder: Path, status: int, met: str, kept: set[str], reference: Reference) -> list[str]:
    # Some refuse to begin where everything is done; whether it is, follows.
    whole = command.exact and status == 1 and bool(command.other) and command.other in said(folder)
    wrong = [f"the next run ended with {status}: {said(folder)}"] if status not in (0, 2) and not whole else []
    (folder / "said.txt").unlink()
    records = set(Repository(folder / "repository").whole_records())
    if command.start != "undeclared":
        wrong += [f"lost record {identity}" for identity in sorted(kept - records)]
    # A machine whose probe is killed is one that cannot be read, which `init` leaves to the user.
    exact = command.exact and (met, command.start) != ("child", "empty")
    if exact and (now := seen_by_git(folder)) != reference.files:
        differing = sorted(p for p in {*now, *reference.files} if now.get(p) != reference.files.get(p))
        wrong.append(f"other files than after an undisturbed run: {', '.join(differing[:5])}")
    # Every pass begins with that; what a command that only looks wrote for the next one waits for it.
    sweep(Repository(folder / "repository").paths.index)
    if command.swept:
        assert finish(folder, command.at, ()) == 0, said(folder)
    wrong += [*find_wrong(folder), *(find_uncommitted(folder / "repository") if command.commits else ())]
    if command.plan is not None:
        planned = finish(folder, command.at, ("plan", "--deep"))
        wrong += [f"plan ends with {planned}: {said(folder)}"] * (planned != command.plan)
    return wrong


def kill(count: int, seed: int, folder: Path, only: tuple[str, ...] = (), done: int = 0) -> Iterator[Try]:
    """Tries number ``done`` to ``count``. What a try draws depends on the seed and its number alone."""
    for name, variable in (("locks", "RECONCILE_LOCKS"), ("temporary", "TMPDIR")):
        # Anyone else who works on this machine neither waits nor is waited for, and leaves nothing.
        (folder / name).mkdir()
        os.environ[variable] = str(folder / name)
    tempfile.tempdir = None
    starts = folder / "starts"
    names = [name for name in COMMANDS if not only or name in only]
    make_starts(starts, {COMMANDS[name].start for name in names})
    references: dict[str, Reference] = {}
    weights = [COMMANDS[name].weight for name in names]
    for number in range(done, count):
        draw = random.Random(f"{seed} {number}")
        name = names[number] if number < len(names) else draw.choices(names, weights)[0]
        reference = references.get(name) or measure(starts, COMMANDS[name], folder / "reference")
        empty(folder / "temporary")
        made = one_try(number, name, starts, folder / str(number), reference, draw)
        left = sorted(filter(None, map(name_left, (folder / "temporary").iterdir())))
        made = replace(made, wrong=(*made.wrong, *(f"left over among temporary files: {name}" for name in left)))
        # One that came too late reports a machine that is less busy than it was when the reference was measured.
        references[name] = reference if made.met else replace(reference, seconds=reference.seconds * _SHRINK)
        yield made
        shutil.rmtree(folder / str(number))


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def name_left(path: Path) -> str:
    """ "" for an empty folder, which may be one that is being made and goes a minute later, and for what ONNX Runtime
    keeps there of its own."""
    return "" if path.name == ".ses" or (path.is_dir() and not any(path.iterdir())) else path.name


def read_tries(path: Path | None) -> list[Try]:
    """A last line that was broken off counts for nothing."""
    if path is None or not path.exists():
        return []
    rows = [json.loads(row) for row in path.read_text(encoding="utf-8").splitlines() if row.endswith("}")]
    return [Try(**{**row, "wrong": tuple(row["wrong"])}) for row in rows]


def write_table(tries: list[Try]) -> None:
    kills = Counter((made.command, made.met) for made in tries if made.met)
    for name, number in Counter(made.command for made in tries).items():
        met = ", ".join(f"{target} {kills[name, target]}" for target in TARGETS if kills[name, target])
        print(f"{name}: {number} tries, killed {met or 'nothing'}")
    print(f"{kills.total()} kills in {len(tries)} tries, {sum(len(made.wrong) for made in tries)} problems")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="tries (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what is killed when (default %(default)s)")
    parser.add_argument("--only", action="append", default=[], metavar="COMMAND", choices=[*COMMANDS])
    parser.add_argument("--into", type=Path, metavar="FILE", help="write each try here, and go on after those it holds")
    parser.add_argument("--nice", type=int, default=10, help="added to the niceness (default %(default)s)")
    given = parser.parse_args()
    os.nice(given.nice)
    into = given.into.resolve() if given.into else None
    tries = read_tries(into)
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):  # and report what was seen
        for made in kill(given.count, given.seed, Path(folder).resolve(), tuple(given.only), len(tries)):
            tries.append(made)
            if into:
                with into.open("a", encoding="utf-8") as stream:
                    stream.write("\n" + json.dumps(asdict(made)))  # after a line that was broken off, too
            for problem in made.wrong:
                print(f"{made}: {problem}", flush=True)
    os.chdir("/")
    write_table(tries)
    return any(made.wrong for made in tries)


if __name__ == "__main__":
    sys.exit(main())
