"""Conditions of each cell, derived from the difference: what is built, measured and rendered, and a summary. Pure.

A stage that does not match the spec is False. A verdict (Accurate, Valid) over stale or missing runs is Unknown. The
summary is never better than its parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from reconciler.desired.state import Desired
from reconciler.diff.change import AUDIT_FAILS, Change, Chosen, Difference, Finding, Subject, find_spared
from reconciler.observed.state import Observed
from reconciler.resource.conditions import NOT_REQUIRED, CellStatus, Condition, ConditionStatus, find_worst
from reconciler.resource.decisions import find_freeze
from reconciler.resource.kinds import ACCURACY, ORDER, PERFORMANCE, Address, Cell, Kind, RunAddress
from reconciler.resource.records import IMPORTED, Recorded, Summary
from reconciler.resource.resources import Resource

_MADE = (Kind.DATASET, Kind.MODEL, Kind.ENGINE)
_INFERRED = "inferred"
ACCEPTED = "accepted"  # prefix of the mark of a cell with accepted results
_WORD = re.compile(r"[A-Za-z0-9]+")


class _Facts(Struct, frozen=True):
    """Facts about one cell: its resources with their upstream resources, changes and findings. ``brought``: the
    compliance tests imported with its runs, by name; None for a required test that was not imported."""

    resources: tuple[Resource, ...]
    changes: Mapping[str, Change]
    blocked: Mapping[str, str]
    findings: tuple[Finding, ...]
    brought: Mapping[str, Summary | None]
    rendered_wrong: tuple[tuple[str, str], ...]
    tree_present: bool
    was_rendered: bool

    def find_change(self, *kinds: Kind, mode: str = "") -> Change | None:
        """Return the first change, in pipeline order, among the cell's resources of these kinds."""
        for resource in self.resources:
            if resource.kind in kinds and (not mode or resource.address.mode == mode):
                found = self.changes.get(resource.key)
                if found is not None:
                    return found
        return None

    def list_findings(self, subject: Subject) -> list[Finding]:
        return [finding for finding in self.findings if finding.subject is subject]

    def explain(self, change: Change) -> str:
        stop = self.blocked.get(change.key, "")
        return f"blocked: {stop}" if stop else change.note


def summarise_cells(
    desired: Desired,
    recorded: Recorded,
    observed: Observed,
    difference: Difference,
    blocked: Mapping[Address, str] | None = None,
) -> tuple[CellStatus, ...]:
    """Return the conditions and measurements of every declared cell. ``blocked``: a step's address → why it is
    blocked."""
    changes = {change.key: change for change in difference.changes}
    stops = {c.key: stop for c in difference.changes if (stop := (blocked or {}).get(c.address, ""))}
    summaries = {summary.id: summary for group in recorded.by_key.values() for summary in group}
    found = []
    accepted = difference.accepted
    for cell, lineage in trace_lineages(desired).items():
        # Other cells may still need the inputs of accepted results, so their changes do not count here.
        is_accepted = not accepted.keys().isdisjoint(_list_cells(cell, lineage)) if accepted else False
        spared = find_spared(lineage, changes) if changes else frozenset()
        resources = lineage
        if spared or is_accepted:
            resources = tuple(r for r in lineage if r.address not in spared and not (is_accepted and r.kind in _MADE))
        facts = _Facts(
            resources,
            changes,
            stops,
            tuple(_find_own(cell, resources, difference.findings)),
            _find_brought(cell, resources, difference.chosen.get(cell) or Chosen(), summaries),
            tuple(observed.tree.get(str(cell), ())),
            observed.tree_present,
            str(cell) in observed.rendered,
        )
        marks = tuple(
            _list_marks(cell, _list_cells(cell, lineage), difference, inferred=_find_timed(cell, lineage) != cell)
        )
        notes = tuple(collect_notes(resources, difference, observed)) if observed.judgements else ()
        found.append(_make_status(cell, facts, difference, summaries, marks, notes))
    return tuple(found)


def _find_brought(
    cell: Cell, resources: Iterable[Resource], chosen: Chosen, summaries: Mapping[str, Summary]
) -> dict[str, Summary | None]:
    recorded = {name: summaries.get(identity) for name, identity in chosen.tests}
    results = [resource for resource in resources if resource.kind is Kind.RESULT and resource.cell == cell]
    wanted = [test for result in results for test in result.brought]
    if any(resource.kind is Kind.COMPLIANCE_TEST for resource in resources):
        wanted += [name for name, summary in recorded.items() if summary is not None and IMPORTED in summary.marks]
    return {test: recorded.get(test) for test in wanted}


