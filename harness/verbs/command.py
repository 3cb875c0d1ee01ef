"""``command``: run or score the benchmark with a user's own command. Its files count, not its exit status."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from harness.child.digests import hash_code, hash_file
from harness.child.group import Command, GroupEnd, StopRequest, run_end_command, run_group
from harness.child.launched import LAUNCHED, is_launched
from harness.child.orphan import ORPHANED
from harness.child.output import BoundedOutput
from harness.contract import (
    TELEMETRY,
    CommandRequest,
    Counter,
    Fact,
    Result,
    ServiceRequest,
    as_evidence,
    as_notes,
    copy_log,
)
from harness.cuda.nvml import collect_device_evidence
from harness.errors import HarnessError
from harness.machine.clocks import ClockWatch
from harness.machine.facts import collect_machine_notes, collect_slice_evidence, list_accelerators
from harness.machine.telemetry import Telemetry, find_flags
from harness.verbs import collecting, collecting_results
from harness.verbs.code_folder import list_created, list_entries
from harness.verbs.collecting import Collector, Stamps, bring_outputs, find_matching, take

LAST_LINE, SERVICE_LOG = "last-line", "service.log"
_STAGES = {"build": "building", "run": "running", "score": "scoring"}
_COLLECTORS: Mapping[str, Collector] = {
    "loadgen": collecting.collect_run,
    "endpoints": collecting_results.collect_run,
    "points": collecting_results.collect_run,
}
_OURS = ("RECONCILE_PARENT", LAUNCHED)

_LONGEST = 200  # characters of a command's last line in a message


def execute(request: CommandRequest, _give_up: Callable[[BaseException], None]) -> Result:
    """Run it. values: exit_status, logs (the folder of the set); marks; clock_set. ``done`` means only that the files
    exist."""
    began, clock = time.monotonic(), ClockWatch()
    counter = Counter(request.counter)
    counter.stage(_STAGES[request.purpose])
    environment = build_command_environment(request)
    cwd = Path(request.cwd)
    if not cwd.is_dir():
        problem = f"the command's folder does not exist: {cwd}"
        raise HarnessError(problem, "missing", "check harness.cwd and harness.code")
    if request.results == "points":
        from harness.verbs.served_model import refuse_other_model  # slow, since it imports HTTP and TLS

        refuse_other_model(Path(request.user_conf), environment)
    facts = as_evidence({"harness.code": hash_code()}) | collect_machine_notes() | find_code_commit(request.code)
    # A scorer computes the same on any machine; a run requires the same devices and driver each time.
    if request.purpose != "score" and list_accelerators():
        facts |= collect_device_evidence() | collect_slice_evidence()
    last_line, secrets = Path(request.counter).with_name(LAST_LINE), list_secrets(request)
    output = BoundedOutput(sys.stdout.fileno(), last_line, secrets=secrets)
    before = list_written(request) if request.purpose == "build" else {}
    stamps = collecting.list_stamps(Path(request.logs)) if request.purpose == "run" else {}
    entries = list_entries(Path(request.code)) if request.code_location else frozenset()
    stop = StopRequest()
    if is_launched():
        # The end of a container's first process kills the others, so placed files must be removed before that.
        signal.signal(signal.SIGTERM, lambda *_: stop.ask())
    run = request.purpose == "run"
    with audit_config(request.place_audit, cwd, request.lock) if run else nullcontext(lambda: None) as clear:
        apart = request.purpose == "score"  # a scorer's output is published, but not its warnings
        command = Command(request.command, cwd, environment, request.timeout, apart=apart)
        readings = Path(request.counter).with_name(TELEMETRY) if request.purpose == "run" else None
        telemetry = Telemetry([str(gpu["bus"]) for gpu in list_accelerators() if "bus" in gpu], readings)

        def put_in_order() -> None:
            run_end_command(request.ending)
            clear()

        ended = run_group(command, output, put_in_order, telemetry, stop)
    if stop.asked:
        os._exit(ORPHANED)
    counter.stage("completing")
    if request.code_location and (created := list_created(entries, list_entries(Path(request.code)))):
        facts |= as_notes({"code.written": {"location": request.code_location, "names": created}})
    if request.service_log:
        copy_log(Path(request.service_log), Path(request.counter).with_name(SERVICE_LOG))
    facts |= telemetry.facts()
    flags = telemetry.list_flags() if request.purpose == "run" else {}
    values: dict[str, Any] = find_flags({"exit_status": ended.status, "marks": [], **clock.describe()}, flags)
    if request.purpose == "build":
        problem = collect_built(request, ended, before)
    else:
        problem = _check_files(request, ended, values, output, int(began * 1e9), stamps)
    counter.stage("done")
    if problem:
        return _make_refusal(request.purpose, problem, ended, facts, time.monotonic() - began, output, request.cwd)
    return Result(done=True, seconds=time.monotonic() - began, values=values, facts=facts)


def build_command_environment(request: CommandRequest | ServiceRequest) -> dict[str, str]:
    """Return the allow-listed environment of this child with the declared variables, and secrets under their declared
    names."""
    found = read_declared_secrets(request.secrets)
    kept = {*found, *_OURS, *(request.hides if isinstance(request, ServiceRequest) else ())}
    passed = {name: value for name, value in os.environ.items() if name not in kept}
    secrets = {name: found[source] for name, source in request.secrets.items()}
    return {**passed, **request.env, **secrets}


def list_secrets(request: CommandRequest | ServiceRequest) -> list[str]:
    """List the values that must be hidden in the command's output."""
    hides = request.hides if isinstance(request, ServiceRequest) else ()
    return [os.environ[name] for name in (*request.secrets.values(), *hides) if name in os.environ]


