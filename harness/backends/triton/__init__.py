"""NVIDIA Triton Inference Server: a server between LoadGen and an engine built by another backend of this project.

A run renders a model repository from the engine and the run's settings, starts the server on it and sends requests over
HTTP; or it uses a running server. The server computes with its own backend for the engine's library, or with this
project's session inside its Python backend, the only one in the package nvidia-pytriton.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from harness.backends import BackendEngine, BuildPlan, LoadPlan, Outputs, find_backend_version, match_samples
from harness.backends.streams import Staging, StreamSession
from harness.backends.triton.protocol import (
    Connection,
    SharedInputs,
    SharedPart,
    find_shape,
    make_request_head,
    read_outputs,
    read_problem,
)
from harness.backends.triton.repository import build_served
from harness.backends.triton.server import TritonServer, find_program, find_server, list_digested
from harness.catalog import TritonRunOptions
from harness.child.digests import hash_files
from harness.contract import Fact, as_evidence, show_install
from harness.errors import HarnessError
from harness.run.qsl import Arrays, Rows, count_rows

# A session whose batches a server computes. Each stream is a thread with its own connection. Batches are sent over HTTP
# or gRPC; everything else over HTTP.


@dataclass(frozen=True, slots=True)
class ServedWork:
    """The work of a model since the server started. ``counters``: values by name; ``batches``: size -> number
    computed."""

    counters: Mapping[str, float] = field(default_factory=dict)
    batches: Mapping[int, int] = field(default_factory=dict)


def read_work(server: TritonServer) -> ServedWork:
    """Read the server's statistics if it offers them; they are optional."""
    with suppress(HarnessError, LookupError, ArithmeticError, ValueError, TypeError):
        stats = server.ask(f"/v2/models/{quote(server.model, safe='')}/stats")["model_stats"][0]
        batches = {int(item["batch_size"]): int(item["compute_infer"]["count"]) for item in stats["batch_stats"]}
        return ServedWork(count_statistics(stats), batches)
    return ServedWork()


def count_statistics(stats: Mapping[str, Any]) -> dict[str, float]:
    """Return the counters; durations in us."""
    said, ns = stats["inference_stats"], 1000
    steps = ("queue", "compute_input", "compute_infer", "compute_output")
    return {
        "request_success": int(said["success"]["count"]),
        "request_failure": int(said["fail"]["count"]),
        "count": int(stats["inference_count"]),
        "exec_count": int(stats["execution_count"]),
        **{f"{name}_duration_us": int(said[name]["ns"]) / ns for name in steps},
    }


def describe_work(before: ServedWork, after: ServedWork) -> dict[str, Any]:
    """Describe the work counted between the two readings."""
    counters = {
        f"server.{name}": round(value - before.counters.get(name, 0.0), 1) for name, value in after.counters.items()
    }
    made = {size: count - before.batches.get(size, 0) for size, count in sorted(after.batches.items())}
    batches = {str(size): count for size, count in made.items() if count}
    return {**counters, **({"server.batches": batches} if batches else {})}


# Batches exceed gRPC's default limit, but no answer may use up the memory; separate channels do not share a connection.
_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", (1 << 31) - 1),
    ("grpc.use_local_subchannel_pool", 1),
]


class GrpcRefusalError(Exception):
    """A server's refusal of a request."""


class GrpcConnection:
    """Not thread-safe."""

    def __init__(self, host: str, port: int, timeout: float) -> None:
        """Open the channel. Raises HarnessError if gRPC is not installed."""
        try:
            import grpc

            from harness.backends.triton import grpc_protocol
        except ImportError as error:
            fix = f"pip install grpcio protobuf, which are in {show_install('triton')}; or remove run.options.protocol"
            raise HarnessError(f"gRPC is not installed: {error}", "missing", fix) from error
        self._grpc: Any = grpc
        self.messages = grpc_protocol
        self._timeout = timeout
        self._channel = self._grpc.insecure_channel(f"{host}:{port}", options=_OPTIONS)
        self._infer = self._channel.unary_unary(grpc_protocol.METHOD)

    def ask(self, head: bytes, arrays: Sequence[np.ndarray]) -> bytes:
        """Send a request. Raises OSError (TimeoutError if the answer takes too long) and GrpcRefusalError."""
        message = b"".join([head, *(part for array in arrays for part in self.messages.make_input(array))])
        try:
            answer: bytes = self._infer(message, timeout=self._timeout, wait_for_ready=True)
        except self._grpc.RpcError as error:
            raise self._explain(error) from error
        return answer

    def close(self) -> None:
        self._channel.close()

    def _explain(self, error: Any) -> Exception:
        code, codes, said = error.code(), self._grpc.StatusCode, str(error.details())[:300]
        if code is codes.DEADLINE_EXCEEDED:
            return TimeoutError(said)
        if code in (codes.UNAVAILABLE, codes.CANCELLED):
            return ConnectionError(said)
        return GrpcRefusalError(f"gRPC {code.name}: {said}")


def facts() -> dict[str, Fact]:
    """Facts about the server installed here. A server at an address reports its own version: ``server.version``."""
    program = find_program("")
    digest = hash_files(program.root, list_digested(program)) if program else ""
    return as_evidence({"backend.version": find_backend_version("triton"), "backend.digest": digest})


