"""The watchdog over a child, whatever it does when it hangs, and the end of what it leaves: real children."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest
from msgspec.structs import replace

from harness.contract import LOG_PARTS, Benchmark, BuildRequest, ProbeRequest, Progress, Result
from reconciler.execute import child, perform
from reconciler.execute.attempt import Attempt, Intent, ServerAccess, make_attempt_id
from reconciler.execute.child import Watch, follow_submission, read_last_lines, run_child
from reconciler.execute.executors import local
from reconciler.execute.executors.executor import Handle, Interruption, Progressing, State
from reconciler.execute.executors.table import Executors
from reconciler.execute.outcome import Status
from reconciler.plan.plan import Step
from reconciler.reconcile.planning import Options
from reconciler.reconcile.run import PassReport, run_pass
from reconciler.resource.kinds import Address, Kind
from reconciler.storage.files import Lock, RepositoryPaths
from reconciler.storage.process import explain_signal
from tests.passes.repository import HERE, SPEC, Repository, make_repository

TINY = HERE / "benchmarks" / "tiny.py"
HANGS = "    import time\n    time.sleep(600)\n"


def hanging(root: Path, function: str) -> Repository:
    repository = make_repository(root)
    text = (root / "benchmarks/tiny.py").read_text(encoding="utf-8")
    repository.write("benchmarks/tiny.py", f"{text}\n\ndef {function}:\n{HANGS}")
    return repository


def retried(report: PassReport) -> dict[str, str]:
    """What was stopped, and why."""
    found = [outcome for outcome in report.outcomes if outcome.status is Status.RETRY]
    return {outcome.step.change.address.label: outcome.message for outcome in found}


def test_run_that_hangs_before_it_is_timed_is_ended(tmp_path: Path) -> None:
    pytest.importorskip("mlperf_loadgen")
    repository = hanging(tmp_path, "postprocess(outputs)")
    repository.edit(SPEC, "target_qps: 100,", "attempts: 1, run: {stall_timeout: 3 s}, target_qps: 100,")
    found = retried(repository.reconcile())
    assert set(found) == {"Run accuracy", "Run performance"}
    assert all("s while warming up" in message for message in found.values())


def test_build_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perform, "PATIENCE", 5.0)
    repository = hanging(tmp_path, "build_dataset(source, settings, output, counter)")
    repository.edit(SPEC, "target_qps: 100,", "attempts: 1, target_qps: 100,")
    found = retried(repository.reconcile())
    assert [message.partition(" for ")[0] for message in found.values()] == ["no progress"]
    assert all("s while building" in message for message in found.values())


@pytest.mark.usefixtures("cold_children")  # one that is none of this process could be overlooked
def test_step_that_is_given_up_ends_at_once_whatever_its_child_does(tmp_path: Path) -> None:
    """It makes no progress, so nothing but the check can say so."""
    repository = hanging(tmp_path, "build_dataset(source, settings, output, counter)")

    class GivenUpError(Exception):
        pass

    def check(step: Step, begun: bool) -> None:
        if begun and time.monotonic() > began + 1.5:
            raise GivenUpError

    before = psutil.Process().children(recursive=True)
    began = time.monotonic()
    with pytest.raises(GivenUpError):  # the child would hang until this test's own limit
        run_pass(repository.paths, Options(), report=lambda _: None, check=check)
    assert not list(repository.paths.attempts.iterdir())
    left = [p for p in psutil.Process().children(recursive=True) if p not in before]
    assert not [p for p in left if p.status() != psutil.STATUS_ZOMBIE]


def an_attempt(root: Path, kind: Kind = Kind.DATASET, server: ServerAccess | None = None) -> Attempt:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    intent = Intent(
        id=make_attempt_id(now),
        address=Address(kind, "tiny"),
        key="key",
        revision=1,
        started="2026-01-01T00:00:00.000000Z",
        inputs={},
        locations={},
        upstream={},
        made_from={},
        spec={},
        dirty=False,
        marks=(),
        supersedes="",
        shared=(),
        tool="",
        server=server,
    )
    attempt = Attempt(root / "attempt", intent)
    attempt.folder.mkdir()
    return attempt


def executors(root: Path) -> Executors:
    return Executors.make(RepositoryPaths(root))


def started(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """The next child runs this code instead of the harness."""
    monkeypatch.setattr(local, "build_harness_command", lambda *_: [sys.executable, "-c", code])


ESCAPES = """
import os, subprocess, sys
from pathlib import Path
Path("escaped").write_text(str(subprocess.Popen(["sleep", "600"], start_new_session=True).pid))
if os.fork() == 0:
    os.setsid()
    forked = subprocess.Popen(["sleep", "600"], env={}, close_fds=False)
    Path("forked").write_text(f"{os.getpid()} {forked.pid}")
    forked.wait()