def collect_notes(resources: Iterable[Resource], difference: Difference, observed: Observed) -> Iterator[str]:
    """Collect the doubts about these resources' kept logs, and the logs that could not be judged here."""
    for resource in resources:
        judgement = observed.judgements.get(difference.recorded_as.get(resource.address, ""))
        if judgement is not None:
            name = resource.address.label
            yield from (f"{name}: {item.rule}: {item.text} (wrong only if {item.premise})" for item in judgement.notes)
            yield from [f"{name}: not judged: {judgement.unknown}"] if judgement.unknown else []


def _list_marks(cell: Cell, cells: set[Cell], difference: Difference, *, inferred: bool) -> Iterator[str]:
    """``cells``: the cell, and the cell that it is inferred from or shares its accuracy run with."""
    if inferred:
        yield _INFERRED
    yield from (f"{ACCEPTED} until {item.until}" for other, item in difference.accepted.items() if other in cells)
    ordered = sorted(cells, key=lambda other: (other != cell, other))  # the cell's own freeze comes first
    freezes = [freeze for other in ordered if (freeze := find_freeze(other, difference.frozen))]
    yield from (f"frozen until {f.until}" if f.until else "frozen" for f in freezes[:1])


def _find_timed(cell: Cell, resources: Iterable[Resource]) -> Cell:
    """Return the cell whose performance run this cell publishes."""
    return next((r.cell for r in resources if r.address.mode == PERFORMANCE and r.cell is not None), cell)


def _find_own(cell: Cell, resources: tuple[Resource, ...], findings: Iterable[Finding]) -> Iterator[Finding]:
    """Select the cell's own findings; of a cell that it shares accuracy with, select only findings about accuracy."""
    cells, timed = _list_cells(cell, resources), _find_timed(cell, resources)
    for finding in findings:
        about = {own for own in cells if is_about(finding.where, own)}
        if about & {cell, timed} or (about and finding.subject is Subject.ACCURACY):
            yield finding


def trace_lineages(desired: Desired) -> dict[Cell, tuple[Resource, ...]]:
    """Return each cell's resources and all their upstream resources, in pipeline order."""
    own: dict[Cell, dict[Address, Resource]] = {}
    for resource in desired.resources:
        cell = resource.cell or resource.address.cell
        if cell is not None:
            own.setdefault(cell, {})[resource.address] = resource
    for found in own.values():
        ahead = list(found.values())
        while ahead:
            user = ahead.pop()
            for address in user.upstream:
                if user.kind is address.kind is Kind.RUN:
                    continue  # a run that only follows another run does not depend on it
                if address not in found and address in desired.by_address:
                    found[address] = desired.by_address[address]
                    ahead.append(found[address])
    return {cell: tuple(sorted(r.values(), key=lambda item: ORDER[item.kind])) for cell, r in own.items()}


def _list_cells(cell: Cell, resources: Iterable[Resource]) -> set[Cell]:
    """Return the cell and the cells that its resources belong to."""
    return {cell, *(r.cell for r in resources if r.cell is not None)}


def is_about(where: str, cell: Cell) -> bool:
    """Return True if a finding is about this cell or a part of it, such as "Run:open/box/a/Offline/performance"."""
    text = where.partition(":")[2] if where.partition(":")[0] in tuple(Kind) else where
    return text == str(cell) or text.startswith(f"{cell}/")


def _make_status(
    cell: Cell,
    facts: _Facts,
    difference: Difference,
    summaries: Mapping[str, Summary],
    also: tuple[str, ...],
    notes: tuple[str, ...],
) -> CellStatus:
    parts = (
        _judge_stage("Built", facts, facts.find_change(*_MADE), "Recorded"),
        _judge_accurate(facts),
        _judge_stage("Performed", facts, facts.find_change(Kind.RUN, mode=PERFORMANCE), "Recorded"),
        _judge_valid(facts),
        _judge_audited(facts),
        _judge_rendered(facts),
    )
    chosen = difference.chosen.get(cell) or Chosen()
    # An INVALID run is not published, but its measurement is shown.
    measured = chosen.performance or difference.recorded_as.get(RunAddress(cell, PERFORMANCE).address, "")
    performance, accuracy, score = (summaries.get(name) for name in (measured, chosen.accuracy, chosen.score))
    marks = {*also} | {mark for summary in (performance, accuracy, score) if summary for mark in summary.marks}
    return CellStatus(
        cell,
        (*parts, _judge_ready(parts, facts.findings)),
        metric=performance.find_metric(cell.scenario) if performance else None,
        accuracy=score.metric if score else None,
        validity=performance.validity if performance else "",
        marks=tuple(sorted(marks)),
        efficiency=performance.efficiency if performance and performance.address.cell == cell else None,
        notes=notes,
        margin=performance.margin if performance and performance.address.cell == cell else None,
    )


