"""Passes that end badly, at every step that leaves a trace on disk. A process of its own, so that it may fork.

``python -m tests.passes.crashing FAULT EVERY IN_TREE START SCRATCH`` prints one JSON line for each step at which a pass
over a copy of START was stopped: what it left, and how the next, ordinary pass ended. Of the steps that write files of
the tree, each IN_TREE-th is one, of all others each EVERY-th.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from reconciler.errors import StorageError
from tests.flushes import skip_flushes
from tests.passes.repository import Repository
from tests.warm.children import Warm, warm_children

# Everything durable goes through one of these.
STEPS = ("fsync", "replace", "rename", "link", "mkdir", "unlink", "rmdir")
_GROW = ("fsync", "replace", "link", "mkdir")  # what a full disk refuses
NEVER = 1 << 30
REFUSED, BUG = 4, 5


def install(fault: str, at: int) -> list[str]:
    """Note the steps of this process from here on, and strike before step number ``at``. Gives the file of each."""
    steps: list[str] = []

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(path: Any, *arguments: Any, **named: Any) -> Any:
            steps.append(str(Path(f"/proc/self/fd/{path}").readlink()) if isinstance(path, int) else os.fsdecode(path))
            if fault == "kill" and len(steps) == at:
                os.kill(os.getpid(), signal.SIGKILL)
            if fault == "full" and len(steps) >= at and name in _GROW:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(path, *arguments, **named)

        return step

    for name in STEPS:
        setattr(os, name, wrap(name, getattr(os, name)))
    return steps


def in_child(work: Callable[[], int]) -> int:
    """Do it in a forked process; its exit status, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        _leave(work)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _leave(work: Callable[[], int]) -> NoReturn:
    status = BUG
    try:
        status = work()
    except StorageError as error:
        print(f"refused: {error.message}; {error.fix}", file=sys.stderr)
        status = REFUSED if error.fix else BUG
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def list_steps(repository: Repository) -> list[bool]:
    """Of each step, whether it writes a file of the tree."""
    noted = repository.root / ".steps"

    def work() -> int:
        steps = install("none", NEVER)
        repository.reconcile()
        tree = str(repository.paths.tree)
        noted.write_text(json.dumps([path.startswith(tree) for path in steps]), encoding="utf-8")
        return 0

    assert in_child(work) == 0
    found: list[bool] = json.loads(noted.read_text(encoding="utf-8"))
    return found


def struck(repository: Repository, fault: str, at: int) -> int:
    def work() -> int:
        install(fault, at)
        repository.reconcile()
        return 0

    return in_child(work)


def processes_in(folder: Path) -> list[int]:
    """Living processes that work in a folder, or were given a file of it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            here = str(folder) in (entry / "cmdline").read_bytes().decode(errors="replace")
            inside = (entry / "cwd").readlink().is_relative_to(folder / ".reconcile")
        except OSError:
            continue
        if state != "Z" and (here or inside) and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def wait_for_end_of(folder: Path, seconds: float = 20.0) -> list[int]:
    """Processes of a folder that are still there after a while; a killed pass takes its child with it."""
    give_up = time.monotonic() + seconds
    while (left := processes_in(folder)) and time.monotonic() < give_up:
        time.sleep(0.02)
    return left


def complete_attempts(repository: Repository) -> list[str]:
    """Attempts whose result was whole when the pass ended: each must become a record."""
    folders = (p for p in repository.paths.attempts.glob("*") if not p.name.startswith("."))
    return sorted(p.name for p in folders if (p / "result.json").exists() and (p / "attempt.json").exists())


def finish(repository: Repository) -> dict[str, Any]:
    """An ordinary pass over what is there, and what that leads to."""
    before = set(repository.whole_records())
    complete = complete_attempts(repository)
    report = repository.reconcile()
    records = repository.records()
    again = repository.reconcile()
    return {
        "in_sync": report.after.plan.in_sync,
        "done": sorted(repository.done().items()),
        "lost_records": sorted(before - set(records)),
        "lost_results": sorted(set(complete) - {record.attempt for record in records.values()}),
        "failed": [record.problem for record in records.values() if record.problem],
        "tree": sorted(repository.tree()),
        "damage": repository.damage(),
        "again": [str(outcome.step.change.address) for outcome in again.outcomes],
    }


def main(fault: str, every: int, in_tree: int, start: Path, scratch: Path, warm: Warm) -> None:
    """A child of a pass that is killed must end with it: that one is no fork of another process."""
    warm.start()
    Repository(start).copy(scratch / "loaded").reconcile()  # what every pass loads, this process has for its forks
    gc.freeze()
    whole = Repository(start).copy(scratch / "whole")
    steps = list_steps(whole)
    inside, outside = ([at for at, there in enumerate(steps, 1) if there is wanted] for wanted in (True, False))
    for at in sorted([*inside[::in_tree], *outside[::every]]):
        repository = Repository(start).copy(scratch / str(at))
        with warm.off() if fault == "kill" else contextlib.nullcontext():
            status = struck(repository, fault, at)
        left = wait_for_end_of(repository.root)
        report: dict[str, Any] = {}

        def ordinary(repository: Repository = repository, report: dict[str, Any] = report) -> int:
            (repository.root / ".after").write_text(json.dumps(finish(repository)), encoding="utf-8")
            return 0

        ended = in_child(ordinary)
        if ended == 0:
            report = json.loads((repository.root / ".after").read_text(encoding="utf-8"))
        print(
            json.dumps({"at": at, "of": len(steps), "status": status, "left": left, "ended": ended, **report}),
            flush=True,
        )
        shutil.rmtree(repository.root)


if __name__ == "__main__":
    skip_flushes()
    with warm_children() as warm:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), Path(sys.argv[5]), warm)
