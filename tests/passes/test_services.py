"""Services: a server with weights is started once for the runs that ask it, and never outlives their pass."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.errors import LockedError
from reconciler.execute.outcome import Event, Outcome, Status, StepStarted
from reconciler.reconcile.planning import Options
from reconciler.reconcile.run import run_pass
from reconciler.resource.kinds import Kind
from reconciler.resource.records import Ended, Record
from reconciler.storage.machine_locks import make_machine_lock
from tests.passes.doomed import start_doomed_pass
from tests.passes.repository import Repository
from tests.passes.server import started, with_service
from tests.passes.test_commands import RESULT, RUN, RUNS, SCORE, alive, due, gone, wait_for
from tests.shared import make_once, need

need("mlperf_loadgen")
SERVICE = "Service:open/box/tiny/Offline"
HEALTH = '          ready: {url: "{service_url}/health", timeout: 60 s}\n'


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return make_once(tmp_path_factory, "served", _serve)


def _serve(folder: Path) -> Repository:
    repository = with_service(folder / "repository", more=HEALTH)
    repository.reconcile()
    return repository


def records_at(repository: Repository, address: str) -> list[Record]:
    return [r for r in repository.records().values() if str(r.address) == address]


def unhappy(repository: Repository) -> dict[str, Outcome]:
    outcomes = repository.reconcile().outcomes
    return {str(o.step.change.address): o for o in outcomes if o.status is not Status.DONE}


def test_runs_of_a_cell_share_one_start(made: Repository) -> None:
    assert all(record.ended is Ended.DONE for record in made.records().values())
    ((server, worker, _),) = started(made)
    assert gone([server, worker])
    assert (made.root / "ended").read_text() == "in order\n"
    (record,) = records_at(made, SERVICE)
    identity = next(i for i, r in made.records().items() if r == record)
    for address in RUNS:
        (run,) = records_at(made, address)
        assert run.upstream["service"] == identity
        (log,) = [a for a in run.artifacts if a.name == "service.log"]
        assert made.object_path(log.sha256).read_text() == "loading weights\nready to serve\n"
    assert not made.damage()


def test_a_second_pass_starts_nothing(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    repository.reconcile()
    assert not due(repository)
    assert not repository.reconcile().outcomes
    assert len(started(repository)) == 1


def test_one_line_of_the_servers_code_makes_exactly_its_runs_stale(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    repository.reconcile()
    repository.edit("server/server.py", "loading weights", "loading other weights")
    assert due(repository) == {SERVICE, *RUNS, SCORE, RESULT}
    steps = {str(step.change.address): step for step in repository.look().plan.steps}
    assert [change.name for change in steps[SERVICE].explained] == ["harness.service.code.sha256"]
    assert str(steps[SERVICE].change.how) == "start"
    repository.reconcile()
    assert len(started(repository)) == 2
    assert not due(repository)


def test_what_says_how_it_is_watched_and_stopped_is_no_identity(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    repository.edit("specs/spec.yaml", "timeout: 60 s}\n", "timeout: 25 s}\n          stop: {timeout: 3 s}\n")
    assert not due(repository)


def test_without_its_code_the_records_stand(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    repository.reconcile()
    (repository.root / "server").rename(tmp_path / "elsewhere")
    assert not due(repository)
    blocked = {str(s.change.address): s.blocked for s in repository.look(rerun=("tiny",)).plan.steps}
    assert blocked[SERVICE] == "server is not on this machine"
    assert blocked[RUN] == "waits for Service (server is not on this machine)"
    assert len(started(repository)) == 1


@pytest.mark.usefixtures("cold_children")  # the client finds the keeper by its command line
def test_a_keeper_that_is_killed_takes_it_along_and_fails_the_run(tmp_path: Path) -> None:
    repository = with_service(tmp_path, env="        env: {WAITS: accuracy}\n")
    kill = "open('../waiting', 'w').close()\n    import psutil, signal\n"
    kill += "    running = psutil.Process(os.getppid()).parent().parent().children()\n"
    kill += "    serving = [process for process in running if 'serve' in process.cmdline()]\n"
    kill += "    assert len(serving) == 1\n    serving[0].kill()\n"
    repository.edit("client/client.py", 'open("../waiting", "w").close()\n', kill)
    outcome = unhappy(repository)[RUN.replace("performance", "accuracy")]
    assert outcome.message == "the service's keeper ended with signal 9"
    assert "ready to serve" in outcome.log
    assert gone([pid for server, worker, _ in started(repository) for pid in (server, worker)])


def test_a_repeated_run_starts_it_again(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    repository.reconcile(rerun=("kind=Run", "mode=performance"))
    assert len(started(repository)) == 2
    assert len(records_at(repository, SERVICE)) == 2
    assert len(records_at(repository, RUN)) == 2


def test_cells_with_the_same_service_share_it_and_others_do_not(tmp_path: Path) -> None:
    repository = with_service(tmp_path)
    single = "          SingleStream: {target_latency: 10 ms, min_query_count: 100}\n"
    repository.edit("specs/spec.yaml", "          Offline: {", f"{single}          Offline: {{")
    assert not unhappy(repository)
    assert len(started(repository)) == 1
    (record,) = [r for r in repository.records().values() if str(r.address).startswith("Service:")]
    assert len(record.shared) == 1
    repository.edit("specs/spec.yaml", '"{port}", ../starts]', '"{port}", ../starts, "{scenario}"]')
    assert not unhappy(repository)
    lines = started(repository)
    assert len(lines) == 3  # a server of each scenario, one after the other
    assert len({port for _, _, port in lines}) == 3


MISCHIEF = {
    "dies": ("the service died with status 7", "out of imagined memory", RUN.replace("performance", "accuracy")),
    "goes silent": ("the service stopped answering for 1 s", "ready to serve", RUN.replace("performance", "accuracy")),
    "never ready": ("the service was not ready within 4 s", "loading weights", SERVICE),
    "ends at once": ("the service exited before it was ready with status 1", "there is no such device", SERVICE),
}


@pytest.mark.parametrize("mischief", MISCHIEF)
def test_what_goes_wrong_with_it_fails_the_run_with_its_last_lines(tmp_path: Path, mischief: str) -> None:
    problem, line, at = MISCHIEF[mischief]
    soon = {"never ready": "timeout: 4 s", "goes silent": "timeout: 60 s, unanswered: 1 s"}
    ready = f'          ready: {{url: "{{service_url}}/health", {soon.get(mischief, "timeout: 60 s")}}}\n'
    repository = with_service(
        tmp_path, more=f'{ready}          env: {{MISCHIEF: "{mischief}"}}\n', env="        env: {LINGERS: 60}\n"
    )
    if mischief == "goes silent":
        client = (tmp_path / "client/client.py").read_text()
        repository.write("client/client.py", client.replace("    held.append", "    time.sleep(60)\n    held.append"))
    outcome = unhappy(repository)[at]
    assert outcome.message.startswith(problem)
    assert line in outcome.log
    assert outcome.fix
    assert gone([pid for server, worker, _ in started(repository) for pid in (server, worker)])
    (failed, *_) = [r for r in records_at(repository, at) if r.ended is Ended.FAILED]
    (log,) = [a for a in failed.artifacts if a.name == "service.log"]
    assert line in repository.object_path(log.sha256).read_text()
    assert not repository.damage()
    assert {SERVICE, *RUNS} <= due(repository)


def test_a_stranger_is_not_taken_for_it(tmp_path: Path) -> None:
    stranger = subprocess.Popen(
        [sys.executable, "-c", "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.BaseHTTPRequestHandler);"
         "print(s.server_port, flush=True); s.serve_forever()"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert stranger.stdout is not None
        place = f"127.0.0.1:{stranger.stdout.readline().strip()}"
        repository = with_service(tmp_path, more=f'          ready: {{tcp: "{place}"}}\n')
        assert unhappy(repository)[SERVICE].message == f"another server already answers at {place}"
        assert not started(repository)
    finally:
        stranger.kill()
        stranger.communicate()


def test_a_run_that_is_tried_again_finds_it_running(tmp_path: Path) -> None:
    repository = with_service(tmp_path)
    tight = "{target_qps: 100, target_latency: 1 ms, min_query_count: 30, attempts: 3}"
    repository.edit("specs/spec.yaml", "{target_qps: 100, min_query_count: 100}", tight)
    repository.edit("specs/spec.yaml", "          Offline:", "          Server:")
    repository.edit(
        "server/server.py", "            asked += 1\n", "            asked += 1\n            time.sleep(0.02)\n"
    )
    repository.reconcile()
    runs = records_at(repository, RUN.replace("Offline", "Server"))
    assert [run.values["validity"] for run in runs] == ["INVALID"] * 3
    assert len(started(repository)) == 1


def test_a_compliance_test_asks_the_same_server(tmp_path: Path) -> None:
    repository = with_service(tmp_path)
    repository.edit("specs/spec.yaml", "min_query_count: 100}", "min_query_count: 100, compliance: [TEST01]}")
    repository.reconcile()
    (test,) = records_at(repository, "ComplianceTest:open/box/tiny/Offline/TEST01")
    (service,) = (i for i, r in repository.records().items() if str(r.address) == SERVICE)
    assert test.upstream["service"] == service
    assert len(started(repository)) == 1


@pytest.mark.parametrize(("received", "left"), [("SIGINT", ["in order"]), ("SIGHUP", [])])
def test_it_is_asked_by_its_signal_then_killed(tmp_path: Path, received: str, left: list[str]) -> None:
    """Python ignores an interrupt that its parent ignores: a server must not inherit that of ours."""
    repository = with_service(tmp_path, more="          stop: {signal: SIGINT, timeout: 1 s}\n")
    deaf = "" if received == "SIGINT" else "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    repository.edit(
        "server/server.py", "signal.signal(signal.SIGTERM, end)", f"{deaf}signal.signal(signal.{received}, end)"
    )
    assert not unhappy(repository)
    ended = tmp_path / "ended"
    assert (ended.read_text().splitlines() if ended.exists() else []) == left
    assert gone([pid for server, worker, _ in started(repository) for pid in (server, worker)])


def test_another_run_does_not_start_while_it_is_up(tmp_path: Path) -> None:
    """What does not ask the server would share the machine with it."""
    repository = with_service(tmp_path)
    spec = (tmp_path / "specs/spec.yaml").read_text()
    first = spec[spec.index("    tiny:") : spec.index("      model:")]
    other = '    plain:\n      as: resnet\n      code: benchmarks/tiny.py\n      engine: {backend: "null"}\n'
    other += "      min_duration: 0\n      performance_sample_count: 16\n"
    cell = "        plain:\n          Offline: {target_qps: 100, min_query_count: 100}\n"
    repository.write("specs/spec.yaml", spec.replace(first, other + first) + cell)
    reported: list[str] = []
    report = run_pass(repository.paths, Options(), report=lambda event: reported.extend(seen(repository, event)))
    assert all(outcome.status is Status.DONE for outcome in report.outcomes)
    assert "tiny: up" in reported
    assert "plain: down" in reported
    assert not {"tiny: down", "plain: up"}.intersection(reported)


def seen(repository: Repository, event: Event) -> Iterator[str]:
    """Of each run that begins, whether a server is up."""
    if isinstance(event, StepStarted) and event.step.change.address.kind is Kind.RUN:
        up = any(alive(server) for server, _, _ in started(repository))
        try:
            with make_machine_lock("service").acquire():
                assert not up, "another repository's pass could start a second server"
        except LockedError:
            assert up
        yield f"{event.step.change.address.cell.benchmark}: {'up' if up else 'down'}"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("during", "number"),
    [
        pytest.param("starts", signal.SIGINT, id="interrupted while it starts"),
        pytest.param("starts", signal.SIGKILL, id="killed while it starts", marks=pytest.mark.slow),
        pytest.param("waiting", signal.SIGINT, id="interrupted while a run waits", marks=pytest.mark.slow),
        pytest.param("waiting", signal.SIGKILL, id="killed while a run waits"),
    ],
)
def test_it_ends_with_the_pass(tmp_path: Path, number: signal.Signals, during: str) -> None:
    repository = with_service(tmp_path, env="        env: {WAITS: performance}\n")
    process = start_doomed_pass(repository)
    wait_for(tmp_path / during)
    while not started(repository):  # written a moment after it is there
        time.sleep(0.02)
    process.send_signal(number)
    process.wait(120)
    ((server, worker, _),) = started(repository)
    assert gone([server, worker])
    repository.edit("specs/spec.yaml", "        env: {WAITS: performance}\n", "")
    assert not unhappy(repository)  # nothing of the killed pass is in its way
    assert len(started(repository)) == 2
    assert not repository.damage()
