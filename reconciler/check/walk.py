"""The one walk over a tree that checking and verifying share: rules at each level, cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from reconciler.check.presence import BenchmarkView
from reconciler.check.systems import SystemView
from reconciler.tree.findings import TreeFinding
from reconciler.tree.reading.places import RootPlace, SubmitterPlace
from reconciler.tree.reading.survey import Progress, Survey
from reconciler.tree.reading.system import SubmitterFiles, SystemFile
from reconciler.tree.reading.unreadable_folders import list_if_open, pass_over_closed
from reconciler.tree.reading.view import CellView
from reconciler.tree.rule_engine import About, Table, apply_rules

Origin = Callable[[str], str]  # cell → the spec line that declares it, "" for none


def _nowhere(_: str) -> str:
    return ""


class LevelRules(Struct, frozen=True):
    """The rules of each level of a tree. ``cell`` applies those of a scenario folder, which depend on its harness."""

    cell: Callable[[CellView, About], Iterator[TreeFinding]]
    survey: Table[Survey] = ()
    root: Table[RootPlace] = ()
    submitter: Table[SubmitterFiles] = ()
    system: Table[SystemView] = ()
    benchmark: Table[BenchmarkView] = ()


class TreeWalk(Struct):
    """Holds one cell's logs at a time. ``remember`` is called with each cell once its rules have been applied."""

    rules: LevelRules
    remember: Callable[[CellView], None]
    origin: Origin = _nowhere
    progress: Progress | None = None
    _done: int = 0
    _total: int = 0

    def find(self, surveys: Sequence[Survey]) -> list[TreeFinding]:
        """Find everything about these trees. Cells are counted only where the number is shown."""
        self._total = sum(item.total for item in surveys) if self.progress is not None else 0
        return [finding for item in surveys for finding in self._tree(item)]

    def _tree(self, item: Survey) -> Iterator[TreeFinding]:
        """From its root to its cells."""
        about = About("", "", known=item.ruleset.is_known)
        yield from apply_rules(self.rules.survey, item, about)
        if item.root.whole:
            yield from apply_rules(self.rules.root, item.root, about)
        for place in item.root.submitters:
            yield from self._submitter(item, place)

    def _submitter(self, item: Survey, place: SubmitterPlace) -> Iterator[TreeFinding]:
        files = SubmitterFiles(place, item.ruleset)
        if not place.only:
            about = About(place.submitter, place.division, known=item.ruleset.is_known)
            yield from apply_rules(self.rules.submitter, files, about)
        for name in list_if_open(place.list_systems):
            system = files.read_system(name)
            view = SystemView(place, system, item.ruleset)
            yield from apply_rules(self.rules.system, view, self._about(item, place, f"{place.division}/{name}"))
            for benchmark in list_if_open(place.list_benchmarks, name):
                yield from self._benchmark(item, files, system, benchmark)

    def _benchmark(
        self, item: Survey, files: SubmitterFiles, system: SystemFile, benchmark: str
    ) -> Iterator[TreeFinding]:
        official = item.find_official_name(files, benchmark)
        group = BenchmarkView(files.place, system, benchmark, official, item.ruleset)
        about = self._about(item, files.place, f"{files.place.division}/{system.name}/{benchmark}")
        if not files.place.only[2:]:
            yield from apply_rules(self.rules.benchmark, group, about)
        for place in list_if_open(files.place.list_scenario_folders, system.name, benchmark):
            view = item.make_view(files.place, place, system, official)
            if self.progress is not None:
                self.progress(self._done, self._total, str(view.cell))
            with pass_over_closed():
                yield from self.rules.cell(view, self._about(item, files.place, str(view.cell)))
                self.remember(view)
            view.forget()
            self._done += 1

    def _about(self, item: Survey, place: SubmitterPlace, cell: str) -> About:
        return About(place.submitter, cell, self.origin(cell), item.ruleset.is_known)
