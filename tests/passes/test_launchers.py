"""A system behind a launcher: its nodes are looked at there, its runs are made there, and end with the pass."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.contract import LaunchRequest
from reconciler.diff.change import Reason
from reconciler.execute import plan_executor
from reconciler.execute.outcome import Outcome, Status
from reconciler.reconcile.run import PassReport
from reconciler.render.plan import render_plan_text
from reconciler.resource.records import Record
from reconciler.storage.files import Lock
from reconciler.storage.process import build_harness_command
from tests import processes
from tests.launchers import Cluster, installed
from tests.passes.doomed import start_doomed_pass
from tests.passes.repository import SPEC, Repository, make_repository
from tests.passes.server import started, with_service
from tests.passes.standin import with_command
from tests.passes.test_command_files import audited
from tests.passes.test_commands import SLEEPER, gone, wait_for
from tests.shared import need

need("mlperf_loadgen")
RUN = "Run:open/box/tiny/Offline/performance"
IMAGE = f"lab.example/mlperf@sha256:{'0' * 63}1"
SRUN, DOCKER, SSH = "[srun, -N, 2, -p, gpu]", f'[docker, run, --gpus, all, "{IMAGE}"]', "[ssh, n1]"

REPORT = "p = os.environ['NODES'].replace('nodes.json', 'pid'); open(p + '.new', 'w').write(str(os.getpid())); "
REPORT += "os.rename(p + '.new', p)"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with installed(tmp_path / "cluster") as found:
        monkeypatch.setenv("PATH", f"{found.bin}:{os.environ['PATH']}")
        yield found


def behind(repository: Repository, launcher: str, more: str = "") -> Repository:
    status = "      status: available\n"
    repository.edit(SPEC, status, f"{status}      launcher: {launcher}\n{more}")
    return repository


def record_of(repository: Repository, address: str = RUN) -> Record:
    return next(record for record in repository.records().values() if str(record.address) == address)


def blocked(report: PassReport) -> set[str]:
    return {step.blocked for step in report.after.plan.steps if step.blocked and "waits for" not in step.blocked}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("sflow") is None, reason="sflow is not installed: pip install nv-sflow")
def test_task_of_a_workflow_makes_each_step_of_the_machine(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "it's here")
    task = "workflow: {name: lab, tasks: [{name: run, script: ['eval \"${RECONCILE_COMMAND}\"']}]}"
    repository.write("flow.yaml", f'version: "0.1"\nvariables: {{RECONCILE_COMMAND: {{value: "true"}}}}\n{task}\n')
    out = tmp_path / "out"
    behind(repository, f'[sflow, run, -f, "{repository.root}/flow.yaml", --output-dir, "{out}"]')
    assert repository.reconcile().after.plan.in_sync
    assert record_of(repository).inputs["launcher"].value[:2] == ["sflow", "run"]
    assert len(list(out.glob("*/run/run.log"))) == 4, "what the machine is, whether it is idle, and two runs"
    assert repository.reconcile().outcomes == ()


def test_srun_holds_every_node_and_runs_once(tmp_path: Path, cluster: Cluster) -> None:
    repository = behind(make_repository(tmp_path / "it's here"), SRUN)
    own = make_repository(tmp_path / "own")
    own.reconcile()
    report = repository.reconcile()
    assert report.after.plan.in_sync
    assert Counter(str(r.address) for r in repository.records().values()) == Counter(
        str(r.address) for r in own.records().values()
    )
    record = record_of(repository)
    assert record.facts["machine.host"].value == "n0"
    assert [node["host"] for node in record.facts["machine.nodes"].value] == ["n0", "n1"]
    assert record.inputs["launcher"].value == ["srun", "-N", "2"]
    calls = cluster.calls("srun")
    assert all(call[:5] == ["--wait=0", "-N", "2", "-p", "gpu"] for call in calls)
    assert Counter(call[call.index("harness") + 1] for call in calls) == {"probe": 2, "run": 2}
    assert not repository.leftovers()
    seen = len(calls)
    assert repository.reconcile().outcomes == ()
    assert len(cluster.calls("srun")) == seen


@pytest.mark.parametrize(
    ("hardware", "said"),
    [
        ("{accelerator: NVIDIA H200, count: 2}", "the system declares 2 x NVIDIA H200; node n1 has 1 x NVIDIA H200"),
        ("{cpu: Abacus 3}", "the system declares the CPU 'Abacus 3'; node n0 has"),
    ],
    ids=["count", "cpu"],
)
def test_declared_hardware_is_found_on_nodes(tmp_path: Path, cluster: Cluster, hardware: str, said: str) -> None:
    gpu = {"name": "NVIDIA H200", "watts": 500}
    cluster.nodes(n0={"gpus": [gpu, gpu]}, n1={"gpus": [{**gpu, "watts": 700}]})
    repository = behind(make_repository(tmp_path / "lab"), SRUN, f"      hardware: {hardware}\n")
    report = repository.reconcile()
    assert {message for message in blocked(report) if said in message}
    assert repository.records() == {}
    assert any(said in step.blocked for step in repository.look().plan.steps)
    calls = len(cluster.calls("srun"))
    repository.edit(SPEC, hardware, "{count: 1, nodes: 2}")
    assert repository.reconcile().after.plan.in_sync
    assert len(cluster.calls("srun")) > calls + 1


def test_nodes_that_cannot_be_reached_block_and_say_why(tmp_path: Path, cluster: Cluster) -> None:
    repository = behind(make_repository(tmp_path / "lab"), "[srun, --gibberish]")
    (said,) = {message for message in blocked(repository.reconcile()) if not message.startswith("needed only")}
    assert "srun: unknown option --gibberish" in said
    assert repository.records() == {}


def test_docker_shows_folders_and_no_secret(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command of a user's, with its own scorer's image: everything travels, and none of it is identity."""
    env = "        env: {TOKEN: {from_env: MY_TOKEN}, WHERE: '{scenario}'}\n"
    repository = behind(with_command(tmp_path / "lab", more=env), DOCKER)
    head = 'import os\nassert (len(os.environ["TOKEN"]), os.environ["WHERE"]) == (11, "Offline")\n'
    text = (repository.root / "ours/run.py").read_text(encoding="utf-8")
    repository.write("ours/run.py", head + text)
    monkeypatch.setenv("MY_TOKEN", "sesame-4711")
    report = repository.reconcile()
    assert report.after.plan.in_sync, [outcome.message for outcome in report.outcomes]
    words = [call for call in cluster.calls("docker") if call[0] == "run"][-1]
    assert words[:4] == ["run", "--rm", "--interactive", "--name"]
    assert f"{repository.root}:{repository.root}" in words
    assert f"{os.getuid()}:{os.getgid()}" in words
    assert words[words.index(IMAGE) + 1] == "env"
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and b"sesame-4711" in p.read_bytes()]
    assert record_of(repository).inputs["launcher"].value == ["run", "--gpus", "all", IMAGE]
    assert cluster.containers() == []
    repository.edit(SPEC, "--gpus, all", '-v, "/data:/data", --gpus, all')
    assert not repository.look().plan.steps
    repository.edit(SPEC, f"{'0' * 63}1", f"{'0' * 63}2")
    made = {str(s.change.address) for s in repository.look().plan.steps if s.change.how == "make"}
    assert made == {RUN, RUN.replace("performance", "accuracy"), "Score:open/box/tiny/Offline"}


