"""Attempts that travel to a node which sees nothing of the pass's folder: that one has another name in the meantime."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pytest

from harness.contract import Benchmark, ProbeRequest, Result, RunRequest
from reconciler.errors import ReconcilerError, StoreError
from reconciler.execute.attempt import Attempt, Intent, create, read_placement
from reconciler.execute.executors import queue_executor
from reconciler.execute.executors.executor import Handle, Progressing, State, Submission, Ticket, TransportSilentError
from reconciler.execute.executors.job_script import GONE, TWICE, make_script
from reconciler.execute.executors.queue_executor import QueueExecutor
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import CellSettings, StoreSettings, SubmissionSettings
from reconciler.storage.files import RepositoryPaths, hash_bytes
from reconciler.stores import node
from reconciler.stores.manifest import SMALL, AttemptStore, DamagedManifestError, ManifestFile, receive
from reconciler.stores.remote import open_remote
from reconciler.stores.sender import StoreTransport

pytest.importorskip("fsspec")
LARGE = b"engine" * SMALL


@dataclass
class Queue:
    """Keeps what it was given; ``ended``: what it says of every job."""

    submitted: list[Submission] = field(default_factory=list)
    ended: bool = False

    def submit(self, submission: Submission, handle: Handle) -> None:
        self.submitted.append(submission)

    def find(self, handle: Handle, since: float) -> Queue:
        return self

    def cancel(self, handle: Handle) -> None:
        self.ended = True

    def forget(self, handle: Handle) -> None:
        pass

    @property
    def gave_up(self) -> bool:
        return False

    def describe(self) -> Progressing:
        return Progressing(State.ENDED if self.ended else State.RUNNING)


@dataclass(frozen=True)
class Lab:
    """A pass, its queue and a store that both sides reach."""

    root: Path
    store: Path
    queue: Queue = field(default_factory=Queue)

    @property
    def paths(self) -> RepositoryPaths:
        return RepositoryPaths(self.root)

    def transport(self, options: Mapping[str, object] | None = None) -> StoreTransport:
        depot = AttemptStore(StoreSettings(f"file://{self.store}", options or {}))
        return StoreTransport(self.paths, {"lab": depot})

    def executor(self, transport: StoreTransport | None = None) -> QueueExecutor:
        return QueueExecutor("slurm", self.paths, self.queue, transport or self.transport())

    def begin(self, name: str = "2026-1") -> Attempt:
        settings = CellSettings({"executor.slurm": True, "executor.slurm.store": "lab"})
        intent = Intent(name, Address(Kind.MODEL, "net"), "k" * 64, 1, "2026", {}, settings)
        attempt = create(self.paths.attempts, intent)
        (attempt.inputs / "engine").mkdir(parents=True)
        (attempt.inputs / "engine" / "net.bin").write_bytes(LARGE)
        return attempt

    def submit(self, attempt: Attempt, transport: StoreTransport | None = None) -> tuple[QueueExecutor, Handle]:
        executor = self.executor(transport)
        return executor, executor.submit(Submission(attempt, ProbeRequest(), attempt.result))

    @contextlib.contextmanager
    def elsewhere(self) -> Iterator[Path]:
        """On a node: gives what is there under the name of the pass's folder, which is away."""
        aside = self.root.with_name("of-the-pass")
        self.root.rename(aside)
        try:
            yield self.root
        finally:
            if self.root.exists():
                self.root.rename(self.root.with_name(f"of-a-node-{time.monotonic_ns()}"))
            aside.rename(self.root)

    def run_job(self) -> int:
        """As its node does."""
        script = make_script(self.queue.submitted[-1], "echo slurm 7; echo n1")
        with self.elsewhere():
            return subprocess.run(["sh", "-c", script], check=False, capture_output=True).returncode


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    (tmp_path / "repository").mkdir()
    return Lab(tmp_path / "repository", tmp_path / "store")


