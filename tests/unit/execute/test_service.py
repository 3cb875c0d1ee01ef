"""What the keeper of a server is asked for, and what is made of how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from harness.contract import LOG_PARTS, Counter, Progress, Ready, Result, ServiceRequest
from reconciler.diff.change import Work
from reconciler.execute import service
from reconciler.execute.attempt import Attempt, Intent, ServerAccess, create
from reconciler.execute.executors.executor import Handle, Progressing, State, Submission
from reconciler.execute.perform import Finished
from reconciler.execute.service import ENDED, RunningServer, Services, make_service_request
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Ended
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import Lock, RepositoryPaths
from tests.unit.diff.simulated import Wish, World, desire
from tests.unit.execute.contexts import make_context

SERVER = {"harness.service.command": ["serve", "--port={port}"]}


def begin(root: Path, settings: dict[str, Any], *inputs: str) -> Attempt:
    address = Address(Kind.SERVICE, "open/box/net/Offline")
    intent = Intent(
        "1", address, "k" * 64, 1, "2026", {}, CellSettings({**SERVER, **settings}), server=ServerAccess(8123)
    )
    attempt = create(RepositoryPaths(root).attempts, intent)
    for name in inputs:
        (attempt.inputs / name).mkdir(parents=True)
    return attempt


def ask(attempt: Attempt, root: Path) -> ServiceRequest:
    return make_service_request(attempt, RepositoryPaths(root))


def test_a_server_that_declares_its_command_alone_is_ready_once_its_port_is(tmp_path: Path) -> None:
    attempt = begin(tmp_path, {})
    assert ask(attempt, tmp_path) == ServiceRequest(
        command=("serve", "--port=8123"),
        cwd=str(attempt.run_dir),
        counter=str(attempt.counter),
        ready=str(attempt.result),
        probe=Ready(tcp="127.0.0.1:8123", timeout=1800.0, patience=120.0),
        log=str(attempt.server_log),
        stop_signal="SIGTERM",
        stop_grace=30.0,
    )
    assert attempt.run_dir.is_dir()


def test_a_server_is_given_all_that_is_declared_of_it(tmp_path: Path) -> None:
    settings = {
        "harness.image": "client",
        "harness.code": "client",
        "harness.env.CLIENT": "1",
        "harness.service.command": ["serve", "{model}", "{image}", "{run_dir}"],
        "harness.service.image": "server",
        "harness.service.code": "server",
        "harness.service.env.PORT": "{port}",
        "harness.service.env.TOKEN": ["env", "SECRET"],
        "harness.service.stop.signal": "SIGINT",
        "harness.service.stop.timeout": 5000,
        "run.options.api_key_env": "KEY",
        "hardware.mig": "1x 2g.20gb, 1x 1g.10gb",
    }
    (tmp_path / "server").mkdir()
    attempt = begin(tmp_path, settings, "model")
    found = ask(attempt, tmp_path)
    assert found.command == ("serve", str(attempt.inputs / "model"), "server", str(attempt.run_dir))
    assert (found.env, found.secrets, found.hides) == ({"PORT": "8123"}, {"TOKEN": "SECRET"}, ("KEY",))
    assert (found.stop_signal, found.stop_grace) == ("SIGINT", 5.0)
    assert found.code == found.cwd == str((tmp_path / "server").resolve())
    assert found.slices == ("2g.20gb", "1g.10gb")


@pytest.mark.parametrize(
    ("declared", "probe"),
    [
        ({"url": "{service_url}/health"}, Ready(url="http://127.0.0.1:8123/health", timeout=1800.0, patience=120.0)),
        ({"tcp": "far:{port}"}, Ready(tcp="far:8123", timeout=1800.0, patience=120.0)),
        ({"log": "ready on {port}"}, Ready(line="ready on 8123", timeout=1800.0)),  # it says so once
        (
            {"url": "{service_url}", "timeout": 20_000, "unanswered": 3000},
            Ready(url="http://127.0.0.1:8123", timeout=20.0, patience=3.0),
        ),
        ({"log": "ready", "unanswered": 3000}, Ready(line="ready", timeout=1800.0)),
    ],
    ids=["url", "tcp", "line", "times", "line without patience"],
)
def test_a_server_is_ready_by_what_it_declares(declared: dict[str, Any], probe: Ready, tmp_path: Path) -> None:
    settings = {f"harness.service.ready.{name}": value for name, value in declared.items()}
    assert ask(begin(tmp_path, settings), tmp_path).probe == probe


class Keeper:
    """The executor of a server's keeper, which is as the test says."""

    name = "local"

    def __init__(self, found: Progressing) -> None:
        self.found = found
        self.ended: list[tuple[str, float]] = []

    def poll(self, handle: Handle, wait: float = 0.0) -> Progressing:
        return self.found

    def cancel(self, handle: Handle, grace: float = 2.0) -> None:
        self.ended.append(("cancelled", grace))

    def harvest(self, handle: Handle) -> None:
        self.ended.append(("harvested", 0.0))


