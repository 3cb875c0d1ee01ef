"""``python -P -m harness.child.slurm_job GROUP SECONDS VERB REQUEST.json RESULT.json``: a Slurm job.

It executes the attempt for which it was queued, then others of its group that wait for their own jobs.

Each attempt is a process forked from this one, so slow imports happen only once. This process computes nothing, and has
no state that an attempt could find changed.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.__main__ import keep_to_one_thread, load_verb
from harness.__main__ import main as carry_out
from harness.child.orphan import adopt_orphans
from harness.contract import WAITING, Result, WaitingAttempt

_FACTOR, _MARGIN = 2.0, 60.0  # allowance for attempts that take longer than expected, relative and in seconds
_DONE = b"d"
_ASK = 10.0  # seconds that Slurm has to report the limit


@dataclass(slots=True)
class Room:
    """The time available for another attempt. ``ends``: when this job accepts no more; ``limit``: when Slurm ends it,
    queried only once needed. Both are monotonic."""

    ends: float
    ask: Callable[[], float]
    limit: float | None = None

    def measure(self) -> float:
        now = time.monotonic()
        if now >= self.ends:
            return 0.0
        if self.limit is None:
            self.limit = now + self.ask()
        return min(self.ends - now, (self.limit - now - _MARGIN) / _FACTOR)


def ask_time_left() -> float:
    """Ask Slurm for the seconds until this job's time limit; 0 if it does not report it."""
    end, job = os.environ.get("SLURM_JOB_END_TIME", ""), os.environ.get("SLURM_JOB_ID", "")
    if end.isdigit():
        return int(end) - time.time()
    question = ("squeue", "--noheader", f"--jobs={job}", "--format=%L")
    try:
        answer = subprocess.run(question, capture_output=True, text=True, timeout=_ASK, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return 0.0
    return parse_time_left(answer.strip())


def parse_time_left(text: str) -> float:
    """Parse Slurm's format: [days-][[hours:]minutes:]seconds."""
    if text == "UNLIMITED":
        return float("inf")
    days, _, rest = text.rpartition("-")
    parts = [days or "0", *(["0", "0", *rest.split(":")][-3:])]
    if not all(part.isdigit() for part in parts):
        return 0.0
    return float(sum(int(part) * unit for part, unit in zip(parts, (86400, 3600, 60, 1), strict=True)))


def take_next(attempts: Path, group: str, placed: bytes, room: Callable[[], float]) -> WaitingAttempt | None:
    """Claim the oldest waiting attempt that fits."""
    for path in sorted(attempts.glob(f"*/{WAITING.format(group)}")):
        with suppress(OSError, ValueError):  # another job was faster, or the pass has dropped the attempt
            waiting = WaitingAttempt.read(path)
            if waiting.seconds <= room() and claim(path.parent, placed):
                path.unlink(missing_ok=True)
                return waiting
    return None


def claim(folder: Path, placed: bytes) -> bool:
    """Claim the attempt; return True if this job was first, before the attempt's own job and all others. ``begun`` is
    created atomically with its content, so the claiming job is always known."""
    if os.path.lexists(folder / "begun"):
        return False
    aside = folder / f"placed-{os.environ.get('SLURM_JOB_ID', '')}-{os.getpid()}.partial"
    aside.write_bytes(placed)
    with suppress(OSError):  # a file server's reply may be lost, or it may not support links, so the count decides
        os.link(aside, folder / "begun")
    if aside.stat().st_nlink < 2:
        aside.unlink()
        return False
    aside.replace(folder / "placed")
    return True


def run_forked(arguments: list[str], log: Path | None) -> tuple[int, bool]:
    """Fork and run; return the exit status and whether the attempt is done, since its folder may already have been
    removed. ``log``: file for its output; None for this process's output."""
    sys.stdout.flush()
    sys.stderr.flush()
    answer, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(Path(arguments[1]).parent)
            if log is not None:
                out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
                os.dup2(out, 1)
                os.dup2(out, 2)
                os.close(out)
            carry_out(arguments, lambda result: _report_end(writer, result))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writer)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.set_blocking(answer, False)  # processes that the attempt left may keep the other end open
    try:
        return status, os.read(answer, 1) == _DONE
    except BlockingIOError:
        return status, False
    finally:
        os.close(answer)


def _report_end(writer: int, result: Result) -> None:
    os.write(writer, _DONE if result.done else b"")


def is_quiet() -> bool:
    """Return True if no process of an attempt is left, which would run alongside the next one."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def stamp_code() -> dict[str, tuple[int, int]]:
    """Map the imported files of the harness to their size and time, since an attempt records the code that it ran."""
    ours = (module for name, module in list(sys.modules.items()) if name.split(".")[0] == "harness")
    files = {str(module.__file__) for module in ours if getattr(module, "__file__", None)}
    found = {file: Path(file).stat() for file in files}
    return {file: (stat.st_size, stat.st_mtime_ns) for file, stat in found.items()}


def main(arguments: list[str]) -> int:
    began = time.monotonic()
    group, seconds, *own = arguments
    keep_to_one_thread()
    adopt_orphans()
    with suppress(Exception):  # the attempt itself reports what is missing
        load_verb(own[0])
    code = stamp_code()
    gc.freeze()
    folder = Path(own[1]).parent
    placed = (folder / "placed").read_bytes()
    room = Room(began + float(seconds), ask_time_left)
    status, done = run_forked(own, None)
    while done and is_quiet() and stamp_code() == code:  # a node takes no more attempts after a failed one
        waiting = take_next(folder.parent, group, placed, room.measure)
        if waiting is None:
            break
        status, done = run_forked(list(waiting.arguments), Path(waiting.log))
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
