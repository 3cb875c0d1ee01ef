"""A run against a Triton server: a stand-in that misbehaves, and the real one where nvidia-pytriton is installed."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from harness.backends import BackendEngine, LoadPlan, Tensor
from harness.backends.triton import TritonSession, load
from harness.backends.triton.grpc_protocol import METHOD, make_input, make_request_head, read_outputs
from harness.backends.triton.protocol import SharedPart
from harness.backends.triton.server import find_program
from harness.backends.triton.serving import ServedEngine
from harness.contract import Benchmark
from harness.errors import HarnessError
from reconciler.storage.process import Child, build_harness_command
from tests.requests import make_run_request
from tests.unit.harness import tiny
from tests.unit.harness.children import Children, environment
from tests.unit.harness.conftest import Artifacts
from tests.unit.harness.plans import make_load_plan
from tests.unit.harness.triton_server import MODEL, serve

real = pytest.mark.skipif(find_program("") is None, reason="no tritonserver: pip install --no-deps nvidia-pytriton")
SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")


@pytest.fixture(scope="module")
def engine(artifacts: Artifacts) -> Path:
    pytest.importorskip("onnxruntime")
    return artifacts.engine("triton")


class Answers:
    """What a session completes, and what it could not."""

    def __init__(self) -> None:
        self.done: dict[int, np.ndarray] = {}
        self.failures: list[BaseException] = []

    def completed(self, token: list[int], outputs: Any) -> None:
        self.done |= dict(zip(token, np.array(outputs[0]).argmax(axis=1).tolist(), strict=True))

    def failed(self, _token: list[int], error: BaseException) -> None:
        self.failures.append(error)


def make_plan(engine: Path, folder: Path, answers: Answers, streams: int = 2, **options: Any) -> LoadPlan:
    plan = make_load_plan(engine=engine, batch_size=8, streams=streams, threads=1, options=options, folder=folder)
    return replace(plan, completed=answers.completed, failed=answers.failed)


def open_session(engine: Path, folder: Path, url: str, answers: Answers, **options: Any) -> TritonSession:
    return load(make_plan(engine, folder, answers, url=url, model=MODEL, **options))


def answer_all(session: TritonSession) -> None:
    session.place({"samples": tiny.points()})
    for start in range(0, tiny.COUNT, 8):
        rows = slice(start, min(start + 8, tiny.COUNT))
        session.submit(rows, list(range(rows.start, rows.stop)))
    session.drain()


def test_server_at_an_address_answers_every_sample(engine: Path, tmp_path: Path) -> None:
    answers = Answers()
    with serve() as server:
        session = open_session(engine, tmp_path, server.url, answers)
        session.place({"samples": tiny.points()[:8]})
        session.compute(slice(0, 8))
        answer_all(session)
        rows = np.array([5, 3, 60])
        assert session.compute(rows)[0].argmax(axis=1).tolist() == tiny.labels()[rows].tolist()
        session.close()
    assert answers.failures == []
    assert [answers.done[row] for row in range(tiny.COUNT)] == tiny.labels().tolist()
    assert session.evidence == {"server.version": "2.99.0"}
    # What the warming up asked is not counted.
    assert session.notes["server.batches"] == {"3": 1, "4": 1, "8": 12}
    assert session.notes["server.model"] == MODEL


def test_run_asks_the_passs_server(children: Children, artifacts: Artifacts, engine: Path, tmp_path: Path) -> None:
    inputs = {"dataset": str(artifacts.dataset()), "engine": str(engine)}
    settings = {"batch_size": 8, "streams": 2, "threads": 1, "model": MODEL}
    log = tmp_path / "log"
    log.mkdir()
    (log / "log.start").write_text("ready to serve\n")
    with serve() as server:
        served = {"service_url": server.url, "service_log": str(log)}
        ended = children.run("Offline", "accuracy", backend="triton", inputs=inputs, settings=settings, **served)
        server.mischief = "hangs up"
        failed = children.run("Offline", "accuracy", backend="triton", inputs=inputs, settings=settings, **served)
    assert ended.result.done, ended.output
    assert dict(ended.answers) == {i: np.int32(label).tobytes() for i, label in enumerate(tiny.labels())}
    assert (ended.folder / "service.log").read_text() == "ready to serve\n"
    assert "the connection was lost" in failed.result.problem
    assert "ready to serve" in failed.result.problem  # what the server printed last


@pytest.mark.parametrize(
    ("mischief", "problem", "kind"),
    [
        ("no such model", f"the server has no model {MODEL}", "input"),
        ("other shape", r"its input point is FP32 \[3\] per sample, that of the engine FP32 \[4\]", "input"),
        ("other type", "its output scores is INT8", "input"),
        ("more inputs", "it also takes mask", "input"),
        ("small batches", "takes batches of 2, not 8", "input"),
        ("never ready", "the server was not ready within 1 s", "backend"),
    ],
)
def test_an_unfit_server_is_refused(mischief: str, problem: str, kind: str, engine: Path, tmp_path: Path) -> None:
    with serve(mischief) as server, pytest.raises(HarnessError, match=problem) as refused:
        open_session(engine, tmp_path, server.url, Answers(), ready_timeout_s=1)
    assert refused.value.problem_class == kind
    assert refused.value.fix


@pytest.mark.parametrize(
    ("mischief", "problem", "kind"),
    [
        ("refuses", "HTTP 400: unexpected shape for input 'point'", "backend"),
        ("hangs up", "the connection was lost", "resources"),
        ("silent", "no answer within 1 s", "resources"),
        ("fewer rows", "with 8 rows was expected", "backend"),
        ("other output", "the answer has no output scores; it has other", "backend"),
        ("no JSON", "KServe", "backend"),
    ],
)
def test_a_servers_failure_is_named(mischief: str, problem: str, kind: str, engine: Path, tmp_path: Path) -> None:
    answers = Answers()
    with serve() as server:
        session = open_session(engine, tmp_path, server.url, answers, streams=1, timeout_s=1)
        server.mischief = mischief
        session.place({"samples": tiny.points()})
        session.submit(slice(0, 8), list(range(8)))
        session.drain()
        session.close()
    (error,) = answers.failures
    assert isinstance(error, HarnessError)
    assert problem in error.problem
    assert error.problem_class == kind
    assert error.fix


def test_requests_share_a_batch_inside_the_server(engine: Path) -> None:
    reported = {"backend": "onnxruntime", "engine": str(engine / "made"), "batch_size": 8, "threads": 1}
    served = ServedEngine({**reported, "scenario": "Server"})
    served.warm_up()
    points, labels = tiny.points(), tiny.labels()
    cut = [(0, 3), (3, 8), (8, 16), (16, 17), (17, 25)]  # the first two fill a batch, the last two need two
    answers = served.compute([[points[start:end]] for start, end in cut])
    for (start, end), (scores,) in zip(cut, answers, strict=True):
        assert scores.argmax(axis=1).tolist() == labels[start:end].tolist()
    served.close()


@real
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_real_server_answers_as_expected(scenario: str, children: Children, artifacts: Artifacts, engine: Path) -> None:
    inputs = {"dataset": str(artifacts.dataset()), "engine": str(engine)}
    settings = {"batch_size": 8, "streams": 2, "threads": 1}
    if scenario == "Server":  # single samples, of which the server makes batches
        settings |= {"batch_size": 1, "streams": 4, "dynamic_batching": True, "batch_delay_us": 100, "instances": 2}
    ended = children.run(scenario, "accuracy", backend="triton", inputs=inputs, settings=settings)
    assert ended.result.done, ended.output
    assert ended.detail["errors"] == []
    assert dict(ended.answers) == {i: np.int32(label).tobytes() for i, label in enumerate(tiny.labels())}
    said = {name: fact.value for name, fact in ended.result.facts.items()}
    assert said["server.version"]
    assert (
        said["backend.server.request_success"] == sum(said["backend.server.batches"].values()) or scenario == "Server"
    )
    assert said["backend.server.count"] == len(ended.answers)
    assert said["backend.shared_memory"] is True
    assert "Started HTTPService" in (ended.folder / "service.log").read_text(encoding="utf-8")
    assert not list(ended.folder.glob("triton-*"))


@real
def test_real_server_that_is_killed_is_named_and_gone(engine: Path, tmp_path: Path) -> None:
    answers = Answers()
    session = load(make_plan(engine, tmp_path, answers, streams=1))
    session.place({"samples": tiny.points()})
    session.compute(slice(0, 8))
    process = session._server.process
    assert process is not None
    below = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    session.submit(slice(0, 8), list(range(8)))
    session.drain()
    session.close()
    (error,) = answers.failures
    assert isinstance(error, HarnessError)
    assert "the server ended with signal 9" in error.problem
    assert error.problem_class == "resources"
    psutil.wait_procs(below, timeout=20)
    assert not [child for child in below if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert not list(Path("/dev/shm").glob(f"mlperf_triton_{os.getpid()}_*"))


@real
def test_real_server_that_cannot_load_its_engine_says_why(engine: Path, tmp_path: Path) -> None:
    broken = tmp_path / "engine"
    shutil.copytree(engine, broken)
    (broken / "made" / "model.onnx").write_bytes(b"no model")
    with pytest.raises(HarnessError, match="before it was ready") as refused:
        load(make_plan(broken, tmp_path, Answers()))
    assert "cannot load model.onnx" in refused.value.problem


@real
def test_configurations_of_other_backends_are_read_by_the_real_server(engine: Path, tmp_path: Path) -> None:
    """It has none of them; it says so of the backend, and not of the configuration."""
    described = BackendEngine.read(engine, "triton")
    for made_by in ("onnxruntime", "openvino"):
        folder = tmp_path / made_by
        own = {**described.settings, "made_by": made_by, "served_by": "own"}
        (folder / "made").mkdir(parents=True)
        (folder / "made" / "model.onnx").touch()
        replace(described, settings=own).write(folder)
        options = {"dynamic_batching": True, "preferred_batch_sizes": "4,8", "batch_delay_us": 50}
        with pytest.raises(HarnessError, match="before it was ready") as refused:
            load(make_plan(folder, tmp_path, Answers(), **options))
        assert f"unable to find backend library for backend '{made_by}'" in refused.value.problem.lower()


@real
def test_server_ends_with_the_run_that_started_it(children: Children, artifacts: Artifacts, engine: Path) -> None:
    """A killed run leaves no server."""
    folder = children.place()
    (folder / "user.conf").write_text("*.*.min_duration = 60000\n*.SingleStream.min_query_count = 1\n")
    make_run_request(
        folder,
        benchmark=Benchmark(name="tiny", path=str(Path(tiny.__file__))),
        backend="triton",
        scenario="SingleStream",
        inputs={"dataset": str(artifacts.dataset()), "engine": str(engine)},
    ).write(folder / "request.json")
    words = build_harness_command("run", folder / "request.json", folder / "result.json")
    with Child(words, folder=folder, log=folder / "log", environment=environment()) as child:
        found: list[psutil.Process] = []
        ended = threading.Event()
        for _ in range(1200):
            below = psutil.Process(child.pid).children(recursive=True)
            found = [process for process in below if process.name() == "tritonserver"]
            if found or ended.wait(0.05):
                break
        assert found, (folder / "log").read_text()
        os.kill(child.pid, signal.SIGKILL)
        _, alive = psutil.wait_procs(found, timeout=20)
    assert not alive


INPUTS = (Tensor("image", (3, -1), "float16"), Tensor("mask", (), "int64"))
OUTPUTS = (Tensor("scores", (2,), "float32"), Tensor("count", (), "int32"))


# As grpc_service.proto has it: message -> field -> (number, type, repeated).
_TENSOR = {"name": (1, "string"), "datatype": (2, "string"), "shape": (3, "int64", True)}
PROTO: dict[str, dict[str, tuple[Any, ...]]] = {
    "Parameter": {"int64_param": (2, "int64"), "string_param": (3, "string")},
    "Entry": {"key": (1, "string"), "value": (2, "Parameter")},
    "Input": {**_TENSOR, "parameters": (4, "Entry", True)},
    "Requested": {"name": (1, "string")},
    "Request": {
        "model_name": (1, "string"),
        "inputs": (5, "Input", True),
        "outputs": (6, "Requested", True),
        "raw_input_contents": (7, "bytes", True),
    },
    "Output": _TENSOR,
    "Response": {
        "model_name": (1, "string"),
        "outputs": (5, "Output", True),
        "raw_output_contents": (6, "bytes", True),
    },
}


def message(name: str) -> Any:
    """The class that protobuf makes of it."""
    return make_messages()[name]


@cache
def make_messages() -> dict[str, Any]:
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="kserve.proto", package="t", syntax="proto3")
    for called, fields in PROTO.items():
        made = file.message_type.add(name=called)
        for own, (number, kind, *many) in fields.items():
            entry = made.field.add(name=own, number=number)
            entry.label = field.LABEL_REPEATED if many else field.LABEL_OPTIONAL
            if kind in PROTO:
                entry.type, entry.type_name = field.TYPE_MESSAGE, f".t.{kind}"
            else:
                entry.type = getattr(field, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{name}")) for name in PROTO}


def test_a_request_is_read_by_protobuf() -> None:
    image, mask = np.ones((2, 3, 300), np.float16), np.zeros((2, 1), np.int64)
    head = make_request_head("resnet/50", INPUTS, [image.shape, mask.shape], OUTPUTS)
    found = message("Request").FromString(b"".join([head, *make_input(image), *make_input(mask)]))
    assert found.model_name == "resnet/50"
    assert [(i.name, i.datatype, list(i.shape)) for i in found.inputs] == [
        ("image", "FP16", [2, 3, 300]),
        ("mask", "INT64", [2, 1]),
    ]
    assert [o.name for o in found.outputs] == ["scores", "count"]
    assert list(found.raw_input_contents) == [image.tobytes(), mask.tobytes()]


def test_inputs_in_shared_memory_are_named_in_place_of_their_bytes() -> None:
    parts = [SharedPart("region_0", 0, 3600), SharedPart("region_0", 3648, 16)]
    head = make_request_head("m", INPUTS, [(2, 3, 300), (2, 1)], OUTPUTS, parts)
    found = message("Request").FromString(head)
    assert b"shared_memory_offset\x12\x02\x10\x00" in head  # a 0 that is given
    second = {e.key: e.value.string_param or e.value.int64_param for e in found.inputs[1].parameters}
    assert second == {
        "shared_memory_region": "region_0",
        "shared_memory_offset": 3648,
        "shared_memory_byte_size": 16,
    }
    assert list(found.raw_input_contents) == []


def answer(**more: Any) -> bytes:
    scores, count = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([[7], [8], [9]], np.int32)
    tensors = [("count", "INT32", count), ("scores", "FP32", scores)]
    said = [message("Output")(name=n, datatype=t, shape=a.shape) for n, t, a in tensors]
    raw = [a.tobytes() for _, _, a in tensors]
    return bytes(message("Response")(**{"outputs": said, "raw_output_contents": raw, **more}).SerializeToString())


def test_an_answer_that_protobuf_wrote_is_read_in_the_engines_order() -> None:
    scores, count = read_outputs(answer(model_name="m" * 200), OUTPUTS, 3)
    assert scores.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert count.tolist() == [7, 8, 9]


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (lambda: answer()[:-3], "KServe"),
        (lambda: b"HTTP/1.1 400 Bad Request\r\n", "KServe"),
        (lambda: answer(raw_output_contents=[b"1234"]), "KServe"),
        (lambda: b"\x80" * 100, "KServe"),
        (lambda: answer(outputs=[message("Output")(name="scores", datatype="FP32", shape=(-1, 2))] * 2), "KServe"),
        (lambda: b"\x2a\x06\x08\xff\xff\xff\xff\x7f\x32\x00", "KServe"),
        (lambda: answer().replace(b"scores", b"sc\xffres"), "KServe"),
        (lambda: b"", "the answer has no output scores"),
    ],
    ids=["cut off", "HTTP", "too few bytes", "endless number", "size below zero", "name as number", "no text", "empty"],
)
def test_an_answer_that_is_none_is_refused(damaged: Any, said: str) -> None:
    with pytest.raises(HarnessError, match=said):
        read_outputs(damaged(), OUTPUTS, 3)


@contextmanager
def serve_grpc(mischief: str = "") -> Iterator[int]:
    """A server in addition to that of HTTP; its port."""
    grpc = pytest.importorskip("grpc", reason="grpcio is not installed")

    def infer(data: bytes, context: Any) -> bytes:
        asked = message("Request").FromString(data)
        if mischief == "refuses":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "unexpected shape for input 'point'")
        if mischief == "sleeps":
            time.sleep(3)
        points = np.frombuffer(asked.raw_input_contents[0], np.float32).reshape(tuple(asked.inputs[0].shape))
        scores = (points @ tiny.matrix()).astype(np.float32)
        said = message("Output")(name="scores", datatype="FP32", shape=scores.shape)
        made = message("Response")(model_name=MODEL, outputs=[said], raw_output_contents=[scores.tobytes()])
        return bytes(made.SerializeToString())

    class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, call: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(infer) if call.method == METHOD else None

    with ThreadPoolExecutor(4) as pool:
        server = grpc.server(pool, handlers=[Handler()])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield port
        finally:
            server.stop(None).wait()


def test_a_session_asks_over_grpc(engine: Path, tmp_path: Path) -> None:
    answers = Answers()
    with serve() as server, serve_grpc() as port:
        session = open_session(engine, tmp_path, server.url, answers, protocol="grpc", grpc_port=port)
        answer_all(session)
        session.close()
    assert answers.failures == []
    assert [answers.done[row] for row in range(tiny.COUNT)] == tiny.labels().tolist()
    assert session.notes["protocol"] == "grpc"
    assert server.asked == []


@real
@pytest.mark.parametrize("sharing", [True, False])
def test_real_server_is_asked_over_grpc(sharing: bool, children: Children, artifacts: Artifacts, engine: Path) -> None:
    pytest.importorskip("grpc", reason="grpcio is not installed")
    inputs = {"dataset": str(artifacts.dataset()), "engine": str(engine)}
    settings = {"batch_size": 8, "streams": 2, "threads": 1, "protocol": "grpc", "shared_memory": sharing}
    ended = children.run("Offline", "accuracy", backend="triton", inputs=inputs, settings=settings)
    assert ended.result.done, ended.output
    assert dict(ended.answers) == {i: np.int32(label).tobytes() for i, label in enumerate(tiny.labels())}
    assert ended.result.facts["backend.protocol"].value == "grpc"
    assert ended.result.facts["backend.server.count"].value == len(ended.answers)
    assert "Started GRPCInferenceService" in (ended.folder / "service.log").read_text(encoding="utf-8")
