"""``python -P -m harness.mig.slice_worker DESCRIPTOR``: the process of ``slice_session`` on one slice of a GPU."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from harness.backends import LoadPlan, Outputs, Session, Token, load_backend
from harness.benchmarks import load_benchmark
from harness.child.piped_process import serve_pipe
from harness.errors import HarnessError, explain
from harness.mig.slice_session import WorkerLoaded, WorkerStart
from harness.run.shared_samples import Layout, map_samples


class SliceServer:
    """Answers requests one after the other; batches are completed at any time, from any thread."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._lock = pipe, threading.Lock()

    def serve(self) -> None:
        session = self._answer(lambda: self._load(self._pipe.recv()))
        if session is None:
            return
        self._send("answer", _describe(*session))
        loaded = session[0]
        does: Mapping[str, Callable[..., Any]] = {
            "place": lambda layout: self._place(loaded, layout),
            "compute": lambda rows: _keep(loaded.compute(rows)),
            "drain": loaded.drain,
            "close": lambda: _close(loaded),
        }
        kind = ""
        while kind != "close":
            kind, *said = self._pipe.recv()
            if kind == "submit":
                self._submit(loaded, *said)
            else:
                self._answer(partial(self._reply, does[kind], *said))

    def _load(self, start: WorkerStart) -> tuple[Session, LoadPlan]:
        benchmark = load_benchmark(start.benchmark)
        plan = LoadPlan(**start.plan, completed=self._send_outputs, failed=self._send_failure)
        return benchmark.open_session(load_backend(start.backend).load, plan), plan

    def _place(self, session: Session, layout: Layout) -> None:
        descriptor = reduction.recv_handle(self._pipe)
        try:
            session.place(map_samples(layout, descriptor))
        finally:
            os.close(descriptor)

    def _reply(self, work: Callable[..., Any], *said: Any) -> None:
        self._send("answer", work(*said))

    def _submit(self, session: Session, rows: Any, token: Token) -> None:
        try:
            session.submit(rows, token)
        except Exception as error:
            self._send_failure(token, error)

    def _send_outputs(self, token: Token, outputs: Outputs) -> None:
        self._send("completed", token[0], _keep(outputs))

    def _send_failure(self, token: Token, error: BaseException) -> None:
        self._send("failed", token[0], *_explain(error))

    def _answer(self, work: Callable[[], Any]) -> Any:
        """Answer with a result; with None after a failure, which is reported."""
        try:
            return work()
        except (EOFError, BrokenPipeError):
            raise
        except Exception as error:
            self._send("problem", *_explain(error))
            return None

    def _send(self, *message: Any) -> None:
        with self._lock:
            self._pipe.send(message)


def _explain(error: BaseException) -> tuple[str, str, str]:
    """Explain an error so that the other side can raise it; the log has the traceback of an unexpected one."""
    if not isinstance(error, HarnessError | MemoryError | OSError | ImportError):
        traceback.print_exception(error)
        return f"{type(error).__name__}: {error}", "backend", "see the traceback in the log of this run"
    known = explain(error)
    return known.problem, known.problem_class, known.fix


def _close(session: Session) -> dict[str, Any]:
    session.close()
    return dict(session.notes)


def _keep(outputs: Outputs) -> list[np.ndarray]:
    """Copy outputs that the session might overwrite before they are sent."""
    return [np.ascontiguousarray(output) for output in outputs]


def _describe(session: Session, plan: LoadPlan) -> WorkerLoaded:
    """Describe the session. A session with loops, or with lanes on a device, defines its own depth."""
    notes = dict(session.notes)
    return WorkerLoaded(
        batch_size=session.surely_fit or session.batch_size,  # the other side does not compute how many samples fit
        sizes=session.sizes,
        depth=int(notes.get("samples_at_once", notes.get("lanes", plan.depth))),
        notes=notes,
        evidence=dict(session.evidence),
    )


if __name__ == "__main__":
    serve_pipe(sys.argv[1:], lambda pipe: SliceServer(pipe).serve())
