"""Apply every rule to a tree: to the root and to each submitter, system, benchmark, cell and run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from reconciler.check.accuracy import has_required_files, question_removed_files
from reconciler.check.cell_formats import choose_cell_format, find_cell_format, read_facts
from reconciler.check.presence import BENCHMARK_RULES, BenchmarkView
from reconciler.check.structure import ROOT_RULES, SUBMITTER_RULES, SURVEY_RULES
from reconciler.check.systems import SYSTEM_RULES, SystemView
from reconciler.resource.parts import load_part
from reconciler.resource.rules import Rule
from reconciler.rules.programs import PublishedLists, find_program_of_tree
from reconciler.rules.results.table import FORMATS
from reconciler.storage.collector import pause_collector
from reconciler.tree.findings import Facts, TreeFinding, TreeReport
from reconciler.tree.reading.places import RootPlace, SubmitterPlace
from reconciler.tree.reading.survey import Progress, Survey, survey_tree
from reconciler.tree.reading.system import SubmitterFiles, SystemFile
from reconciler.tree.reading.unreadable_folders import (
    collect_closed_folders,
    list_if_open,
    pass_over_closed,
    report_closed_folders,
)
from reconciler.tree.reading.view import CellView, FindOriginal
from reconciler.tree.rule_engine import About, Table, apply_rules

# The traversal of a tree shared by checking and verifying: rules at each level, cell by cell.

Origin = Callable[[str], str]  # cell → the spec line that declares it, or ""


class LevelRules(Struct, frozen=True):
    """Rules for each level of a tree. ``cell`` applies those for a scenario folder, which depend on its harness."""

    cell: Callable[[CellView, About], Iterator[TreeFinding]]
    survey: Table[Survey] = ()
    root: Table[RootPlace] = ()
    submitter: Table[SubmitterFiles] = ()
    system: Table[SystemView] = ()
    benchmark: Table[BenchmarkView] = ()


class TreeWalk(Struct):
    """Traversal that keeps one cell's logs in memory at a time. ``remember``: called with each cell after its rules are
    applied."""

    rules: LevelRules
    remember: Callable[[CellView], None]
    origin: Origin | None = None
    progress: Progress | None = None
    _done: int = 0
    _total: int = 0

    def find(self, surveys: Sequence[Survey]) -> list[TreeFinding]:
        """Find all violations in these trees. Cells are counted only if progress is shown."""
        self._total = sum(item.total for item in surveys) if self.progress is not None else 0
        return [finding for item in surveys for finding in self._check_survey(item)]

    def _check_survey(self, item: Survey) -> Iterator[TreeFinding]:
        """Apply the rules from the root down to the cells."""
        about = About("", "", known=item.ruleset.is_known)
        yield from apply_rules(self.rules.survey, item, about)
        if item.root.whole:
            yield from apply_rules(self.rules.root, item.root, about)
        for place in item.root.submitters:
            yield from self._check_submitter(item, place)

    def _check_submitter(self, item: Survey, place: SubmitterPlace) -> Iterator[TreeFinding]:
        files = SubmitterFiles(place, item.ruleset)
        if not place.only:
            about = About(place.submitter, place.division, known=item.ruleset.is_known)
            yield from apply_rules(self.rules.submitter, files, about)
        for name in list_if_open(place.list_systems):
            system = files.read_system(name)
            view = SystemView(place, system, item.ruleset)
            yield from apply_rules(self.rules.system, view, self._make_about(item, place, f"{place.division}/{name}"))
            for benchmark in list_if_open(place.list_benchmarks, name):
                yield from self._check_benchmark(item, files, system, benchmark)

    def _check_benchmark(
        self, item: Survey, files: SubmitterFiles, system: SystemFile, benchmark: str
    ) -> Iterator[TreeFinding]:
        official = item.find_official_name(files, benchmark)
        group = BenchmarkView(files.place, system, benchmark, official, item.ruleset)
        about = self._make_about(item, files.place, f"{files.place.division}/{system.name}/{benchmark}")
        if not files.place.only[2:]:
            yield from apply_rules(self.rules.benchmark, group, about)
        for place in list_if_open(files.place.list_scenario_folders, system.name, benchmark):
            view = item.make_view(files.place, place, system, official)
            if self.progress is not None:
                self.progress(self._done, self._total, str(view.cell))
            with pass_over_closed():
                yield from self.rules.cell(view, self._make_about(item, files.place, str(view.cell)))
                self.remember(view)
            view.forget()
            self._done += 1

    def _make_about(self, item: Survey, place: SubmitterPlace, cell: str) -> About:
        return About(place.submitter, cell, self.origin(cell) if self.origin else "", item.ruleset.is_known)


class TreeVerifier(Protocol):
    """Interface of ``verify``, an optional part."""

    def list_rules(self) -> tuple[Rule, ...]:
        """Return every rule about contradictions, in the order of the findings."""

    def verify_tree(
        self,
        path: Path,
        *,
        round_name: str = "",
        original: FindOriginal | None = None,
        progress: Progress | None = None,
    ) -> TreeReport:
        """Find every contradiction in the tree at a path."""


def load_verifier() -> TreeVerifier | None:
    """Return None if the part was removed."""
    verifier: TreeVerifier | None = load_part("verify")
    return verifier


def list_rules() -> tuple[Rule, ...]:
    """Return every rule of ``check``, in the order of the findings."""
    formats = dict.fromkeys(map(find_cell_format, FORMATS))
    of_cells = [table for each in formats for table in each.CHECK_TABLES]
    of_places = (SURVEY_RULES, ROOT_RULES, SUBMITTER_RULES, SYSTEM_RULES, BENCHMARK_RULES)
    tables: tuple[Table[Any], ...] = (*of_places, *of_cells)
    return tuple(dict.fromkeys(rule for table in tables for rule, _ in table))


def check_tree(
    path: Path,
    *,
    round_name: str = "",
    original: FindOriginal | None = None,
    origin: Origin | None = None,
    progress: Progress | None = None,
    lists: PublishedLists | None = None,
) -> TreeReport:
    """Find all violations in the tree at, below or around a path, including other programs' trees. Raises
    ReconcilerError if there is no tree.

    ``round_name``: "" to recognise the round. ``original``: finds untruncated accuracy logs by their hash. ``lists``:
    another program's published lists, if newer than this release's.
    """
    with collect_closed_folders() as closed:
        if (program := find_program_of_tree(path)) is not None:
            report: TreeReport = program.check(path, lists or PublishedLists())
            return report
        return _check(survey_tree(path, round_name, original), path, closed, origin, progress)


def _check(
    surveys: tuple[Survey, ...], path: Path, closed: set[Path], origin: Origin | None, progress: Progress | None
) -> TreeReport:
    facts: list[Facts] = []
    cells_with_files = 0

    def remember(view: CellView) -> None:
        nonlocal cells_with_files
        facts.append(read_facts(view))
        cells_with_files += has_required_files(view)

    def check_cell(view: CellView, about: About) -> Iterator[TreeFinding]:
        return choose_cell_format(view).check(view, about)

    levels = LevelRules(check_cell, SURVEY_RULES, ROOT_RULES, SUBMITTER_RULES, SYSTEM_RULES, BENCHMARK_RULES)
    with pause_collector():
        findings = TreeWalk(levels, remember, origin, progress).find(surveys)
    if not cells_with_files:
        findings = question_removed_files(findings)
    return make_report(surveys, path, closed, facts, findings)


def make_report(
    surveys: Sequence[Survey], path: Path, closed: Iterable[Path], facts: Iterable[Facts], found: Iterable[TreeFinding]
) -> TreeReport:
    """Report what was found in a tree, and what could not be read."""
    roots = [*((item.root.path, item.root.shown) for item in surveys), (path, "")]
    return TreeReport(
        root=str(path),
        rounds=tuple(dict.fromkeys(item.ruleset.round for item in surveys)),
        layouts=tuple(dict.fromkeys(s.layout for item in surveys for s in item.root.submitters)),
        facts=tuple(facts),
        findings=report_closed_folders(closed, roots, found),
    )
