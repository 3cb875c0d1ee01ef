"""The facts of a result that reports and comparisons across cells need, small enough to keep for a whole round."""

from __future__ import annotations

from reconciler.check.cell_formats import choose_cell_format
from reconciler.loadgen.settings import find_target
from reconciler.tree.findings import Facts
from reconciler.tree.reading.values import make_finite, number, read_start
from reconciler.tree.reading.view import CellView


def read_facts(view: CellView, conf_target: float | None = None) -> Facts:
    """Reads the performance log and hashes the logs; ``conf_target`` in the unit of the log's target."""
    metric, unit = choose_cell_format(view).read_metric(view)
    run = view.performance
    aim = find_target(run.log.scenario) if run else None
    target = number(run.log, aim.key) if run and aim else None
    start = read_start(run.log) if run else None
    return Facts(
        submitter=view.files.submitter.submitter,
        cell=str(view.cell),
        official=view.official,
        round=view.ruleset.round,
        harness=view.files.format.NAME,
        metric=metric,
        unit=unit,
        target=make_finite(target),
        conf_target=make_finite(conf_target),
        validity=run.log.validity if run else "",
        began=start.timestamp() if start else None,
        digests=_digests(view),
    )


def _digests(view: CellView) -> tuple[tuple[str, str], ...]:
    once = view.performance is not None and view.performance.log.serves_both
    runs = (run for run in view.files.list_runs() if not (once and run.digest == view.files.performance.digest))
    own = (view.files.performance, *runs) if once else runs
    return tuple((run.name, run.digest) for run in own if run.digest)
