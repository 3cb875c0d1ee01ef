"""Inside the server: compute requests with an engine through the session of its backend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.backends import BackendEngine, LoadPlan, Session, load_backend

_WARM_UP = 2  # batches of each size

Batch = Sequence[np.ndarray]
"""One array per input of the engine, or per output, rows first."""


class ServedEngine:
    """Not thread-safe. ``served``: the parameter in the model's configuration."""

    def __init__(self, served: Mapping[str, Any]) -> None:
        name, folder = str(served["backend"]), Path(served["engine"])
        self.engine = BackendEngine.read(folder, name)
        self._size = int(served["batch_size"])
        plan = LoadPlan(
            engine=folder,
            scenario=served["scenario"],
            batch_size=self._size,
            streams=1,
            threads=int(served["threads"]),
            outputs=self.engine.outputs,
            options={},
            completed=_refuse_batch,
            failed=_refuse_batch,
        )
        self._session: Session = load_backend(name).load(plan)
        self._in_place = self._session.reads_in_place
        self._slots: dict[str, np.ndarray] = {}

    def warm_up(self) -> None:
        """Warm up before the server becomes ready, unless the shape of an input is known only from requests."""
        tensors = self.engine.inputs
        if any(-1 in tensor.shape for tensor in tensors):
            return
        for count in (1, self._size) * _WARM_UP:
            self.compute([[np.zeros((count, *tensor.shape), tensor.dtype) for tensor in tensors]])

    def compute(self, asked: Sequence[Batch]) -> list[list[np.ndarray]]:
        """Return the outputs of each request, in their own memory."""
        answers: list[list[np.ndarray]] = []
        for group in self._cut(asked):
            count = self._write(group)
            outputs, at = self._session.compute(slice(0, count)), 0
            for batch in group:
                rows = slice(at, at + len(batch[0]))
                answers.append([np.array(output[rows]) for output in outputs])
                at = rows.stop
        return answers

    def close(self) -> None:
        self._session.close()

    def _cut(self, asked: Sequence[Batch]) -> Iterator[Sequence[Batch]]:
        """Group requests that together fit the engine's batch, with samples of one shape."""
        group: list[Batch] = []
        for batch in asked:
            rows = sum(len(other[0]) for other in group) + len(batch[0])
            alike = not group or all(a.shape[1:] == b.shape[1:] for a, b in zip(group[0], batch, strict=True))
            if group and (rows > self._size or not alike):
                yield group
                group = []
            group.append(batch)
        if group:
            yield group

    def _write(self, group: Sequence[Batch]) -> int:
        names = [tensor.name for tensor in self.engine.inputs]
        shapes = [array.shape[1:] for array in group[0]]
        fresh = [slot.shape[1:] for slot in self._slots.values()] != shapes
        if fresh:
            self._slots = {
                name: np.zeros((self._size, *array.shape[1:]), array.dtype)
                for name, array in zip(names, group[0], strict=True)
            }
        at = 0
        for batch in group:
            count = len(batch[0])
            for name, array in zip(names, batch, strict=True):
                self._slots[name][at : at + count] = array
            at += count
        if fresh or not self._in_place:
            self._session.place(self._slots)
        return at


def _refuse_batch(*_: object) -> None:
    raise AssertionError("nothing is submitted to this session")