def test_ssh_reaches_odd_folders_and_is_only_a_place(tmp_path: Path, cluster: Cluster) -> None:
    repository = behind(make_repository(tmp_path / "it's $HOME"), SSH)
    assert repository.reconcile().after.plan.in_sync
    record = record_of(repository)
    assert record.facts["machine.host"].value == "n1"
    assert "launcher" not in record.inputs
    assert cluster.calls("ssh")[0][:4] == ["-T", "-o", "BatchMode=yes", "n1"]
    assert len(cluster.calls("ssh")[0]) == 5
    repository.edit(SPEC, SSH, "[ssh, n0]")
    assert not repository.look().plan.steps


def test_container_of_srun_sees_what_is_mounted(tmp_path: Path, cluster: Cluster) -> None:
    words = f'[srun, --container-image, "{IMAGE}", --container-mounts, "/data:/data"]'
    repository = behind(make_repository(tmp_path / "lab"), words)
    assert repository.reconcile().after.plan.in_sync
    (mounts,) = {w.partition("=")[2] for w in cluster.calls("srun")[-1] if w.startswith("--container-mounts")}
    assert mounts.split(",") == [f"{repository.root}:{repository.root}", "/data:/data"]
    assert record_of(repository).inputs["launcher"].value == ["srun", "--container-image", IMAGE]


def test_launcher_that_hands_on_no_input_is_one_too(tmp_path: Path, cluster: Cluster) -> None:
    script = tmp_path / "launch"
    script.write_text('#!/bin/sh\nexec "$@" < /dev/null\n', encoding="utf-8")
    script.chmod(0o755)
    repository = behind(make_repository(tmp_path / "lab"), f'["{script}"]')
    assert repository.reconcile().after.plan.in_sync
    assert record_of(repository).inputs["launcher"].value == ["launch"]


