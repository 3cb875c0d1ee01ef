"""The walk over a tree holds one cell at a time."""

from __future__ import annotations

import weakref
from pathlib import Path

from reconciler.check.engine import LevelRules, TreeWalk
from reconciler.storage.collector import pause_collector
from reconciler.tree.reading.survey import survey_tree
from reconciler.tree.reading.view import CellView
from reconciler.verify.engine import verify_cell
from tests.unit.check.conftest import logs
from tests.unit.verify.conftest import consistent

__all__ = ["consistent", "logs"]


class Trace:
    """What is hung on to a view, and lives as long as that."""


def test_a_cell_that_was_looked_at_is_gone_without_the_collector(consistent: Path) -> None:
    views: list[weakref.ref[Trace]] = []
    read: list[weakref.ref[Trace]] = []

    def remember(view: CellView) -> None:
        assert view.performance is not None
        for kept, traces in ((view, views), (view.performance, read)):
            trace = vars(kept)["trace"] = Trace()
            traces.append(weakref.ref(trace))

    (survey,) = survey_tree(consistent)
    with pause_collector():
        TreeWalk(LevelRules(verify_cell), remember).find([survey])
        assert len(views) == survey.total > 1
        assert [ref() for ref in (*views[:-1], *read)] == [None] * (len(views) - 1 + len(read))
