"""A session whose batches a server computes: each stream is a thread with a connection of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.backends import BackendEngine, LoadPlan, Outputs
from harness.backends.streams import StreamSession
from harness.backends.triton.connection import Connection, read_problem
from harness.backends.triton.metrics import describe_work, read_metrics
from harness.backends.triton.protocol import find_shape, make_request_head, read_outputs
from harness.backends.triton.server import TritonServer, find_server
from harness.qsl import Arrays, Rows, count_rows


class TritonSession(StreamSession):
    """``batch_size``: rows of a request, from which the server may make larger batches."""

    reads_in_place = True

    def __init__(self, plan: LoadPlan, folder: Path) -> None:
        super().__init__(plan, BackendEngine.read(folder, "triton"))
        engine = self._engine
        self._server: TritonServer = find_server(plan, engine, folder)
        try:
            self._server.check(engine, self.batch_size)
            self._before = read_metrics(self._server)
        except BaseException:
            self._server.close()
            raise
        self._connections = [
            Connection(self._server.host, self._server.port, self._server.timeout) for _ in range(plan.streams)
        ]
        self._heads: dict[tuple[tuple[int, ...], ...], bytes] = {}
        self._placed = 0
        self.evidence = {"server.version": self._server.version}
        settings = engine.settings
        self.notes: dict[str, Any] = {
            **{name: value for name, value in self.notes.items() if name != "threads"},
            "made_by": settings["made_by"],
            "served_by": settings["served_by"],
            **({} if self._server.process else {"server.model": self._server.model}),
        }

    def place(self, samples: Arrays) -> None:
        super().place(samples)
        self._placed += 1
        if self._placed == 2:  # the first samples were those of the warming up
            self._before = read_metrics(self._server)

    def close(self) -> None:
        super().close()
        for connection in self._connections:
            connection.close()
        self.notes |= describe_work(self._before, read_metrics(self._server))
        self._server.close()

    def _run(self, stream: int, rows: Rows) -> Outputs:
        arrays = self._staging[stream].batch(rows)
        tensors = self._engine.inputs
        shapes = tuple(find_shape(tensor, array.shape) for tensor, array in zip(tensors, arrays, strict=True))
        head = self._heads.get(shapes)
        if head is None:
            outputs = self._engine.outputs
            head = make_request_head(self._server.host, self._server.model, tensors, shapes, outputs)
            self._heads[shapes] = head
        try:
            answer = self._connections[stream].ask(head, arrays)
        except (OSError, ValueError) as error:
            raise self._server.explain_broken(error) from error
        if answer.status != 200:
            problem = f"HTTP {answer.status}: {read_problem(answer.document)}"
            raise self._server.explain(problem, "see what the server refuses, and its log")
        found = read_outputs(answer.document, answer.data, self._engine.outputs, len(arrays[0]))
        return [output[: count_rows(rows)] for output in found]  # without what padded the batch