def test_what_fails_behind_a_launcher_is_reported_with_its_last_words(tmp_path: Path, cluster: Cluster) -> None:
    script = tmp_path / "launch"
    script.write_text(
        '#!/bin/sh\ncase "$*" in *"harness probe"*) exec "$@";; esac\necho node fell over >&2\nexit 9\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    report = behind(make_repository(tmp_path / "lab"), f'["{script}"]').reconcile()
    failed = next(outcome for outcome in report.outcomes if outcome.status is Status.FAILED)
    assert failed.message == f"the launcher {script} ended with status 9 without a result of its child: node fell over"


@contextmanager
def killed(repository: Repository, reported: Path, number: signal.Signals) -> Iterator[list[int]]:
    """A pass that is sent a signal at the end of this, with the processes of its command."""
    started = start_doomed_pass(repository)
    wait_for(reported, 60)
    yield [int(pid) for pid in reported.read_text(encoding="utf-8").split()]
    started.send_signal(number)
    started.wait(120)


@pytest.mark.parametrize(
    ("launcher", "number"),
    [
        pytest.param(SRUN, signal.SIGKILL, id="srun-killed"),
        pytest.param(SRUN, signal.SIGINT, id="srun-interrupted"),
        pytest.param(DOCKER, signal.SIGKILL, id="docker-killed"),
        pytest.param(DOCKER, signal.SIGINT, id="docker-interrupted", marks=pytest.mark.slow),
        pytest.param(SSH, signal.SIGKILL, id="ssh-killed"),
        pytest.param(SSH, signal.SIGINT, id="ssh-interrupted", marks=pytest.mark.slow),
    ],
)
def test_it_ends_with_the_pass(tmp_path: Path, cluster: Cluster, launcher: str, number: signal.Signals) -> None:
    """Also what a launcher's process no longer is above."""
    root = tmp_path / "lab"
    repository = behind(with_command(root), launcher)
    repository.write("ours/run.py", SLEEPER)
    with killed(repository, root / "ours/pids", number) as pids:
        pass
    assert gone(pids)
    assert not [r for r in repository.records().values() if str(r.address).startswith("Run")]
    give_up = time.monotonic() + 60
    while cluster.containers() and time.monotonic() < give_up:
        time.sleep(0.1)
    assert cluster.containers() == []


def test_no_audit_settings_stay_behind_a_pass_that_was_killed(tmp_path: Path, cluster: Cluster) -> None:
    """The process that placed them is the first process of a container, and all others there end with it."""
    root = tmp_path / "lab"
    repository = behind(audited(root), DOCKER)
    sleep = 'if os.path.exists("audit.config"):\n    open("../pids.partial", "w").write(str(os.getpid()))\n'
    sleep += '    os.rename("../pids.partial", "../pids")\n    time.sleep(600)\n'
    repository.edit("ours/run.py", "folder = Path(logs)\n", f"{sleep}folder = Path(logs)\n")
    with killed(repository, root / "pids", signal.SIGKILL) as pids:
        assert (root / "ours/audit.config").exists()
    assert gone(pids)
    with Lock(repository.paths.pass_lock, purpose="a test").acquire(wait=60):  # the keeper holds it to its end
        assert not (root / "ours/audit.config").exists()
    assert cluster.containers() == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_deaf_container_is_removed_by_name(tmp_path: Path, cluster: Cluster, number: signal.Signals) -> None:
    """It reads no input, and what is first in a container ignores the signals that docker hands on."""
    mute = f"import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {REPORT}; time.sleep(600)"
    request = LaunchRequest(
        command=("docker", "run", "--interactive", "--name", "mute", IMAGE, "python3", "-c", mute),
        answer=str(tmp_path / "answer.json"),
        counter=str(tmp_path / "counter"),
        counter_there=str(tmp_path / "counter-there"),
        cwd=str(tmp_path),
        ending=("docker", "rm", "--force", "mute"),
    )
    request.write(tmp_path / "request.json")
    command = build_harness_command("launch", tmp_path / "request.json", tmp_path / "result.json")
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE) as c:
        wait_for(cluster.folder / "pid", 30)
        pid = int((cluster.folder / "pid").read_text(encoding="ascii"))
        assert cluster.containers() == ["mute"]
        c.send_signal(number)
        c.wait(120)
    assert gone([pid])
    processes.wait_for(lambda: not cluster.containers())  # its process ends first
    assert ["rm", "--force", "mute"] in cluster.calls("docker")


def test_server_runs_where_its_runs_do(tmp_path: Path, cluster: Cluster) -> None:
    """Its launcher learns of the end by its input, which the server learns as the signal that puts it in order."""
    more = '          ready: {url: "{service_url}/health", timeout: 60 s}\n'
    repository = behind(with_service(tmp_path / "lab", more=more), "[srun, --overlap]")
    assert repository.reconcile().after.plan.in_sync
    ((server, worker, _),) = started(repository)
    assert gone([server, worker])
    assert (repository.root / "ended").read_text() == "in order\n"
    service = record_of(repository, "Service:open/box/tiny/Offline")
    assert service.inputs["launcher"].value == ["srun", "--overlap"]
    assert service.facts["machine.host"].value == "n0"
    calls = [call[call.index("harness") + 1] for call in cluster.calls("srun")]
    assert Counter(calls) == {"probe": 2, "serve": 1, "command": 2}