while not Path("forked").exists() or len(Path("forked").read_text().split()) < 2:
    pass
"""


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A child of the caller's own, in a session of its own."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def test_processes_that_left_the_session_of_a_child_end_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bystander: subprocess.Popen[bytes]
) -> None:
    started(monkeypatch, ESCAPES)
    attempt = an_attempt(tmp_path)
    run_child(attempt, ProbeRequest(), Watch(lambda _: None), executors(tmp_path))
    words = (attempt.folder / "escaped").read_text().split() + (attempt.folder / "forked").read_text().split()
    assert len(words) == 3
    assert [pid for pid in map(int, words) if psutil.pid_exists(pid)] == []
    assert bystander.poll() is None


LOCKED = """
import os, sys
from pathlib import Path
from reconciler.storage.files import Lock, RepositoryPaths
from reconciler.storage.process import Child, build_child_environment, build_harness_command
place = Path(sys.argv[1])
lock = Lock(place / "lock", purpose="a pass").acquire()
command = build_harness_command("build", place / "request.json", place / "result.json")
environment, descriptors = build_child_environment(), [lock.descriptor]
with Child(command, folder=place, log=place / "log", environment=environment, keep_open=descriptors) as c:
    c.wait(120)
"""


def test_program_that_escapes_from_a_harness_child_holds_no_lock(tmp_path: Path) -> None:
    """Also where no one ends it: the pass that started it is gone."""
    (tmp_path / "artifact").mkdir()
    code = tmp_path / "escaping.py"
    start = "\n\nimport os\nos.system('setsid sleep 600 & echo $! > escaped')\n"
    code.write_text(TINY.read_text(encoding="utf-8") + start, encoding="utf-8")
    request = BuildRequest(
        kind="Dataset",
        benchmark=Benchmark(name="escaping", path=str(code)),
        output=str(tmp_path / "artifact"),
        counter=str(tmp_path / "counter"),
    )
    request.write(tmp_path / "request.json")
    environment = {**os.environ, "PYTHONPATH": str(Path(perform.__file__).parents[2])}
    subprocess.run([sys.executable, "-c", LOCKED, str(tmp_path)], env=environment, check=True)
    escaped = psutil.Process(int((tmp_path / "escaped").read_text()))
    try:
        assert escaped.is_running()
        Lock(tmp_path / "lock", purpose="the next").acquire().release()
    finally:
        escaped.kill()


def test_a_child_without_result_is_reported_with_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started(monkeypatch, "print('first'); print('out of memory'); raise SystemExit(3)")
    result = run_child(an_attempt(tmp_path), ProbeRequest(), Watch(lambda _: None), executors(tmp_path))
    assert (result.done, result.problem_class, result.seconds) == (False, "crash", 0.0)  # what it took is not known
    assert result.values == {"log": "first\nout of memory"}


class Queue:
    """It says of a job what the test says, one word at a time."""

    def __init__(self, *words: Progressing) -> None:
        self.words = iter(words)
        self.cancelled = self.harvested = False

    def poll(self, handle: Handle, wait: float = 0.0) -> Progressing:
        return next(self.words)

    def cancel(self, handle: Handle, grace: float = 2.0) -> None:
        self.cancelled = True

    def harvest(self, handle: Handle) -> None:
        self.harvested = True


def follow(attempt: Attempt, watch: Watch, *words: Progressing) -> tuple[Result, bool]:
    """With whether it was made to end."""
    attempt.output.mkdir()
    return follow_words(attempt, watch, *words)


def follow_words(attempt: Attempt, watch: Watch, *words: Progressing) -> tuple[Result, bool]:
    queue = Queue(*words)
    result = follow_submission(cast(Any, queue), Handle("slurm", attempt.folder, "n"), attempt, watch)
    assert queue.harvested
    assert Result.read(attempt.result) == result
    return result, queue.cancelled


GOES_ON, IS_OVER = Progressing(State.RUNNING), Progressing(State.ENDED, 0)


def let_count(monkeypatch: pytest.MonkeyPatch, progress: Progress | None) -> None:
    monkeypatch.setattr(child, "read_progress", lambda _: progress)


@pytest.mark.parametrize(
    ("stage", "idle", "ended"),
    [
        ("running", 10.0, False),
        ("running", 10.4, True),
        ("loading", 10.0, False),
        ("loading", 11.0, True),
        ("starting", 99.0, False),  # it has ``start`` for that
        ("done", 12.0, True),
    ],
)
@pytest.mark.parametrize("kind", [Kind.RUN, Kind.COMPLIANCE_TEST, Kind.DATASET])
def test_a_child_without_progress_is_ended_in_whichever_stage(
    stage: str, idle: float, ended: bool, kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = an_attempt(tmp_path, kind)
    let_count(monkeypatch, Progress(stage, 0, 0, 1.0, idle, ""))
    result, cancelled = follow(attempt, Watch(lambda _: None, stall=10.0, start=60.0), GOES_ON, IS_OVER)
    assert cancelled is ended
    if ended:
        assert f" {idle:.0f} s" in result.problem
        assert result.problem_class == "resources"
        assert ("run.stall_timeout" in result.fix) is (kind is not Kind.DATASET)


@pytest.mark.parametrize(("stall", "start", "ended"), [(10.0, 0.0, True), (10.0, 60.0, False), (0.0, 0.0, False)])
@pytest.mark.parametrize("progress", [None, Progress("starting", 0, 0, 1.0, 0.0, "")], ids=["silent", "starting"])
def test_a_child_has_a_while_to_begin(
    stall: float, start: float, ended: bool, progress: Progress | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_count(monkeypatch, progress)
    result, cancelled = follow(an_attempt(tmp_path), Watch(lambda _: None, stall, start), GOES_ON, IS_OVER)
    assert cancelled is ended
    assert (result.problem == "the child did not start work within 0 s") is ended


def test_a_command_is_timed_from_the_start_of_its_loadgen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its model takes an hour to load, and LoadGen began a minute ago."""
    attempt = an_attempt(tmp_path, Kind.RUN)
    rules = cast(Any, SimpleNamespace(endpoints=None))
    attempt = replace(attempt, intent=replace(attempt.intent, rules=rules))
    let_count(monkeypatch, Progress("running", 0, 0, 3600.0, 0.0, ""))
    seconds: list[float] = []
    watch = Watch(lambda progress: seconds.append(progress.seconds))
    follow(attempt, watch, GOES_ON, IS_OVER)
    (attempt.run_dir / "logs").mkdir(parents=True)
    follow_words(attempt, watch, GOES_ON, IS_OVER)
    summary = attempt.run_dir / "logs/2026-01-01_mlperf_log_summary.txt"
    summary.touch()
    os.utime(summary, (time.time() - 60, time.time() - 60))
    follow_words(attempt, watch, GOES_ON, IS_OVER)
    assert seconds[:2] == [3600.0, 0.0]
    assert 60 <= seconds[2] < 3600


