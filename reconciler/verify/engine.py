"""Looks for contradictions in every cell of a tree, then across its cells. Holds one cell's logs at a time."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.check.facts import read_facts
from reconciler.check.walk import LevelRules, TreeWalk
from reconciler.loadgen.fingerprint import find_fingerprints
from reconciler.loadgen.log_files import DETAIL
from reconciler.resource.rules import Rule
from reconciler.rules.programs import find_program_of_tree
from reconciler.storage.collector import pause_collector
from reconciler.storage.files import hash_bytes
from reconciler.tree.findings import Facts, Gap, TreeReport
from reconciler.tree.reading.survey import Progress, Survey, survey_tree
from reconciler.tree.reading.system import SystemEntry
from reconciler.tree.reading.unreadable_folders import collect_closed_folders
from reconciler.tree.reading.view import CellView, FindOriginal
from reconciler.tree.rule_engine import compare_cells
from reconciler.tree.unreadable_findings import report_closed_folders
from reconciler.verify.cell_rules import choose_cell_rules, list_cell_rules, verify_cell
from reconciler.verify.conf import read_conf, read_target
from reconciler.verify.cross_cell import PublishedLogs, add_causes, verify_copied_logs
from reconciler.verify.folding import fold_systemic
from reconciler.verify.hashes import StatedHash, list_stated_hashes, verify_stated_hashes
from reconciler.verify.overlaps import Span, list_spans, verify_overlaps
from reconciler.verify.revisions import Revision, list_revisions, verify_revisions
from reconciler.verify.runs import list_runs
from reconciler.verify.sources import LoadGenBuild, find_build, verify_sources
from reconciler.verify.systems import BENCHMARK_CONTRADICTIONS, ROUND_QUESTIONS, SYSTEM_CONTRADICTIONS


def list_rules() -> tuple[Rule, ...]:
    """Every contradiction that is looked for, in the order of the findings."""
    per_place = (ROUND_QUESTIONS, SYSTEM_CONTRADICTIONS, BENCHMARK_CONTRADICTIONS)
    rules = [rule for table in per_place for rule, _ in table]
    rules += [rule for cell in list_cell_rules() for table in cell.tables for rule, _ in table]
    rules += [each.rule for each in (verify_copied_logs, verify_overlaps, verify_sources, verify_revisions)]
    return tuple(dict.fromkeys(rules))


def verify_tree(
    path: Path,
    *,
    round_name: str = "",
    original: FindOriginal | None = None,
    progress: Progress | None = None,
) -> TreeReport:
    """Every contradiction in the tree at (below, around) a path, also of another program. ReconcilerError when there is
    no tree.

    ``round_name`` "": the round that is recognised.
    """
    with collect_closed_folders() as closed:
        if (program := find_program_of_tree(path)) is not None:
            report: TreeReport = program.verify(path)
            return report
        return _verify(survey_tree(path, round_name, original), path, closed, progress)


def _verify(surveys: tuple[Survey, ...], path: Path, closed: set[Path], progress: Progress | None) -> TreeReport:
    memory = _Memory()
    rules = LevelRules(verify_cell, ROUND_QUESTIONS, system=SYSTEM_CONTRADICTIONS, benchmark=BENCHMARK_CONTRADICTIONS)
    walk = TreeWalk(rules, memory.add, progress=progress)
    with pause_collector():
        found = walk.find(surveys)
    pairs = frozenset((rule.scenario, rule.measured) for item in surveys for rule in item.ruleset.inferences)
    known = all(item.ruleset.is_known for item in surveys)
    logs = PublishedLogs(memory.facts, memory.files, memory.fingerprints, pairs if known else None, memory.machines)
    found += compare_cells(verify_copied_logs, logs)
    found += compare_cells(verify_stated_hashes, memory.hashes)
    found += compare_cells(verify_overlaps, memory.spans)
    found += compare_cells(verify_sources, memory.builds)
    found += compare_cells(verify_revisions, memory.revisions)
    return TreeReport(
        root=str(path),
        rounds=tuple(dict.fromkeys(item.ruleset.round for item in surveys)),
        layouts=tuple(dict.fromkeys(s.layout for item in surveys for s in item.root.submitters)),
        facts=tuple(memory.facts),
        findings=fold_systemic(
            report_closed_folders(
                closed,
                [*((item.root.path, item.root.shown) for item in surveys), (path, "")],
                add_causes(found, memory.facts),
            ),
            memory.facts,
        ),
        gaps=tuple(memory.gaps),
    )


class _Memory(Struct):
    """Facts kept of each cell for the comparison across cells: its result, where its logs are and their digests, what
    was not there."""

    facts: list[Facts] = field(default_factory=list)
    files: dict[tuple[str, str, str], str] = field(default_factory=dict)
    fingerprints: dict[tuple[str, str, str], tuple[str, ...]] = field(default_factory=dict)
    machines: dict[tuple[str, str], SystemEntry] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    builds: list[LoadGenBuild] = field(default_factory=list)
    revisions: list[Revision] = field(default_factory=list)
    hashes: list[StatedHash] = field(default_factory=list)

    def add(self, view: CellView) -> None:
        self.facts.append(_facts(view))
        self.machines[view.files.submitter.submitter, str(view.cell)] = view.system.entry
        self.gaps += choose_cell_rules(view).find_gaps(view)
        self.spans += list_spans(view)
        if (build := find_build(view)) is not None:
            self.builds.append(build)
        self.revisions += list_revisions(view)
        self.hashes += list_stated_hashes(view)
        for run in view.files.list_runs():
            key = (view.files.submitter.submitter, str(view.cell), run.name)
            self.files[key] = f"{run.folder.shown}/{DETAIL}"
        for read in list_runs(view):
            key = (view.files.submitter.submitter, str(view.cell), read.name)
            self.fingerprints[key] = read.log.compute_once(find_fingerprints)


def _facts(view: CellView) -> Facts:
    setting = read_target(read_conf(view))
    target = None
    if setting is not None:
        try:
            target = float(setting.value)
        except (TypeError, ValueError, OverflowError):
            target = None
    facts = read_facts(view, target)
    facts = replace(facts, digests=tuple(each for each in facts.digests if not view.is_foreign(each[0])))
    conf = view.files.user_conf_text
    return replace(facts, digests=(*facts.digests, ("user.conf", hash_bytes(conf)))) if conf else facts
