"""``state``: run while the machine is in a declared power state, which is set before and always restored.

A keeper sits between this process and the run (``harness.child.group``), so that a SIGKILL of this process, or of the
pass above it, restores the state as well. The state to restore is recorded before anything is set: if the keeper was
killed too, the next run on the machine, or the next pass, restores it first.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.contract import FORMAT, Counter, Result, as_evidence
from harness.errors import HarnessError
from harness.power.measuring import run_apart
from harness.power.requests import StateRequest

_LIMIT = 60.0  # seconds that setting or reading a state may take
_AFTER = "state-after"  # the state read after the run, before it was restored


def execute(request: StateRequest, _give_up: Callable[[BaseException], None]) -> Result:
    """Run in the state; return the run's result, with the state as evidence, since all runs of one cell must have the
    same state. Raises HarnessError if the state could not be set, did not last, or was not restored."""
    began = time.monotonic()
    Counter(request.counter).close()
    journal, place = Path(request.journal), Path(request.counter).parent
    put_back(journal)  # left by a run that was killed together with its keeper
    before = _read(request)
    _write_journal(journal, request, before)

    def end() -> None:
        if journal.exists():
            with contextlib.suppress(HarnessError, OSError):
                (place / _AFTER).write_text(_read(request), encoding="utf-8")
            put_back(journal)

    try:
        _run(request.set_by, request.cwd, "set")
        _expect(request, _read(request), "was set")
        answer = _carry_out(request, place, end)
    finally:
        end()
    if journal.exists():
        fix = f"restore it by hand: {' '.join(request.restore)}; then remove {journal}"
        raise HarnessError(f"the power state was not restored: it was {before!r} before", "resources", fix)
    result = Result.read(answer)
    if not result.done:
        return result
    after = place / _AFTER
    _expect(request, after.read_text(encoding="utf-8") if after.exists() else "", "had ended")
    facts = result.facts | as_evidence({"power.state": request.expect})
    return result.edit(facts=facts, seconds=time.monotonic() - began)


def put_back(journal: Path) -> None:
    """Restore the recorded state. If that fails, the record remains."""
    try:
        said = json.loads(journal.read_text(encoding="utf-8"))
        restore, read, cwd, before = said["restore"], said["read"], said["cwd"], said["before"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    with contextlib.suppress(HarnessError):
        _run(restore, cwd, "restored")
        if _run(read, cwd, "read") == before:
            journal.unlink(missing_ok=True)


def _carry_out(request: StateRequest, place: Path, end: Callable[[], None]) -> Path:
    """Run as a separate child; its result is read once the state is restored."""
    inner, answer = place / "state-request.json", place / "state-answer.json"
    inner.write_text(json.dumps({"format": FORMAT, **request.inner, "counter": request.counter}), encoding="utf-8")
    words = [sys.executable, "-P", "-m", "harness", request.inner_verb, str(inner), str(answer)]
    ended = run_apart(words, request.counter, end)
    if not answer.exists():
        problem = f"the run in its power state ended with status {ended.status} without a result"
        raise HarnessError(problem, "crash", "see the child's log")
    return answer


def _write_journal(journal: Path, request: StateRequest, before: str) -> None:
    journal.parent.mkdir(parents=True, exist_ok=True)
    partial = journal.with_name(f"{journal.name}.{os.getpid()}")
    said = {"restore": request.restore, "read": request.read_by, "cwd": request.cwd, "before": before}
    with partial.open("w", encoding="utf-8") as stream:
        json.dump(said, stream)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(journal)


def _read(request: StateRequest) -> str:
    return _run(request.read_by, request.cwd, "read")


def _expect(request: StateRequest, found: str, when: str) -> None:
    """Check the state. If several devices print one line each, the lines must be equal."""
    if found != request.expect:
        problem = f"the power state reads {found!r} when it {when}, not {request.expect!r}"
        raise HarnessError(problem, "resources", "fix power_state of the system, or the permissions of its commands")


def _run(words: Sequence[str], cwd: str, verb: str) -> str:
    """Run a command; return its distinct output lines."""
    try:
        ended = subprocess.run(
            list(words), cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HarnessError(f"the power state cannot be {verb}: {error}", "resources", "see power_state") from error
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip()[-200:]
        problem = f"the power state cannot be {verb}: {words[0]} ended with {ended.returncode} {said}".rstrip()
        raise HarnessError(problem, "resources", "check power_state of the system; its commands may need privileges")
    lines = (line.strip() for line in ended.stdout.decode(errors="replace").splitlines())
    return ", ".join(dict.fromkeys(line for line in lines if line))