def test_attempt_travels_and_comes_back_with_what_its_job_left(lab: Lab) -> None:
    attempt = lab.begin()
    _, handle = lab.submit(attempt)
    assert lab.run_job() == 0
    assert not attempt.result.exists()
    lab.queue.ended = True
    taken = lab.executor(StoreTransport(lab.paths))  # a later pass, whose spec may name no store any more
    assert taken.poll(handle).state is State.ENDED
    assert Result.read(attempt.result).done
    assert read_placement(attempt.placed).nodes == ("n1",)
    (node,) = lab.root.parent.glob("of-a-node-*")
    left = [path for path in node.rglob("*") if path.is_file()]
    assert [path.read_bytes() for path in left] == [LARGE], "only what the next attempt may need stays there"
    taken.harvest(handle)
    assert not [path for path in lab.store.rglob("*") if "attempts" in path.parts and path.is_file()]


def test_job_begins_once_and_not_after_its_attempt_was_given_up(lab: Lab) -> None:
    attempt = lab.begin()
    executor, handle = lab.submit(attempt)
    assert lab.run_job() == 0
    assert lab.run_job() == TWICE
    executor.cancel(handle)
    assert lab.run_job() == GONE


def test_somebody_who_only_looks_ends_no_job(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the queue has not learned of it yet, and the job seems lost."""
    monkeypatch.setattr(queue_executor, "_LATE", 0.0)
    _, handle = lab.submit(lab.begin())
    lab.queue.ended = True
    assert not lab.executor(StoreTransport(lab.paths, only_looks=True)).poll(handle).goes_on
    assert lab.run_job() == 0


def test_damaged_request_never_runs_and_the_record_says_why(lab: Lab) -> None:
    attempt = lab.begin()
    executor, handle = lab.submit(attempt)
    damaged = lab.store / hash_bytes(LARGE)[:2] / hash_bytes(LARGE)
    damaged.write_bytes(LARGE[:-1] + b"?")
    assert lab.run_job() not in (0, GONE, TWICE)
    lab.queue.ended = True
    assert executor.poll(handle).state is State.ENDED
    assert not attempt.result.exists()
    assert "digest" in attempt.log.read_text()


def test_damaged_result_is_refused_and_the_step_made_again(lab: Lab) -> None:
    attempt = lab.begin()
    executor, handle = lab.submit(attempt)
    assert lab.run_job() == 0
    (note,) = lab.store.glob("attempts/*/result")
    document = json.loads(note.read_bytes())
    document["files"][-1]["sha256"] = "0" * 64
    note.write_text(json.dumps(document))
    lab.queue.ended = True
    assert executor.poll(handle).state is State.ENDED
    result = Result.read(attempt.result)
    assert (result.done, result.problem_class) == (False, "lost")


def test_what_is_longer_than_it_says_is_refused_whatever_its_digest(lab: Lab, tmp_path: Path) -> None:
    name = hash_bytes(LARGE)
    (lab.store / name[:2]).mkdir(parents=True)
    (lab.store / name[:2] / name).write_bytes(LARGE)
    remote = open_remote(f"file://{lab.store}", {})
    with pytest.raises(DamagedManifestError, match="more than 5 bytes"):
        receive(ManifestFile("file", name, 5), remote, tmp_path / "file")
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize(
    "path", ["attempt.json", "inputs/model/model.onnx", ".", "../other/result.json", "/etc/passwd"]
)
def test_what_came_back_is_written_into_its_own_folder_alone(lab: Lab, path: str) -> None:
    attempt = lab.begin()
    executor, handle = lab.submit(attempt)
    before = (attempt.folder / "attempt.json").read_bytes()
    digest = hash_bytes(b"")
    file = {"path": str(attempt.folder / path), "sha256": digest, "size": 0, "executable": False, "data": ""}
    (lab.store / "attempts" / attempt.intent.id / "result").write_text(
        json.dumps({"files": [file], "folders": [], "format": 1})
    )
    lab.queue.ended = True
    executor.poll(handle)
    assert "not an expected job output" in Result.read(attempt.result).problem
    assert (attempt.folder / "attempt.json").read_bytes() == before


def test_store_that_does_not_answer_loses_nothing(lab: Lab) -> None:
    attempt = lab.begin()
    executor, handle = lab.submit(attempt)
    assert lab.run_job() == 0
    lab.queue.ended = True
    away = lab.store.with_name("away")
    lab.store.rename(away)
    found = executor.poll(handle)
    assert found.goes_on
    assert "cannot be fetched yet" in found.note
    with pytest.raises(TransportSilentError):
        lab.transport().bring(attempt.folder)
    away.rename(lab.store)
    assert executor.poll(handle).state is State.ENDED
    assert Result.read(attempt.result).done


def test_node_asks_a_store_that_is_away_again_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "_PAUSE", 0.0)
    answers = iter([StoreError("away"), StoreError("away"), None])

    def send() -> str:
        if (error := next(answers)) is not None:
            raise error
        return "sent"

    assert node.retry(send, 60.0) == "sent"
    answers = iter([StoreError("away")])
    with pytest.raises(StoreError):
        node.retry(send, 0.0)


def test_what_a_request_names_in_the_repository_travels_and_the_rest_does_not(lab: Lab, tmp_path: Path) -> None:
    attempt = lab.begin()
    inside, outside = lab.root / "benchmarks" / "tiny.py", tmp_path / "models"
    for file in (inside, lab.root / "secret", outside / "weights"):
        file.parent.mkdir(exist_ok=True)
        file.write_text("text")
    request = RunRequest(
        benchmark=Benchmark(name="tiny", path=str(inside)), backend="null", scenario="Offline", mode="accuracy",
        model_key="*", user_conf="", log_dir="", counter="", sources={"model": str(outside)},
    )  # fmt: skip
    request.write(attempt.request)
    ticket = lab.transport().send(attempt, request, request, attempt.result)
    sent = (lab.store / (digest := json.loads(ticket.text)["parcel"])[:2] / digest).read_text()
    assert str(inside) in sent
    assert str(attempt.request) in sent
    assert "secret" not in sent
    assert str(outside) not in sent


def test_secrets_of_the_store_are_named_and_never_sent(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_MKDIR", "hunter2")
    attempt = lab.begin()
    ticket = lab.transport({"auto_mkdir": ("from_env", "LAB_MKDIR")}).send(
        attempt, ProbeRequest(), ProbeRequest(), attempt.result
    )
    assert ticket.variables == ("LAB_MKDIR",)
    assert not [path for path in lab.store.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert "hunter2" not in ticket.text


def test_nothing_is_sent_where_the_embargo_allows_it_not(lab: Lab) -> None:
    stores = {"lab": {"url": "s3://acme/objects", "options": {}}}
    values = {"embargo.until": "2026-04-01", "stores": stores}
    transport = StoreTransport(lab.paths)
    transport.declare(SubmissionSettings(values), date(2026, 4, 2))
    assert transport.depots["lab"].refused == ""
    transport.declare(SubmissionSettings(values), date(2026, 1, 1))
    assert "embargo" in transport.depots["lab"].refused
    attempt = lab.begin()
    _, _ = lab.submit(attempt, transport)
    assert "embargo" in Result.read(attempt.result).problem
    assert lab.queue.submitted == []
    assert not lab.store.exists()


@pytest.mark.parametrize(
    ("error", "kind"),
    [(StoreError("away", fix="wait"), "resources"), (ReconcilerError("forbidden", fix="wait"), "input")],
    ids=["the store is away", "it may not be sent"],
)
def test_a_step_that_cannot_be_sent_is_retried_where_that_helps(lab: Lab, error: ReconcilerError, kind: str) -> None:
    class Silent(StoreTransport):
        def send(self, *_: object) -> Ticket:
            raise error

    attempt = lab.begin()
    executor, handle = lab.submit(attempt, Silent(lab.paths))
    result = Result.read(attempt.result)
    assert (result.done, result.problem, result.problem_class, result.fix) == (False, error.message, kind, "wait")
    assert executor.poll(handle).state is State.ENDED
    assert lab.queue.submitted == []


def test_store_that_is_not_declared_is_named(lab: Lab) -> None:
    attempt = lab.begin()
    with pytest.raises(ReconcilerError, match="no store 'lab'"):
        StoreTransport(lab.paths).send(attempt, ProbeRequest(), ProbeRequest(), attempt.result)
