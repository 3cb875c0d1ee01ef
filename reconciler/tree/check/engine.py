"""Applies every rule to a tree: the root, each submitter, system, benchmark, cell and run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from reconciler.tree.check.accuracy import ACCURACY_RULES
from reconciler.tree.check.cell_files import FILE_RULES, LOADGEN_FILE_RULES
from reconciler.tree.check.compliance import COMPLIANCE_RULES, list_compliance_runs
from reconciler.tree.check.endpoints import ENDPOINTS_RULES
from reconciler.tree.check.presence import BENCHMARK_RULES, BenchmarkView
from reconciler.tree.check.runs import PERFORMANCE_RULES, RUN_RULES
from reconciler.tree.check.structure import ROOT_RULES, SUBMITTER_RULES
from reconciler.tree.check.systems import SYSTEM_RULES, SystemView
from reconciler.tree.findings import Facts, Rule, TreeFinding, TreeReport
from reconciler.tree.reading.facts import read_facts
from reconciler.tree.reading.places import SubmitterPlace
from reconciler.tree.reading.survey import Progress, Survey, survey_tree
from reconciler.tree.reading.system import SubmitterFiles, SystemFile
from reconciler.tree.reading.view import CellView, FindOriginal
from reconciler.tree.rule_engine import About, apply_rules

Origin = Callable[[str], str]  # cell → the spec line that declares it, "" for none

# Every rule that `check` applies, in the order of its findings.
ALL_RULES: tuple[Rule, ...] = tuple(
    rule
    for table in (
        ROOT_RULES,
        SUBMITTER_RULES,
        SYSTEM_RULES,
        BENCHMARK_RULES,
        FILE_RULES,
        LOADGEN_FILE_RULES,
        PERFORMANCE_RULES,
        ACCURACY_RULES,
        COMPLIANCE_RULES,
        ENDPOINTS_RULES,
    )
    for rule, _ in table
)


def check_tree(
    path: Path,
    *,
    round_name: str = "",
    original: FindOriginal | None = None,
    origin: Origin | None = None,
    progress: Progress | None = None,
) -> TreeReport:
    """Every finding about the tree at (below, around) a path. ReconcilerError when there is no tree.

    ``round_name`` "": the round whose seeds the logs carry. ``original`` finds untruncated accuracy logs by their hash.
    """
    surveys = survey_tree(path, round_name, original)
    checker = _Checker(sum(item.total for item in surveys), origin or _nowhere, progress)
    findings = tuple(finding for item in surveys for finding in checker.tree(item))
    return TreeReport(
        root=str(path),
        rounds=tuple(dict.fromkeys(item.ruleset.round for item in surveys)),
        layouts=tuple(dict.fromkeys(s.layout for item in surveys for s in item.root.submitters)),
        facts=tuple(checker.facts),
        findings=findings,
    )


def _nowhere(_: str) -> str:
    return ""


class _Checker:
    """One walk over a tree: counts the cells for the progress, and collects their facts."""

    def __init__(self, total: int, origin: Origin, progress: Progress | None) -> None:
        self._total, self._origin, self._progress = total, origin, progress
        self.facts: list[Facts] = []

    def tree(self, item: Survey) -> Iterator[TreeFinding]:
        if item.root.whole:
            yield from apply_rules(ROOT_RULES, item.root, About("", ""))
        for place in item.root.submitters:
            yield from self._submitter(item, place)

    def _submitter(self, item: Survey, place: SubmitterPlace) -> Iterator[TreeFinding]:
        files = SubmitterFiles(place)
        if not place.only:
            yield from apply_rules(SUBMITTER_RULES, files, About(place.submitter, place.division))
        for name in place.systems():
            system = files.system(name)
            view = SystemView(place, system, item.ruleset)
            yield from apply_rules(SYSTEM_RULES, view, self._about(place, f"{place.division}/{name}"))
            for benchmark in place.benchmarks(name):
                yield from self._benchmark(item, files, system, benchmark)

    def _benchmark(
        self, item: Survey, files: SubmitterFiles, system: SystemFile, benchmark: str
    ) -> Iterator[TreeFinding]:
        official = item.official(files, benchmark)
        group = BenchmarkView(files.place, system, benchmark, official, item.ruleset)
        about = self._about(files.place, f"{files.place.division}/{system.name}/{benchmark}")
        if not files.place.only[2:]:
            yield from apply_rules(BENCHMARK_RULES, group, about)
        for view in item.views(files, system, benchmark):
            if self._progress is not None:
                self._progress(len(self.facts), self._total, str(view.cell))
            yield from check_cell(view, self._about(files.place, str(view.cell)))
            self.facts.append(read_facts(view))

    def _about(self, place: SubmitterPlace, cell: str) -> About:
        return About(place.submitter, cell, self._origin(cell))


def check_cell(view: CellView, about: About) -> Iterator[TreeFinding]:
    """Everything about one scenario folder."""
    yield from apply_rules(FILE_RULES, view, about)
    if view.files.endpoints:
        yield from apply_rules(ENDPOINTS_RULES, view, about)
        return
    yield from apply_rules(LOADGEN_FILE_RULES, view, about)
    if view.performance is not None:
        yield from apply_rules(PERFORMANCE_RULES, view.performance, about)
    yield from apply_rules(ACCURACY_RULES, view, about)
    yield from apply_rules(COMPLIANCE_RULES, view, about)
    for run in list_compliance_runs(view):
        yield from apply_rules(RUN_RULES, run, about)