def _judge_stage(type_: str, facts: _Facts, change: Change | None, good: str) -> Condition:
    if change is None:
        return Condition(type_, ConditionStatus.TRUE, good)
    return Condition(type_, ConditionStatus.FALSE, _make_word(change.reason), facts.explain(change))


def _make_word(text: str) -> str:
    """Write a reason as one CamelCase word."""
    return "".join(part[:1].upper() + part[1:] for part in _WORD.findall(text))


def _judge(type_: str, facts: _Facts, change: Change | None, findings: Iterable[Finding], good: str) -> Condition:
    first = next(iter(findings), None)
    if first is not None:
        return Condition(type_, ConditionStatus.FALSE, _make_word(first.kind), first.message)
    if change is not None:
        return Condition(type_, ConditionStatus.UNKNOWN, _make_word(change.reason), facts.explain(change))
    return Condition(type_, ConditionStatus.TRUE, good)


def _judge_accurate(facts: _Facts) -> Condition:
    change = facts.find_change(Kind.RUN, mode=ACCURACY) or facts.find_change(Kind.SCORE)
    return _judge("Accurate", facts, change, facts.list_findings(Subject.ACCURACY), "Scored")


def _judge_valid(facts: _Facts) -> Condition:
    change = facts.find_change(Kind.RUN, mode=PERFORMANCE)
    return _judge("Valid", facts, change, facts.list_findings(Subject.RUN), "Valid")


def _judge_audited(facts: _Facts) -> Condition:
    """Return the condition of the compliance tests. Verdicts over stale or missing tests are Unknown; imported tests
    are judged by their own verify files."""
    change = facts.find_change(Kind.COMPLIANCE_TEST) or facts.find_change(Kind.VERDICT)
    if facts.brought and change is None:
        return _judge_imported(facts.brought)
    if not any(resource.kind is Kind.COMPLIANCE_TEST for resource in facts.resources):
        return Condition("Audited", ConditionStatus.TRUE, NOT_REQUIRED)
    failing = facts.list_findings(Subject.TEST)
    if change is None and not failing and any(finding.kind == "Invalid" for finding in facts.findings):
        return Condition("Audited", ConditionStatus.UNKNOWN, "NotJudged", "the run to compare with is INVALID")
    return _judge("Audited", facts, change, failing, "Passed")


def _judge_imported(tests: Mapping[str, Summary | None]) -> Condition:
    absent = [name for name, summary in tests.items() if summary is None]
    failing = [f"{name}: {summary.problem}" for name, summary in tests.items() if summary and summary.problem]
    if absent:
        message = f"the round requires {', '.join(absent)}, which the imported runs do not include"
        return Condition("Audited", ConditionStatus.FALSE, "TestMissing", message)
    if failing:
        return Condition("Audited", ConditionStatus.FALSE, AUDIT_FAILS, "; ".join(failing))
    return Condition("Audited", ConditionStatus.TRUE, "Imported")


def _judge_rendered(facts: _Facts) -> Condition:
    if facts.rendered_wrong:
        path, what = facts.rendered_wrong[0]
        more = f" and {len(facts.rendered_wrong) - 1} more" if len(facts.rendered_wrong) > 1 else ""
        replaced = what.startswith("a ")  # a link or a file in its place
        reason, shown = ("FileReplaced", f"{path} is {what}") if replaced else (f"File{_make_word(what)}", path)
        return Condition("Rendered", ConditionStatus.FALSE, reason, f"{shown}{more}")
    change = facts.find_change(Kind.RESULT)
    if change is None and facts.findings and not facts.was_rendered:
        return Condition("Rendered", ConditionStatus.UNKNOWN, "NotPublishable", "a cell with findings is not rendered")
    if change is None and not facts.tree_present:
        # In a fresh clone the tree can be rendered from the records, so its absence is not a difference.
        return Condition("Rendered", ConditionStatus.TRUE, "NotHere", "the next pass renders it")
    if change is not None and not change.note:
        return Condition(
            "Rendered", ConditionStatus.FALSE, _make_word(change.reason), "the tree was rendered from other records"
        )
    return _judge_stage("Rendered", facts, change, "Rendered")


def _judge_ready(parts: tuple[Condition, ...], findings: tuple[Finding, ...]) -> Condition:
    status = ConditionStatus.FALSE if findings else find_worst(parts)
    if status is ConditionStatus.TRUE:
        return Condition("Ready", status, "InSync")
    first = next((part for part in parts if part.status is status), parts[0])
    return Condition("Ready", status, first.reason, first.message or f"not {first.type}")
