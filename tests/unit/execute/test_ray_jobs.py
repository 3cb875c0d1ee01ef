"""Jobs of Ray without a Ray: what is submitted, and what is made of its answers. tests/cluster has a real one."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.contract import ProbeRequest, Result, RunRequest
from reconciler.errors import ReconcilerError
from reconciler.execute.attempt import Attempt, Intent, create, read_placement
from reconciler.execute.executors.executor import Handle, State, Submission
from reconciler.execute.executors.queue_executor import QueueExecutor, QueueSilentError
from reconciler.execute.executors.ray import dashboard as ray_dashboard
from reconciler.execute.executors.ray.queue import RayQueue, choose_resources, make_job_script
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths

NAME = "reconcile-2026-1"


@dataclass
class Dashboard:
    """Jobs as Ray lists them; ``down``: it answers no one; ``refuses``: what it says to each submission."""

    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    down: bool = False
    refuses: str = ""
    address: str = ""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        name = path.removeprefix("/api/jobs/").partition("/")[0]
        if self.down:
            return 503, "no agent"
        if method == "GET":
            return 200, list(self.jobs.values())
        self.said.append(f"{method} {path}")
        if method == "DELETE":
            ended = self.jobs[name]["status"] not in ("PENDING", "RUNNING")
            return (200, self.jobs.pop(name)) if ended else (500, "it has not ended")
        if path.endswith("/stop"):
            return 200, {"stopped": True}
        job = json.loads(body)
        if self.refuses:
            return 400, f"Traceback\n{self.refuses}"
        if job["submission_id"] in self.jobs:
            return 400, f"Job with submission_id {job['submission_id']} already exists."
        self.jobs[job["submission_id"]] = {**job, "status": "PENDING"}
        return 200, {"submission_id": job["submission_id"]}


@pytest.fixture
def dashboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dashboard]:
    found = Dashboard()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found.headers = dict(self.headers)
            status, answer = found.answer(self.command, self.path, body)
            data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = handle_any  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        found.address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("RAY_API_SERVER_ADDRESS", found.address)
        yield found
        server.shutdown()
        thread.join()


def begin(folder: Path) -> Attempt:
    settings = CellSettings({"executor.ray": True, "system.name": "box"})
    return create(folder, Intent("2026-1", Address(Kind.MODEL, "net"), "k" * 64, 1, "2026", {}, settings))


def make_executor(root: Path) -> QueueExecutor:
    return QueueExecutor("ray", RepositoryPaths(root), RayQueue())


def submit(root: Path) -> tuple[QueueExecutor, Handle, Attempt]:
    attempt, executor = begin(root / "attempts"), make_executor(root)
    return executor, executor.submit(Submission(attempt, ProbeRequest(), attempt.result)), attempt


def test_address_of_the_dashboard_is_the_one_that_rays_own_client_would_ask() -> None:
    local, other = "http://127.0.0.1:8265", {"RAY_ADDRESS": "https://head:1/"}
    asked = {"RAY_API_SERVER_ADDRESS": "http://head:2", **other}
    assert ray_dashboard.find_address("", {}) == local
    assert ray_dashboard.find_address("", {"RAY_ADDRESS": "auto"}) == local
    assert ray_dashboard.find_address("", other) == "https://head:1"
    assert ray_dashboard.find_address("", asked) == "http://head:2"
    assert ray_dashboard.find_address("http://head:3", asked) == "http://head:3"


def test_another_process_finds_a_job_by_the_name_it_was_given(tmp_path: Path, dashboard: Dashboard) -> None:
    executor, handle, _ = submit(tmp_path)
    assert dashboard.jobs[NAME]["entrypoint_resources"] == {"box": 1}
    assert dashboard.jobs[NAME]["entrypoint"] == f"exec sh {shlex.quote(str(handle.folder / 'ray.sh'))}"
    assert executor.poll(handle).state is State.QUEUED
    dashboard.jobs[NAME]["status"] = "RUNNING"
    (handle.folder / "placed").write_text(f"ray {NAME}\nnode7\n")
    found = make_executor(tmp_path).poll(handle)
    assert (found.state, found.note) == (State.RUNNING, f"job {NAME} on node7")


@pytest.mark.parametrize(
    ("status", "error", "message", "placed", "kind"),
    [
        ("STOPPED", "", "Job was intentionally stopped.", True, "cancelled"),
        ("FAILED", "JOB_SUPERVISOR_ACTOR_DIED", "The actor died because its node has died.", True, "node-failure"),
        ("FAILED", "JOB_SUPERVISOR_ACTOR_DIED", "ray.exceptions.OutOfMemoryError", True, "resources"),
        ("FAILED", "JOB_SUPERVISOR_ACTOR_START_FAILURE", "failed to get job supervisor", True, "node-failure"),
        ("FAILED", "JOB_SUPERVISOR_ACTOR_START_FAILURE", "bad resources", False, "input"),
        ("FAILED", "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE", "fits no node", False, "input"),
        ("FAILED", "RUNTIME_ENV_SETUP_FAILURE", "the agent is gone", False, "missing"),
        ("FAILED", "JOB_SUPERVISOR_ACTOR_START_TIMEOUT", "within 900 seconds", False, "requeued"),
        ("FAILED", "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE", "who knows", True, "lost"),
    ],
)
def test_ends_of_a_job_that_left_no_result(
    tmp_path: Path, dashboard: Dashboard, status: str, error: str, message: str, placed: bool, kind: str
) -> None:
    job = {"submission_id": NAME, "status": status, "error_type": error, "message": message}
    dashboard.jobs[NAME] = {**job, "driver_node_id": "f00" if placed else None}
    found = make_executor(tmp_path).poll(Handle("ray", tmp_path, NAME))
    assert found.state is State.ENDED
    assert found.why is not None
    assert found.why.problem_class == kind
    assert (message in found.why.problem) == (status == "FAILED")


def test_job_that_found_no_place_in_time_is_submitted_again(tmp_path: Path, dashboard: Dashboard) -> None:
    executor, handle, _ = submit(tmp_path)
    given_up = {"status": "FAILED", "error_type": "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"}
    dashboard.jobs[NAME] |= given_up
    assert executor.poll(handle).state is State.QUEUED
    assert dashboard.jobs[NAME]["status"] == "PENDING"
    assert executor.poll(handle).state is State.QUEUED
    assert dashboard.said == ["POST /api/jobs/", "POST /api/jobs/", f"DELETE /api/jobs/{NAME}", "POST /api/jobs/"]


def test_silent_dashboard_loses_nothing(tmp_path: Path, dashboard: Dashboard) -> None:
    dashboard.down = True
    executor, handle, attempt = submit(tmp_path)
    assert executor.poll(handle).state is State.QUEUED
    dashboard.down = False
    assert executor.poll(handle, 3.0).goes_on
    assert NAME in dashboard.jobs
    dashboard.down = True
    assert "does not answer" in make_executor(tmp_path).poll(handle).note
    assert not attempt.result.exists()


@pytest.mark.parametrize(("seconds", "given_up"), [(30.0, False), (30.1, True)], ids=["in time", "too late"])
def test_an_answer_that_does_not_end_in_half_a_minute_is_none(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch, seconds: float, given_up: bool
) -> None:
    """Each of its pieces may have come in time."""
    dashboard.jobs[NAME] = {"submission_id": NAME, "status": "RUNNING"}
    clock = iter((5.0, 5.0 + seconds))
    monkeypatch.setattr(ray_dashboard, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    try:
        found: object = ray_dashboard.list_jobs(dashboard.address)
    except QueueSilentError as error:
        found = str(error)
    assert found == (f"{dashboard.address}: its answer has no end" if given_up else [dashboard.jobs[NAME]])


def test_submission_whose_answer_was_lost_is_made_once(tmp_path: Path, dashboard: Dashboard) -> None:
    dashboard.jobs[NAME] = {"submission_id": NAME, "status": "RUNNING"}
    executor, handle, attempt = submit(tmp_path)
    assert executor.poll(handle).state is State.RUNNING
    assert not attempt.result.exists()


def test_refused_job_has_failed_with_the_words_of_ray(tmp_path: Path, dashboard: Dashboard) -> None:
    dashboard.refuses = "ValueError: Invalid label selector"
    executor, handle, attempt = submit(tmp_path)
    assert executor.poll(handle).state is State.ENDED
    result = Result.read(attempt.result)
    assert (result.done, result.problem_class) == (False, "input")
    assert "Invalid label selector" in result.problem


def test_cancelled_job_is_stopped_and_never_begins(tmp_path: Path, dashboard: Dashboard) -> None:
    executor, handle, attempt = submit(tmp_path)
    script = make_job_script(Submission(attempt, ProbeRequest(), attempt.result), NAME)
    executor.cancel(handle)
    assert dashboard.said[-1] == f"POST /api/jobs/{NAME}/stop"
    ended = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, check=False)
    assert ended.returncode != 0
    assert not attempt.result.exists()


def test_job_keeps_of_the_environment_of_its_node_what_any_child_is_given(tmp_path: Path) -> None:
    attempt = begin(tmp_path / "it's here")
    request = RunRequest(
        benchmark=None,  # type: ignore[arg-type]
        backend="openai", scenario="Offline", mode="performance", model_key="*", user_conf="", log_dir="", counter="",
        secrets={"api_key": "TOKEN"},
    )  # fmt: skip
    script = make_job_script(Submission(attempt, request, attempt.result), NAME)
    command, last = script.rpartition("\n")[::2]
    shown = f"{command}\n{last[: last.index(' -P ')].rpartition(' ')[0]} env"
    variables = {
        "PATH": "/usr/bin:/bin",
        "TOKEN": "a b",
        "HOME": "/h",
        "AWS_SECRET_ACCESS_KEY": "x",
        "RAY_ADDRESS": "r",
    }
    subprocess.run(["sh", "-c", shown], cwd=tmp_path, env=variables, check=True)
    found = attempt.log.read_text().splitlines()
    assert {"TOKEN=a b", "HOME=/h", "PATH=/usr/bin:/bin", "RAY_ADDRESS=r", "TZ=UTC"} <= set(found)
    assert not any(line.startswith(("AWS", "CUDA")) for line in found)
    assert read_placement(attempt.placed).job == f"ray {NAME}"
    assert len(read_placement(attempt.placed).nodes) == 1


def test_what_a_job_holds_comes_from_the_system() -> None:
    values: dict[str, object] = {
        "system.name": "h200x8",
        "hardware.accelerator": "NVIDIA H200",
        "hardware.count": 8,
    }
    assert choose_resources(CellSettings(values)) == {
        "entrypoint_num_cpus": 0,
        "entrypoint_num_gpus": 8,
        "entrypoint_resources": {"h200x8": 1},
    }
    own: dict[str, object] = {
        "executor.ray.resources.machine": 1,
        "executor.ray.labels.ray.io/accelerator-type": "H200",
        "executor.ray.gpus": 0,
        "executor.ray.cpus": 4,
    }
    assert choose_resources(CellSettings(values | own)) == {
        "entrypoint_num_cpus": 4,
        "entrypoint_num_gpus": 0,
        "entrypoint_resources": {"machine": 1},
        "entrypoint_label_selector": {"ray.io/accelerator-type": "H200"},
    }


def test_a_job_on_slices_holds_the_whole_gpus_that_are_cut() -> None:
    values: dict[str, object] = {
        "system.name": "a100_mig",
        "hardware.accelerator": "NVIDIA A100",
        "hardware.count": 2,
        "hardware.mig": "14x 1g.10gb",
        "engine.backend": "tensorrt",
    }
    assert choose_resources(CellSettings(values))["entrypoint_num_gpus"] == 2
    as_devices = values | {"executor.ray.gpus": 14}  # Ray was started with the slices as its GPUs
    assert choose_resources(CellSettings(as_devices))["entrypoint_num_gpus"] == 14
    none = values | {"executor.ray.gpus": 0}
    with pytest.raises(ReconcilerError, match="hides every GPU"):
        choose_resources(CellSettings(none))
    assert choose_resources(CellSettings(none | {"engine.backend": "onnxruntime"}))["entrypoint_num_gpus"] == 0


def test_token_and_headers_are_as_rays(tmp_path: Path, dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "t0ken")
    monkeypatch.setenv("RAY_JOB_HEADERS", '{"X-Tenant": "lab"}')
    submit(tmp_path)
    assert (dashboard.headers["Authorization"], dashboard.headers["X-Tenant"]) == ("Bearer t0ken", "lab")


def answering(dashboard: Dashboard, status: int, said: Any) -> list[tuple[str, str, bytes]]:
    """Whatever it is asked; what that was."""
    asked: list[tuple[str, str, bytes]] = []

    def answer(*what: Any) -> tuple[int, Any]:
        asked.append(what)
        return status, said

    dashboard.answer = answer  # type: ignore[method-assign]
    return asked


@pytest.mark.parametrize(
    ("status", "answer", "new", "error", "said"),
    [
        (200, "{}", True, None, ""),
        (400, "job r7 already exists", False, None, ""),
        (400, "Traceback\nno such option\n", None, ReconcilerError, "Ray refuses the job: no such option (HTTP 400)"),
        *(
            (status, "already exists", None, ReconcilerError, f"Ray refuses the job: already exists (HTTP {status})")
            for status in (401, 403, 404, 405, 415, 422)
        ),
        (500, "no agent", None, QueueSilentError, "no agent (HTTP 500)"),
        (503, "", None, QueueSilentError, "(HTTP 503)"),
        (502, "x" * 301, None, QueueSilentError, f"{'x' * 300} (HTTP 502)"),
    ],
)
def test_a_dashboard_takes_a_job_knows_it_refuses_it_or_says_nothing_of_use(
    status: int,
    answer: str,
    new: bool | None,
    error: type[Exception] | None,
    said: str,
    dashboard: Dashboard,
) -> None:
    answering(dashboard, status, answer)
    if error is None:
        assert ray_dashboard.submit_job(dashboard.address, {}) is new
        return
    with pytest.raises(error) as caught:
        ray_dashboard.submit_job(dashboard.address, {})
    assert str(caught.value).partition("\n")[0] == said
    if isinstance(caught.value, ReconcilerError):
        assert caught.value.fix == "see executor.ray of the system, and its address"
