"""Kills at random instants: ``python -m tests.crash.kills [--count N] [--seed N] [--only COMMAND]``.

Each try copies a repository, starts a command that writes, and after a random time kills the process, one of its
children or its whole group. Then the same command is run again, to its end, and everything is compared with what an
undisturbed run left: nothing lost, nothing doubled, nothing to do by hand. Prints a line for each failure and a table.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from reconciler.cli.main import main as reconcile
from tests.crash.commands import COMMANDS, Written, find_wrong, make_starts, place, seen_by_git
from tests.passes.crashing import wait_for_end_of
from tests.passes.repository import Repository

TARGETS = ("process", "child", "group")
_MADE = (" already; nothing was written", " is not empty")
LONGEST = 120.0  # seconds that an undisturbed command may take


@dataclass(slots=True)
class Tally:
    """``kills`` that met something alive, of so many ``tries``."""

    tries: Counter[str] = field(default_factory=Counter)
    kills: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


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


def children_of(pid: int) -> list[int]:
    """Every living descendant."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if words[0] != "Z":
            parents.setdefault(int(words[1]), []).append(int(entry.name))
    found, ahead = [], [pid]
    while ahead:
        below = parents.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def strike(pid: int, target: str, draw: random.Random) -> str:
    """Gives what was killed; "" where the command had ended already. Without a child, the process itself."""
    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        return ""
    if target == "child" and (children := children_of(pid)):
        try:
            os.kill(draw.choice(children), signal.SIGKILL)
        except ProcessLookupError:
            return ""
        return target
    if target == "group":
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:  # it has not made its group yet
            os.kill(pid, signal.SIGKILL)
        return target
    os.kill(pid, signal.SIGKILL)
    return "process"


def copy(starts: Path, command: Written, folder: Path) -> Path:
    shutil.copytree(starts / command.start, folder, symlinks=True)
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


def one_try(name: str, starts: Path, folder: Path, reference: Reference, draw: random.Random, tally: Tally) -> None:
    command, target = COMMANDS[name], draw.choice(TARGETS)
    copy(starts, command, folder)
    pid = start(folder, command.at, command.words)
    after = draw.random() * reference.seconds * 1.1
    time.sleep(after)
    met = strike(pid, target, draw)
    if met == "child" and command.then is None:
        os.waitpid(pid, 0)
    else:
        if command.then is not None and met != "group":
            os.killpg(pid, signal.SIGKILL) if not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) else 0
        os.waitpid(pid, 0)
    tally.tries[name] += 1
    tally.kills[name, met] += bool(met)
    where = f"{name}: {target} after {after:.3f} of {reference.seconds:.3f} s"
    if left := wait_for_end_of(folder):
        tally.wrong.append(f"{where}: still running {left}")
    kept = set(Repository(folder / "repository").whole_records())
    status = finish(folder, command.at, command.words if command.then is None else command.then)
    tally.wrong += [f"{where}: {problem}" for problem in check(command, folder, status, met, kept, reference)]


def check(command: Written, folder: Path, status: int, met: str, kept: set[str], reference: Reference) -> list[str]:
    # `init` and `unpack` make nothing where everything is made; whether it is, follows.
    whole = command.exact and status == 1 and any(words in said(folder) for words in _MADE)
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
    if command.swept:
        assert finish(folder, command.at, ()) == 0, said(folder)
    wrong += find_wrong(folder)
    if command.plan is not None:
        planned = finish(folder, command.at, ("plan", "--deep"))
        wrong += [f"plan ends with {planned}: {said(folder)}"] * (planned != command.plan)
    return wrong


def kill(count: int, seed: int, folder: Path, only: tuple[str, ...] = ()) -> Tally:
    draw, tally = random.Random(seed), Tally()
    for role in ("AUTHOR", "COMMITTER"):
        os.environ |= {f"GIT_{role}_NAME": "Tester", f"GIT_{role}_EMAIL": "tester@example.com"}
    starts = folder / "starts"
    make_starts(starts)
    names = [name for name in COMMANDS if not only or name in only]
    references = {name: measure(starts, COMMANDS[name], folder / "reference") for name in names}
    weights = [COMMANDS[name].weight for name in names]
    with contextlib.suppress(KeyboardInterrupt):  # and tell what was seen until then
        for number in range(count):
            name = names[number] if number < len(names) else draw.choices(names, weights)[0]
            before = len(tally.wrong)
            one_try(name, starts, folder / str(number), references[name], draw, tally)
            for line in tally.wrong[before:]:
                print(f"try {number}: {line}", flush=True)
            shutil.rmtree(folder / str(number))
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="tries (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what is killed when (default %(default)s)")
    parser.add_argument("--only", action="append", default=[], metavar="COMMAND", choices=[*COMMANDS])
    given = parser.parse_args()
    os.nice(10)
    with tempfile.TemporaryDirectory() as folder:
        tally = kill(given.count, given.seed, Path(folder).resolve(), tuple(given.only))
        os.chdir("/")
    for name in tally.tries:
        met = ", ".join(f"{target} {tally.kills[name, target]}" for target in TARGETS if tally.kills[name, target])
        print(f"{name}: {tally.tries[name]} tries, killed {met or 'nothing'}")
    print(f"{sum(tally.kills.values())} kills in {tally.tries.total()} tries, {len(tally.wrong)} problems")
    return bool(tally.wrong)


if __name__ == "__main__":
    sys.exit(main())