def run(root: Path, found: Progressing) -> tuple[RunningServer, Keeper]:
    attempt, keeper = begin(root, {"harness.service.stop.timeout": 5000}), Keeper(found)
    request = ask(attempt, root)
    Path(request.log).mkdir(parents=True, exist_ok=True)
    (Path(request.log) / LOG_PARTS[0]).write_text("loading\nout of memory\n")
    handle = Handle("local", attempt.folder, "n")
    return RunningServer("key", attempt, request, cast(Any, keeper), handle, ServerAccess(8123)), keeper


def test_a_keeper_that_said_why_it_ended_is_believed(tmp_path: Path) -> None:
    server, _ = run(tmp_path, Progressing(State.ENDED, 1))
    said = Result(done=False, seconds=9.0, problem="the port is taken", problem_class="config", fix="use another")
    said.write(server.attempt.folder / ENDED)
    lost = server.find_exit()
    assert lost is not None
    assert (lost.problem, lost.problem_class, lost.fix, lost.seconds) == (
        "the port is taken",
        "config",
        "use another",
        0.0,
    )
    Result(done=True, seconds=9.0).write(server.attempt.folder / ENDED)  # it ended well, and still it is lost
    assert server.find_exit() != lost
    (server.attempt.folder / ENDED).write_text("{")
    assert server.find_exit() is not None


def test_a_pass_asks_the_server_of_a_key_while_it_is_well(tmp_path: Path) -> None:
    server, keeper = run(tmp_path, Progressing(State.RUNNING))
    services = Services(server)
    assert server.find_exit() is None
    assert services.find_running("key") is server
    assert services.find_running("other") is None
    keeper.found = Progressing(State.ENDED, 1)
    assert services.find_running("key") is None
    with services:
        pass
    assert keeper.ended == [("cancelled", 35.0), ("harvested", 0.0)]  # its own time to stop, and that of its keeper
    assert not server.attempt.folder.exists()
    assert services.server is None
    services.stop()
    assert len(keeper.ended) == 2


class Starter:
    """The executor of a keeper: at each look it does what the test says, and reports how the keeper is."""

    name = "local"

    def __init__(self, *looks: Callable[[Attempt], Progressing]) -> None:
        self.looks, self.submitted = list(looks), list[Submission]()
        self.ended: list[str] = []

    def choose(self, *_: object) -> Starter:
        return self

    def submit(self, submission: Submission) -> Handle:
        self.submitted.append(submission)
        return Handle("local", submission.attempt.folder, "n")

    def poll(self, handle: Handle, wait: float = 0.0) -> Progressing:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return look(self.submitted[-1].attempt)

    def cancel(self, handle: Handle, grace: float = 2.0) -> None:
        self.ended.append(f"cancelled {grace}")

    def harvest(self, handle: Handle) -> None:
        self.ended.append("harvested")


def runs(_: Attempt) -> Progressing:
    return Progressing(State.RUNNING)


def counts(attempt: Attempt) -> Progressing:
    counter = Counter(attempt.counter)
    counter.stage("starting service", 3)
    counter.close()
    attempt.last_line.write_text("loading weights")
    return Progressing(State.RUNNING)


def is_ready(attempt: Attempt) -> Progressing:
    Result(done=True, seconds=2.0, values={"seconds_to_ready": 2}).write(attempt.result)
    return Progressing(State.RUNNING)