def test_a_child_fails_with_the_server_that_it_asks_and_keeps_what_that_printed(tmp_path: Path) -> None:
    log = tmp_path / "server"
    log.mkdir()
    (log / LOG_PARTS[0]).write_text("out of memory\n")
    attempt = an_attempt(tmp_path, Kind.RUN, ServerAccess(8000, str(log)))
    Result(done=True, seconds=3.0).write(attempt.result)
    lost = Result(done=False, seconds=0.0, problem="the server ended", problem_class="resources")
    result, cancelled = follow(attempt, Watch(lambda _: None, lost=lambda: lost), GOES_ON, IS_OVER)
    assert (result, cancelled) == (lost, True)
    assert attempt.service_log.read_text() == "out of memory\n"


LOST = "see the child's log; what it starts must see {} and have this mlperf-reconciler"
WHY = Interruption("preempted", "job 7 was preempted", "raise its priority")


@pytest.mark.parametrize(
    ("found", "placed", "problem", "kind", "fix"),
    [
        (
            Progressing(State.ENDED, 3),
            "",
            "the child process ended with status 3 and no result",
            "crash",
            "see the child's log",
        ),
        (
            Progressing(State.ENDED, -9),
            "",
            "the child process was ended by signal 9",
            "resources",
            f"{explain_signal(9, 'lower batch_size or streams')}; see the child's log",
        ),
        (Progressing(State.LOST), "", "its job ended without a result; it never began", "crash", LOST),
        (Progressing(State.LOST), "slurm 7\n", "its job ended without a result; it never began", "crash", LOST),
        (Progressing(State.LOST), "slurm 7\nn1\nn2\n", "its job ended without a result, on n1, n2", "crash", LOST),
        (Progressing(State.ENDED, 3, why=WHY), "", "job 7 was preempted", "preempted", "raise its priority"),
    ],
    ids=["status", "signal", "lost", "placed nowhere", "lost on nodes", "its queue knows"],
)
def test_a_child_without_a_result_is_described_by_how_it_ended(
    found: Progressing, placed: str, problem: str, kind: str, fix: str, tmp_path: Path
) -> None:
    attempt = an_attempt(tmp_path)
    if placed:
        attempt.placed.write_text(placed)
    result, _ = follow(attempt, Watch(lambda _: None), found)
    said = Result(done=False, seconds=0.0, problem=problem, problem_class=kind, fix=fix.format(tmp_path))
    assert result == dataclasses.replace(said, values={"log": ""})


