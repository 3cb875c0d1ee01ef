"""Gaps in the comparison of a cell: a file that is missing or cannot be read makes a contradiction vanish."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.check.demands import find_gap, make_gap
from reconciler.loadgen.log_files import DETAIL, VERIFY_PERFORMANCE
from reconciler.tree.findings import Gap, Place
from reconciler.tree.reading.cell import RunFolder
from reconciler.tree.reading.view import CellView
from reconciler.verify.conf import read_conf


def find_log_gaps(view: CellView) -> Iterator[Gap]:
    """One for each file that a comparison needs and that is of no use; ``reason`` is the same text for all alike."""
    if not view.official and view.ruleset.is_known:
        place = Place(view.files.results.shown)
        yield make_gap(view, place, f"{view.ruleset.round} has no such benchmark, whose rules could be applied")
    for run in (view.files.performance, view.files.accuracy):
        yield from find_gap(view, run.detail, f"the {run.name} run's detail log", blind=True)
        yield from find_gap(view, run.summary, f"the {run.name} run's summary")
    yield from find_gap(view, view.files.user_conf, "user.conf")
    yield from _unread_conf(view)
    yield from find_gap(view, view.files.accuracy_text, "accuracy.txt")
    for test, run in view.files.test_runs.items():
        yield from _test(view, test, run)


def _unread_conf(view: CellView) -> Iterator[Gap]:
    """A conf all of whose lines are for other models or scenarios says nothing about the run."""
    conf, reading = view.files.user_conf.value, read_conf(view)
    if conf is not None and conf.values and reading is not None and not reading.settings:
        reason = "no line of user.conf is for the model and scenario that ran"
        yield make_gap(view, Place(view.files.user_conf.file), reason)


def _test(view: CellView, test: str, run: RunFolder) -> Iterator[Gap]:
    """TEST06 and its like publish no logs of their run, and no verdict about its speed."""
    folder = view.files.tests[test]
    if run.detail.value is None and VERIFY_PERFORMANCE in folder.list_files():
        why = "cannot be read" if run.detail.problem else "is not there"
        yield make_gap(view, Place(f"{run.folder.shown}/{DETAIL}"), f"the detail log of a compliance test {why}")
