"""Records of trials, stored apart from everything that is published."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.loadgen import keys
from reconciler.loadgen.log import parse_detail
from reconciler.loadgen.log_files import DETAIL
from reconciler.loadgen.margins import Margin
from reconciler.record.index import load, load_record
from reconciler.record.store import find_readable
from reconciler.resource.kinds import PERFORMANCE, Address, Cell, RunAddress
from reconciler.resource.records import LATE_QUERIES, TRIAL, Ended, Record, Summary
from reconciler.storage.files import RepositoryPaths, TrialPaths
from reconciler.tune.search import RateTrial

RATE = keys.TARGET_QPS
# Fraction of the requested rate that a run must complete. A short run can be VALID below it, since it ends before its
# backlog exceeds the latency limit. The slack covers the time of the last queries.
_SUSTAINED = 0.8


class TrialRun(Struct, frozen=True):
    """A recorded trial."""

    id: str
    record: Record

    @property
    def valid(self) -> bool:
        return self.record.values.get("validity") == "VALID"

    @property
    def metric(self) -> tuple[float, str] | None:
        found = self.record.values.get("metric")
        return (float(found["value"]), str(found["unit"])) if found else None

    @property
    def margins(self) -> tuple[Margin, ...]:
        return tuple(Margin(**margin) for margin in self.record.values.get("margins", ()))

    def find_pressure(self) -> float | None:
        """Return the worst ratio of a latency percentile to its limit; None if no latency is limited."""
        found = [Decimal(m.measured) / Decimal(m.limit) for m in self.margins if m.unit == "ms"]
        return float(max(found)) if found else None


def list_trials(paths: RepositoryPaths, cell: Cell) -> tuple[TrialRun, ...]:
    """List every complete trial of a cell, oldest first."""
    there, found = TrialPaths(paths.root, paths.apart), list_summaries(paths, RunAddress(cell, PERFORMANCE).address)
    return tuple(TrialRun(each.id, load_record(there, each.id)) for each in found if each.ended is Ended.DONE)


def list_summaries(paths: RepositoryPaths, address: Address) -> tuple[Summary, ...]:
    found = load(TrialPaths(paths.root, paths.apart)).recorded.by_address.get(address, ())
    return tuple(summary for summary in found if TRIAL in summary.marks)


def read_rate_trial(paths: RepositoryPaths, run: TrialRun) -> RateTrial:
    """Read a Server run for the search, from its record and its log."""
    margins = {margin.name: margin for margin in run.margins}
    late, asked = margins.get("early stopping"), margins.get("queries")
    counted = late is not None and late.unit == LATE_QUERIES
    rate, completed = float(run.record.inputs[RATE].value), _read_completed(paths, run)
    return RateTrial(
        rate=rate,
        valid=run.valid and (completed is None or completed >= _SUSTAINED * rate),
        pressure=run.find_pressure(),
        completed=completed,
        queries=int(Decimal(asked.measured)) if asked else 0,
        over=int(Decimal(late.measured)) if late and counted else -1,
        allowed=int(Decimal(late.limit)) if late and counted else -1,
    )


def _read_completed(paths: RepositoryPaths, run: TrialRun) -> float | None:
    """Return the samples answered per second; None if the log is missing or does not report them."""
    detail = next((item for item in run.record.artifacts if item.name == DETAIL), None)
    if detail is None:
        return None
    try:
        log = parse_detail(find_readable(TrialPaths(paths.root, paths.apart), detail).read_bytes(), DETAIL)
    except (OSError, ReconcilerError):
        return None
    value = log.get(keys.RESULT_COMPLETED_SAMPLES_PER_SEC)
    return float(value) if value is not None else None