def build(plan: BuildPlan) -> BackendEngine:
    """Build the engine of the backend ``made_by``, in its own folder."""
    return build_served(plan, find_backend_version("triton"))


def load(plan: LoadPlan) -> TritonSession:
    """Start or reach a server. Raises HarnessError if that fails, or if it serves another model."""
    return TritonSession(plan, plan.require_engine("Triton"))


_REFUSED = "see the reason and the server's log"


class TritonSession(StreamSession):
    """``batch_size``: rows per request; the server may combine requests to larger batches."""

    reads_in_place = True

    def __init__(self, plan: LoadPlan, folder: Path) -> None:
        super().__init__(plan, BackendEngine.read(folder, "triton"))
        engine, options = self._engine, TritonRunOptions(plan.options)
        self._server: TritonServer = find_server(plan, engine, folder)
        try:
            self._server.check(engine, self.batch_size)
            self._before = read_work(self._server)
        except BaseException:
            self._server.close()
            raise
        self._connections = [
            Connection(self._server.host, self._server.port, self._server.timeout) for _ in range(plan.streams)
        ]
        self._grpc = (
            [GrpcConnection(self._server.host, self._server.grpc, self._server.timeout) for _ in range(plan.streams)]
            if options.protocol == "grpc"
            else []
        )
        self._make_head: Callable[..., bytes] = (
            self._grpc[0].messages.make_request_head if self._grpc else partial(make_request_head, self._server.host)
        )
        self._heads: dict[tuple[object, ...], bytes] = {}
        self._sharing = options.shared_memory and self._server.process is not None
        self._shared: list[SharedInputs] = []
        self._placed = 0
        self.evidence = {"server.version": self._server.version}
        settings = engine.settings
        self.notes: dict[str, Any] = {
            **{name: value for name, value in self.notes.items() if name != "threads"},
            "made_by": settings["made_by"],
            "served_by": settings["served_by"],
            "protocol": "grpc" if self._grpc else "http",
            **({} if self._server.process else {"server.model": self._server.model}),
        }

    def place(self, samples: Arrays) -> None:
        super().place(samples)
        if self._sharing:
            self._share(match_samples(samples, self._engine.inputs))
        self._placed += 1
        if self._placed == 2:  # the first samples placed were those of the warm-up
            self._before = read_work(self._server)

    def close(self) -> None:
        super().close()
        for connection in self._connections:
            connection.close()
        for channel in self._grpc:
            channel.close()
        self.notes |= describe_work(self._before, read_work(self._server))
        self._server.close()

    def _share(self, samples: Sequence[np.ndarray]) -> None:
        """Set up shared memory for batches; once, since samples keep their shapes."""
        size, sizes = self._engine.batch_size, self._engine.batch_sizes
        if not self._shared:
            made = [self._server.share(stream, samples, size) for stream in range(self._plan.streams)]
            self._shared = [each for each in made if each is not None]
            if len(self._shared) < len(made):  # all or none, since /dev/shm may be small
                for each in self._shared:
                    each.close()
                self._shared, self._sharing = [], False
        for stream, own in enumerate(self._shared):
            self._staging[stream] = Staging(samples, size, sizes, own.arrays)
        self.notes["shared_memory"] = bool(self._shared)

    def _run(self, stream: int, rows: Rows) -> Outputs:
        arrays = self._staging[stream].batch(rows)
        parts = self._shared[stream].write(arrays) if self._shared else []
        head, following = self._find_head(stream, arrays, parts), [] if parts else arrays
        ask = self._ask_grpc if self._grpc else self._ask_http
        found = ask(stream, head, following, len(arrays[0]))
        return [output[: count_rows(rows)] for output in found]  # without the padding of the batch

    def _find_head(self, stream: int, arrays: Sequence[np.ndarray], parts: Sequence[SharedPart]) -> bytes:
        tensors = self._engine.inputs
        shapes = tuple(find_shape(tensor, array.shape) for tensor, array in zip(tensors, arrays, strict=True))
        known = (stream if parts else -1, *shapes)
        head = self._heads.get(known)
        if head is None:
            head = self._make_head(self._server.model, tensors, shapes, self._engine.outputs, parts)
            self._heads[known] = head
        return head

    def _ask_grpc(self, stream: int, head: bytes, arrays: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
        channel = self._grpc[stream]
        try:
            answer = channel.ask(head, arrays)
        except OSError as error:
            raise self._server.explain_broken(error) from error
        except GrpcRefusalError as error:
            raise self._server.explain(str(error), _REFUSED) from error
        found: list[np.ndarray] = channel.messages.read_outputs(answer, self._engine.outputs, count)
        return found

    def _ask_http(self, stream: int, head: bytes, arrays: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
        try:
            answer = self._connections[stream].ask(head, arrays)
        except (OSError, ValueError) as error:
            raise self._server.explain_broken(error) from error
        if answer.status != 200:
            raise self._server.explain(f"HTTP {answer.status}: {read_problem(answer.document)}", _REFUSED)
        return read_outputs(answer.document, answer.data, self._engine.outputs, count)