def read_declared_secrets(declared: Mapping[str, str]) -> dict[str, str]:
    """Return the value of each variable of this process that a command refers to, by name. Raises HarnessError if one
    is not set."""
    taken = sorted(set(declared.values()))
    missing = [name for name in taken if name not in os.environ]
    if missing:
        problem = f"the environment variable {missing[0]} is not set"
        raise HarnessError(problem, "missing", f"export {missing[0]}, then run again")
    return {name: os.environ[name] for name in taken}


def _check_files(
    request: CommandRequest, ended: GroupEnd, values: dict[str, Any], output: BoundedOutput, clock: int, stamps: Stamps
) -> str:
    """Explain why the command's files do not match the request; "" if they do. ``clock``: monotonic ns at its start;
    ``stamps``: those of the logs that existed then."""
    run_dir, target, cwd = Path(request.run_dir), Path(request.output), Path(request.cwd)
    if request.purpose == "score":
        problem = _keep_score(run_dir, target, ended, output)
        for name in request.outputs if not problem else ():
            if (run_dir / name).is_dir():
                shutil.copytree(run_dir / name, target / name)
        return problem
    found = _COLLECTORS[request.results](request, clock, stamps)
    bring_outputs(request.outputs, cwd, run_dir, target)
    if ended.timed_out:
        return f"timeout: the command took longer than {request.timeout:g} s"
    if found.folder is not None:
        values["logs"] = found.folder.name
    return found.problem


def _keep_score(run_dir: Path, target: Path, ended: GroupEnd, output: BoundedOutput) -> str:
    if ended.timed_out or ended.status:
        return f"the scorer {'took too long' if ended.timed_out else f'ended with status {ended.status}'}"
    written = run_dir / "accuracy.txt"
    printed = output.captured if output.captured.strip() else output.captured_aside  # some log all of their output
    text = written.read_text(encoding="utf-8") if written.is_file() else printed.decode(errors="replace")
    lines = [line for line in text.splitlines() if not line.startswith("hash=")]
    (target / "accuracy.txt").write_text("\n".join(lines).strip() + "\n", encoding="utf-8")
    return ""


def _make_refusal(
    purpose: str, problem: str, ended: GroupEnd, facts: dict[str, Fact], seconds: float, output: BoundedOutput, cwd: str
) -> Result:
    ending = f"signal {-ended.status}" if ended.status < 0 else f"status {ended.status}"
    message = f"{problem} (the command ended with {ending})"
    if ended.status and not ended.timed_out and purpose == "run":
        # Report the cause first, then the missing files.
        last = next((line for line in reversed(output.read_last_lines().splitlines()) if line.strip()), "")
        message = f"the command ended with {ending}{f': {last.strip()[:_LONGEST]}' if last else ''}; {problem}"
    return Result(
        done=False,
        seconds=seconds,
        values={"log": output.read_last_lines(), "exit_status": ended.status},
        facts=facts,
        problem=message,
        problem_class="backend" if purpose == "build" else "contradiction",
        fix=f"see its output: `reconcile logs CELL`; the command starts in {cwd}",
    )