# -- runs that count together ----------------------------------------------------------------------------------------


def test_another_driver_names_the_run_to_repeat_and_another_host_does_not(tmp_path: Path, cluster: Cluster) -> None:
    gpu = {"name": "NVIDIA H200", "watts": 700}
    cluster.nodes(n0={"gpus": [gpu], "driver": "580.1"}, n1={"gpus": [gpu], "driver": "580.1"})
    repository = behind(with_command(tmp_path / "lab"), "[ssh, n0]", "      hardware: {accelerator: H200, count: 1}\n")
    assert repository.reconcile().after.plan.in_sync
    assert record_of(repository).facts["gpu.driver"].value == "580.1"

    repository.edit(SPEC, "[ssh, n0]", "[ssh, n1]")
    report = repository.reconcile(rerun=("mode=performance",))
    assert report.after.plan.in_sync
    (reported,) = report.after.plan.drifts
    assert (reported.address.label, reported.what) == ("Run accuracy", "machine.host (n0, of the performance run n1)")
    text = render_plan_text(repository.look().plan)
    assert "drift open/box/tiny/Offline: Run accuracy machine.host (n0, of the performance run n1)" in text

    cluster.nodes(n0={}, n1={"gpus": [gpu], "driver": "590.2"})
    repository.edit(SPEC, "target_qps: 100", "target_qps: 90")
    repository.reconcile(only=("Run performance",))
    due = {str(step.change.address): step.change for step in repository.look().plan.steps}
    accuracy = due[RUN.replace("performance", "accuracy")]
    assert accuracy.reason is Reason.EVIDENCE_DIFFERS
    assert accuracy.note == "gpu.driver, nodes.drivers differs from the performance run"
    assert RUN not in due
    assert repository.reconcile().after.plan.in_sync
    assert repository.look().plan.drifts == ()


def outcome_of_run(report: PassReport) -> Outcome:
    """Its failure shows what the pass left."""
    found = [outcome for outcome in report.outcomes if str(outcome.step.change.address) == RUN]
    assert found, report
    return found[0]


# -- a quiet machine ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("launcher", "where"), [("[ssh, n1]", "n1: "), ("", "")], ids=["ssh", "here"])
def test_load_blocks_a_timed_run_where_it_would_run(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, launcher: str, where: str
) -> None:
    """Every core is really busy; by processes that are no one's children here."""
    monkeypatch.setattr(plan_executor, "REHEARSAL", "nothing is one")
    repository = make_repository(tmp_path / "lab")
    if launcher:
        behind(repository, launcher)
    line = f"nice -n 19 '{sys.executable}' -c 'while True: pass' > /dev/null 2>&1 & echo $!"
    count = 2 * (os.cpu_count() or 1)
    said = [subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True) for _ in range(count)]
    try:
        report = repository.reconcile(wait_idle=0.0)
        outcome = outcome_of_run(report)
        assert outcome.status is Status.BLOCKED
        assert outcome.message.startswith(f"the machine is not idle: {where}others use ")
        allowed = outcome_of_run(repository.reconcile(busy=True))
        assert allowed.record is not None
        noted = str(allowed.record.facts["machine.shared_with"].value)
        assert noted.startswith(f"{where}others use ")
        assert re.search(r"most of it process [0-9]+ \([^,]+, .+\)$", noted)  # a test's, or a busier stranger's
    finally:
        for done in said:
            os.kill(int(done.stdout), signal.SIGKILL)


def test_stranger_on_a_gpu_blocks_with_user(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_executor, "REHEARSAL", "nothing is one")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True) as stranger:
        gpu = {"name": "NVIDIA H200", "watts": 700}
        cluster.nodes(n0={"gpus": [gpu]}, n1={"gpus": [gpu, {**gpu, "pids": [stranger.pid]}]})
        hardware = "      hardware: {accelerator: NVIDIA H200, count: 1}\n"
        repository = behind(make_repository(tmp_path / "lab"), SRUN, hardware)
        try:
            spared = outcome_of_run(repository.reconcile(wait_idle=0.0))
            assert "GPU" not in spared.message  # the run takes the first of two
            cluster.nodes(n0={"gpus": [gpu]}, n1={"gpus": [{**gpu, "pids": [stranger.pid]}]})
            report = repository.reconcile(rerun=("mode=performance",), wait_idle=0.0)
        finally:
            stranger.kill()
    outcome = outcome_of_run(report)
    assert outcome.status is Status.BLOCKED
    assert f"the machine is not idle: n1: GPU 0 is used by process {stranger.pid} (" in outcome.message
