"""Batches over gRPC: the messages as protobuf itself reads and writes them, and a session that asks with them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.backends import Tensor
from harness.backends.triton.grpc_protocol import METHOD, make_input, make_request_head, read_outputs
from harness.backends.triton.shared_memory import SharedPart
from harness.errors import HarnessError
from tests.unit.harness import tiny
from tests.unit.harness.children import Children
from tests.unit.harness.conftest import Artifacts
from tests.unit.harness.test_triton import Answers, answer_all, engine, open_session, real
from tests.unit.harness.triton_server import MODEL, serve

__all__ = ["engine"]
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
        (lambda: answer()[:-3], "not an answer of KServe's protocol"),
        (lambda: b"HTTP/1.1 400 Bad Request\r\n", "not an answer of KServe's protocol"),
        (lambda: answer(raw_output_contents=[b"1234"]), "not an answer of KServe's protocol"),
        (lambda: b"\x80" * 100, "a number is too large"),
        (lambda: b"\x2a\x0b\x18" + b"\xff" * 9 + b"\x01" + b"\x32\x00", "a number is too large"),
        (lambda: b"\x2a\x06\x08\xff\xff\xff\xff\x7f\x32\x00", "a number stands where a text belongs"),
        (lambda: b"", "the answer has no output scores"),
    ],
    ids=["cut off", "HTTP", "too few bytes", "endless number", "size below zero", "name as number", "empty"],
)
def test_an_answer_that_is_none_is_refused(damaged: Any, said: str) -> None:
    with pytest.raises(HarnessError, match=said):
        read_outputs(damaged(), OUTPUTS, 3)


@contextmanager
def serve_grpc(mischief: str = "") -> Iterator[int]:
    """A server beside that of HTTP; its port."""
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


@pytest.mark.parametrize(
    ("mischief", "said"),
    [
        ("refuses", "gRPC INVALID_ARGUMENT: unexpected shape for input 'point'"),
        ("sleeps", "no answer within 1 s"),
    ],
)
def test_failure_over_grpc_has_a_name(mischief: str, said: str, engine: Path, tmp_path: Path) -> None:
    with serve() as server, serve_grpc(mischief) as port:
        session = open_session(engine, tmp_path, server.url, Answers(), protocol="grpc", grpc_port=port, timeout_s=1)
        session.place({"samples": tiny.points()})
        with pytest.raises(HarnessError, match=said):
            session.compute(slice(0, 4))
        session.close()


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
