"""A backend without computation, which measures only LoadGen, Python and this harness. All of its results are marked
synthetic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from harness.backends import BuildPlan, LoadPlan, Outputs, Session, Token
from harness.contract import Fact, as_evidence
from harness.errors import HarnessError
from harness.run.qsl import Arrays, Rows, count_rows


def facts() -> dict[str, Fact]:
    return as_evidence({"backend.version": "", "backend.digest": ""})


def build(plan: BuildPlan) -> NoReturn:
    raise HarnessError(f"the null backend builds no engine in {plan.output}", "input", "remove the engine")


def load(plan: LoadPlan) -> NullSession:
    return NullSession(plan)


class NullSession(Session):
    """Answers with zeros in the benchmark's declared shapes, at once and on the calling thread."""

    reads_in_place = True

    def __init__(self, plan: LoadPlan) -> None:
        self.batch_size = plan.batch_size
        self.notes: Mapping[str, Any] = {"threads": 0, "streams": plan.streams}
        self._completed = plan.completed
        self._zeros = [np.zeros((plan.batch_size, *tensor.shape), tensor.dtype) for tensor in plan.outputs]

    def place(self, samples: Arrays) -> None:
        """Ignore the samples."""

    def compute(self, rows: Rows) -> Outputs:
        count = count_rows(rows)
        return [zeros[:count] for zeros in self._zeros]

    def submit(self, rows: Rows, token: Token) -> None:
        self._completed(token, self.compute(rows))

    def ready(self) -> None:
        """Return at once."""

    def drain(self) -> None:
        """Nothing is ever in flight."""

    def close(self) -> None:
        """Nothing to free."""