def find_code_commit(code: str) -> dict[str, Fact]:
    """Return the commit of the command's code, and whether it was edited since; nothing outside a repository."""
    if not code:
        return {}
    folder = Path(code) if Path(code).is_dir() else Path(code).parent
    commit, status = _run_git(folder, "rev-parse", "HEAD"), _run_git(folder, "status", "--porcelain", "--", code)
    if not commit:
        return {}
    return as_notes({"command.commit": commit.strip(), "command.dirty": bool(status)})


def _run_git(folder: Path, *arguments: str) -> str:
    try:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


NAME = "audit.config"


@contextmanager
def audit_config(settings: str, cwd: Path, lock: str) -> Iterator[Callable[[], None]]:
    """Place audit.config and yield a function that removes it. ``settings`` "": place none, and require that none
    exists.

    ``lock``: the lock of a folder in which files are placed. No such file existed when the command began, so one found
    afterwards belongs to this command, even if the command replaced the placed one, as some harnesses do, or placed its
    own.
    """
    target = cwd / NAME
    with _lock_folder(lock):
        digest = hash_file(Path(settings)) if settings else ""
        if target.exists() and not (digest and hash_file(target) == digest):
            problem = f"audit: {target} already exists, and would turn the run into a test"
            fix = "remove it, or let the process that placed it finish"
            if not lock:
                fix = (
                    "remove it; if the command places such a file itself, declare `audit_config: placed` in its harness"
                )
            raise HarnessError(problem, "input", fix)

        def clear() -> None:
            if digest or lock:
                with contextlib.suppress(OSError):
                    target.unlink()

        try:
            if settings:
                shutil.copyfile(settings, target)
            yield clear
        finally:
            clear()


@contextmanager
def _lock_folder(lock: str) -> Iterator[None]:
    """Allow one command at a time in a folder with placed files; the lock ends with the process."""
    if not lock:
        yield
        return
    path = Path(lock)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


Written = Mapping[Path, tuple[int, int]]  # file → inode and time of its last change, in ns


def list_written(request: CommandRequest) -> Written:
    """List the files that exist where the build must write its outputs."""
    found = (path for pattern in _list_patterns(request) for path in find_matching(pattern, Path(request.cwd)))
    return {file: (s.st_ino, s.st_ctime_ns) for path in found for file in _list_files(path) for s in (file.stat(),)}


def collect_built(request: CommandRequest, ended: GroupEnd, before: Written) -> str:
    """Explain why the build does not count; "" once all of its files are in ``output``. ``before``: the files that
    ``list_written`` found when it began. The date alone does not suffice, since a copy may have an older date."""
    if ended.timed_out:
        return f"timeout: the build took longer than {request.timeout:g} s"
    if ended.status:
        return "the build failed"
    run_dir, output = Path(request.run_dir), Path(request.output)
    now = list_written(request)
    taken: dict[str, Path] = {}
    for pattern in _list_patterns(request):
        found = list(find_matching(pattern, Path(request.cwd)))
        if not found:
            return f"outputs: the build wrote no {_show_path(pattern, run_dir)}"
        for path in found:
            if old := next((file for file in _list_files(path) if before.get(file) == now.get(file)), None):
                return f"outputs: {_show_path(str(old), run_dir)} existed before the build, which did not write it"
            if taken.setdefault(path.name, path) != path:
                return f"outputs: {taken[path.name]} and {path} have the same name"
    _bring(taken.values(), output, run_dir)
    if not any(path.is_file() for path in output.rglob("*")):
        return "outputs: the build wrote no file"
    return ""


def _show_path(path: str, run_dir: Path) -> str:
    return path.replace(str(run_dir), "{run_dir}")


def _list_patterns(request: CommandRequest) -> tuple[str, ...]:
    return request.outputs or (f"{request.run_dir}/*",)


def _list_files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [item for item in path.rglob("*") if item.is_file()]


def _bring(paths: Iterable[Path], output: Path, run_dir: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.copytree(path, output / path.name)
        else:
            take(path, output / path.name, run_dir)
