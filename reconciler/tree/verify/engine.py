"""Looks for contradictions in every cell of a tree, then across its cells. Holds one cell's logs at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from reconciler.files import hash_bytes
from reconciler.mlperf.log_files import DETAIL
from reconciler.tree.check.presence import BenchmarkView
from reconciler.tree.check.systems import SystemView
from reconciler.tree.findings import Facts, Rule, TreeFinding, TreeReport
from reconciler.tree.reading.cell import USER_CONF
from reconciler.tree.reading.facts import read_facts
from reconciler.tree.reading.files import TEXT_LIMIT
from reconciler.tree.reading.survey import Progress, Survey, survey_tree
from reconciler.tree.reading.system import SubmitterFiles
from reconciler.tree.reading.view import CellView, FindOriginal
from reconciler.tree.rule_engine import About, apply_rules
from reconciler.tree.verify.across import SAME_LOG, add_causes, verify_copied_logs
from reconciler.tree.verify.conf import CONF_RULES, read_conf, read_target
from reconciler.tree.verify.endpoints import ENDPOINTS_CONTRADICTIONS
from reconciler.tree.verify.placement import PLACEMENT_RULES
from reconciler.tree.verify.runs import RUN_CONTRADICTIONS
from reconciler.tree.verify.summary import SUMMARY_RULES
from reconciler.tree.verify.systems import (
    BENCHMARK_CONTRADICTIONS,
    MEASUREMENTS_CONTRADICTIONS,
    SYSTEM_CONTRADICTIONS,
)
from reconciler.tree.verify.verdicts import VERDICT_RULES

_CELL_TABLES = (
    RUN_CONTRADICTIONS,
    CONF_RULES,
    MEASUREMENTS_CONTRADICTIONS,
    SUMMARY_RULES,
    PLACEMENT_RULES,
    VERDICT_RULES,
)
# Every contradiction that is looked for, in the order of the findings.
ALL_RULES: tuple[Rule, ...] = (
    *(
        rule
        for table in (SYSTEM_CONTRADICTIONS, BENCHMARK_CONTRADICTIONS, *_CELL_TABLES, ENDPOINTS_CONTRADICTIONS)
        for rule, _ in table
    ),
    SAME_LOG,
)


def verify_tree(
    path: Path,
    *,
    round_name: str = "",
    original: FindOriginal | None = None,
    progress: Progress | None = None,
) -> TreeReport:
    """Every contradiction in the tree at (below, around) a path. ReconcilerError when there is no tree.

    ``round_name`` "": the round whose seeds the logs carry.
    """
    surveys = survey_tree(path, round_name, original)
    verifier = _Verifier(sum(item.total for item in surveys), progress)
    found = [finding for item in surveys for finding in verifier.tree(item)]
    pairs = frozenset((rule.scenario, rule.measured) for item in surveys for rule in item.ruleset.inferences)
    found += verify_copied_logs(verifier.facts, verifier.files, pairs)
    return TreeReport(
        root=str(path),
        rounds=tuple(dict.fromkeys(item.ruleset.round for item in surveys)),
        layouts=tuple(dict.fromkeys(s.layout for item in surveys for s in item.root.submitters)),
        facts=tuple(verifier.facts),
        findings=tuple(add_causes(found, verifier.facts)),
    )


class _Verifier:
    """One walk: collects the facts of each cell, and where its logs are, for the comparison across cells."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress = total, progress
        self.facts: list[Facts] = []
        self.files: dict[tuple[str, str, str], str] = {}

    def tree(self, item: Survey) -> Iterator[TreeFinding]:
        for place in item.root.submitters:
            files = SubmitterFiles(place)
            for name in place.systems():
                system = files.system(name)
                about = About(place.submitter, f"{place.division}/{name}")
                yield from apply_rules(SYSTEM_CONTRADICTIONS, SystemView(place, system, item.ruleset), about)
                for benchmark in place.benchmarks(name):
                    official = item.official(files, benchmark)
                    group = BenchmarkView(place, system, benchmark, official, item.ruleset)
                    about = About(place.submitter, f"{place.division}/{name}/{benchmark}")
                    yield from apply_rules(BENCHMARK_CONTRADICTIONS, group, about)
                    for view in item.views(files, system, benchmark):
                        yield from self._cell(view)

    def _cell(self, view: CellView) -> Iterator[TreeFinding]:
        if self._progress is not None:
            self._progress(len(self.facts), self._total, str(view.cell))
        yield from verify_cell(view)
        self.facts.append(_facts(view))
        for run in view.files.runs():
            key = (view.files.submitter.submitter, str(view.cell), run.name)
            self.files[key] = f"{run.folder.shown}/{DETAIL}"


def verify_cell(view: CellView) -> Iterator[TreeFinding]:
    """Everything that contradicts itself within one scenario folder."""
    about = About(view.files.submitter.submitter, str(view.cell))
    if view.files.endpoints:
        yield from apply_rules(ENDPOINTS_CONTRADICTIONS, view, about)
        yield from apply_rules(MEASUREMENTS_CONTRADICTIONS, view, about)
        return
    for table in _CELL_TABLES:
        yield from apply_rules(table, view, about)


def _facts(view: CellView) -> Facts:
    setting = read_target(read_conf(view))
    target = None
    if setting is not None:
        try:
            target = float(setting.value)
        except (TypeError, ValueError, OverflowError):
            target = None
    facts = read_facts(view, target)
    conf = view.files.bytes(view.files.measurements_folder, USER_CONF, TEXT_LIMIT)
    return replace(facts, digests=(*facts.digests, ("user.conf", hash_bytes(conf)))) if conf else facts
