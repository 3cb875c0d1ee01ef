"""Planning of a pass: looks at the world, each with the plan that follows from it."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from reconciler.diff.change import Work
from reconciler.execute.outcome import Event, Message
from reconciler.observed.node_probe import probe_machines
from reconciler.reconcile.planning import Options, PlanCache, PlanResult, compute_plan
from reconciler.storage.files import RepositoryPaths


class Planner(Struct):
    """``waited``: seconds that probes of machines took."""

    paths: RepositoryPaths
    options: Options
    memory: PlanCache
    report: Callable[[Event], None]
    waited: float = 0.0

    def look(self) -> PlanResult:
        return self._compute(self.options)

    def look_again(self) -> PlanResult:
        """Without the deep tier (this pass has hashed everything once) and without what was asked to be repeated
        (it was)."""
        return self._compute(replace(self.options, deep=False, rerun=()))

    def look_at_machines(self, result: PlanResult) -> PlanResult:
        """Look again after a probe of the machines where something is to be done, if only that can show what they
        are."""
        due = {cell.system for s in result.plan.steps if s.change.how is Work.MAKE and (cell := s.change.address.cell)}
        began = time.monotonic()
        systems = result.desired.submission.systems
        looked = probe_machines(self.paths, systems, due, lambda text: self.report(Message(text)))
        self.waited += time.monotonic() - began
        return self.look() if looked else result

    def _compute(self, options: Options) -> PlanResult:
        result = compute_plan(self.paths, options, self.memory)
        self.memory.save()  # a pass may last for days, and other plans are made during it
        return result