def test_a_child_whose_folder_was_removed_is_reported_as_such(tmp_path: Path) -> None:
    attempt = an_attempt(tmp_path)
    result, _ = follow_words(attempt, Watch(lambda _: None), IS_OVER)
    assert result.problem == f"the folder of the attempt was removed while it ran: {attempt.folder}"
    assert (result.problem_class, result.fix) == ("input", "the command must not delete anything outside {run_dir}")
    assert attempt.output.is_dir()


def test_a_result_that_cannot_be_read_is_a_failure_that_says_so(tmp_path: Path) -> None:
    attempt = an_attempt(tmp_path)
    attempt.result.write_text("{")
    result, _ = follow(attempt, Watch(lambda _: None), IS_OVER)
    assert (result.done, result.problem_class, result.fix) == (False, "crash", "see the child's log")
    assert result.problem.startswith("the child's result cannot be read: ")


def test_a_job_that_waits_in_a_queue_has_done_nothing_and_says_what_it_waits_for(tmp_path: Path) -> None:
    attempt, readings = an_attempt(tmp_path), list[Progress]()
    Result(done=True, seconds=3.0).write(attempt.result)
    waiting = (Progressing(State.QUEUED, note=f"job 7, {why}") for why in ("Priority", "Resources"))
    queue = Queue(*waiting, Progressing(State.ENDED, 0))
    handle = Handle("slurm", attempt.folder, "n")
    result = follow_submission(cast(Any, queue), handle, attempt, Watch(readings.append, start=0.0))
    assert (result.done, result.seconds, queue.harvested) == (True, 3.0, True)
    assert [(r.stage, r.done, r.expected, r.idle, r.text) for r in readings] == [
        ("queued", 0, 0, 0.0, "job 7, Priority"),
        ("queued", 0, 0, 0.0, "job 7, Resources"),
    ]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        pytest.param("a\nb\n", "a\nb", id="all of a short log"),
        pytest.param("".join(f"{n}\n" for n in range(30)), "\n".join(map(str, range(10, 30))), id="twenty lines"),
        pytest.param("x" * 8192, "x" * 8192, id="as much as is read"),
        pytest.param("first" + "x" * 8192, "x" * 8192, id="the end of one long line"),
        pytest.param("\u20ac" * 2731, "\ufffd" * 2 + "\u20ac" * 2730, id="a letter cut in two"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_last_lines_are_few_and_short_whatever_a_child_prints(written: str, shown: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert read_last_lines(log) == ""
    log.write_text(written, encoding="utf-8")
    assert read_last_lines(log) == shown
