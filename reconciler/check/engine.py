"""Applies every rule to a tree: the root, each submitter, system, benchmark, cell and run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from reconciler.check.cell_formats import choose_cell_format, find_cell_format
from reconciler.check.facts import read_facts
from reconciler.check.presence import BENCHMARK_RULES
from reconciler.check.structure import ROOT_RULES, SUBMITTER_RULES, SURVEY_RULES
from reconciler.check.systems import SYSTEM_RULES
from reconciler.check.walk import LevelRules, Origin, TreeWalk
from reconciler.resource.parts import load_part
from reconciler.resource.rules import Rule
from reconciler.rules.programs import find_program_of_tree
from reconciler.rules.results.table import FORMATS
from reconciler.storage.collector import pause_collector
from reconciler.tree.findings import Facts, TreeFinding, TreeReport
from reconciler.tree.reading.survey import Progress, Survey, survey_tree
from reconciler.tree.reading.unreadable_folders import collect_closed_folders
from reconciler.tree.reading.view import CellView, FindOriginal
from reconciler.tree.rule_engine import About, Table
from reconciler.tree.unreadable_findings import report_closed_folders


class TreeVerifier(Protocol):
    """The door of ``verify``, an optional part."""

    def list_rules(self) -> tuple[Rule, ...]:
        """Every contradiction that is looked for, in the order of the findings."""

    def verify_tree(
        self,
        path: Path,
        *,
        round_name: str = "",
        original: FindOriginal | None = None,
        progress: Progress | None = None,
    ) -> TreeReport:
        """Every contradiction in the tree at a path."""


def load_verifier() -> TreeVerifier | None:
    """None where the part was removed."""
    verifier: TreeVerifier | None = load_part("verify")
    return verifier


def list_rules() -> tuple[Rule, ...]:
    """Every rule of ``check``, in the order of the findings."""
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
) -> TreeReport:
    """Every finding about the tree at (below, around) a path, also of another program. ReconcilerError when there is no
    tree.

    ``round_name`` "": the round that is recognised. ``original`` finds untruncated accuracy logs by their hash.
    """
    with collect_closed_folders() as closed:
        if (program := find_program_of_tree(path)) is not None:
            report: TreeReport = program.check(path)
            return report
        return _check(survey_tree(path, round_name, original), path, closed, origin or (lambda _: ""), progress)


def _check(
    surveys: tuple[Survey, ...], path: Path, closed: set[Path], origin: Origin, progress: Progress | None
) -> TreeReport:
    facts: list[Facts] = []
    walk = TreeWalk(
        LevelRules(check_cell, SURVEY_RULES, ROOT_RULES, SUBMITTER_RULES, SYSTEM_RULES, BENCHMARK_RULES),
        lambda view: facts.append(read_facts(view)),
        origin,
        progress,
    )
    with pause_collector():
        findings = walk.find(surveys)
    roots = [*((item.root.path, item.root.shown) for item in surveys), (path, "")]
    return TreeReport(
        root=str(path),
        rounds=tuple(dict.fromkeys(item.ruleset.round for item in surveys)),
        layouts=tuple(dict.fromkeys(s.layout for item in surveys for s in item.root.submitters)),
        facts=tuple(facts),
        findings=report_closed_folders(closed, roots, findings),
    )


def check_cell(view: CellView, about: About) -> Iterator[TreeFinding]:
    """Everything about one scenario folder."""
    return choose_cell_format(view).check(view, about)