def ends(attempt: Attempt) -> Progressing:
    attempt.server_log.mkdir(exist_ok=True)
    (attempt.server_log / LOG_PARTS[0]).write_text("out of memory\n")
    return Progressing(State.ENDED, 3)


def ends_ready(attempt: Attempt) -> Progressing:
    is_ready(attempt)
    return ends(attempt)


class Pass:
    """One that starts a server."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, *looks: Callable[[Attempt], Progressing]) -> None:
        desired = desire([Wish(service="serve")])
        self.step = next(step for step in World().plan(desired).steps if step.change.how is Work.START)
        settings = CellSettings({**SERVER, "harness.service.stop.timeout": 5000})
        self.detail = replace(desired.detail(self.step.change.address), settings=settings)
        self.starter, self.services = Starter(*looks), Services()
        self.moved: list[Progress] = []
        self.retained: list[Lock] = []
        self.checks: list[bool] = []
        context = make_context(root, lambda _, begun: self.checks.append(begun))
        self.context = replace(context, executors=cast(Any, self.starter), keep_open=(7,))
        monkeypatch.setattr(service, "make_machine_lock", lambda name: Lock(root / name, purpose="a server"))

    def start(self) -> Finished:
        def hold(lock: Lock) -> None:
            lock.acquire()
            self.retained.append(lock)

        return self.services.start(self.step, self.detail, {}, self.context, self.moved.append, hold)


def test_a_server_is_started_once_the_machine_is_locked_and_reported_until_it_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_pass = Pass(tmp_path, monkeypatch, runs, counts, is_ready)
    finished = a_pass.start()
    (submission,), (lock,) = a_pass.starter.submitted, a_pass.retained
    attempt, request = submission.attempt, cast(ServiceRequest, submission.request)
    assert (submission.result, submission.sweeps) == (attempt.folder / ENDED, False)
    assert submission.keep_open == (7, lock.descriptor)
    assert lock.path.name == "service"
    access = attempt.intent.server
    assert access is not None
    assert request.command == ("serve", f"--port={access.port}")
    assert (finished.attempt, finished.lives) == (attempt, True)
    assert finished.seconds < time.monotonic()  # it is no moment
    assert (finished.record.ended, finished.record.values) == (Ended.DONE, {"seconds_to_ready": 2})
    assert [(each.stage, each.text) for each in a_pass.moved] == [("starting service", "loading weights")] * 2
    assert a_pass.checks == [True] * 3
    server = a_pass.services.server
    assert server is not None
    assert (server.key, server.access) == (a_pass.step.change.key, ServerAccess(access.port, request.log))
    a_pass.services.stop()
    assert a_pass.starter.ended == ["cancelled 35.0", "harvested"]
    assert a_pass.services.lock is None
    assert not attempt.folder.exists()


@pytest.mark.parametrize("end", [ends, ends_ready], ids=["before", "just then"])
def test_a_server_that_ends_before_it_is_ready_has_failed_with_what_it_printed(
    end: Callable[[Attempt], Progressing], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_pass = Pass(tmp_path, monkeypatch, runs, end)
    finished = a_pass.start()
    assert (finished.lives, finished.record.ended) == (False, Ended.FAILED)
    assert finished.record.problem == "the service's keeper ended with status 3"
    assert finished.record.values == {"log": "out of memory"}
    assert [(kept.name, kept.path.read_text()) for kept in finished.kept] == [("service.log", "out of memory\n")]


def test_a_server_that_is_unwanted_ends_without_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Attempt) -> Progressing:
        raise KeyboardInterrupt

    a_pass = Pass(tmp_path, monkeypatch, runs, interrupt)
    with pytest.raises(KeyboardInterrupt):
        a_pass.start()
    assert a_pass.starter.ended == ["cancelled 35.0", "harvested"]
    assert not a_pass.starter.submitted[0].attempt.folder.exists()
    assert (a_pass.services.server, a_pass.services.lock) == (None, None)


def test_a_server_ends_before_the_next_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_pass = Pass(tmp_path, monkeypatch, is_ready)
    first, second = a_pass.start(), a_pass.start()
    assert a_pass.starter.ended == ["cancelled 35.0", "harvested"]
    assert not first.attempt.folder.exists()
    assert second.lives
