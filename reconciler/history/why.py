"""The chain that `why` shows: each step with the commit that recorded it and the commit that last changed its input."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from msgspec import Struct, field

from reconciler.diff.acceptance import BUILT
from reconciler.diff.change import find_spared
from reconciler.diff.conditions import collect_notes, is_about, trace_lineages
from reconciler.history.commit_records import name_record
from reconciler.plan.plan import Step
from reconciler.reconcile.line_commits import find_commits
from reconciler.reconcile.moved_sources import list_moved_sources
from reconciler.reconcile.planning import PlanResult
from reconciler.render.explanation import By, Explanation, Link, Reasoned
from reconciler.resource.inputs import Input, Origin
from reconciler.resource.kinds import ORDER, Address, Cell, Kind
from reconciler.resource.quantities import show_age
from reconciler.resource.resources import Resource
from reconciler.spec.nodes import MapNode, Node, convert_plain, parse
from reconciler.storage import git
from reconciler.storage.files import RECORDS, RepositoryPaths


def build_why_chain(seen: PlanResult, cell: Cell) -> tuple[Link, ...]:
    """Build the chain from the submission to the sources of its cell."""
    submission = [r for r in seen.desired.resources if r.kind is Kind.SUBMISSION]
    own = sorted(trace_lineages(seen.desired)[cell], key=lambda r: ORDER[r.kind], reverse=True)
    resources = [*submission, *own]
    due = {a: step for step in seen.plan.steps for a in (step.change.address, *step.shared)}
    records = {
        r.address: seen.difference.recorded_as.get(r.address, "")
        or (due[r.address].change.previous if r.address in due else "")
        for r in resources
    }
    metrics = {s.id: s.metric for r in resources for s in seen.recorded.by_address.get(r.address, ())}
    brought = _find_adding_commits(seen, [record for record in records.values() if record])
    inputs = {r.address: seen.desired.detail(r.address).inputs for r in resources}
    # Inputs that a line of a spec sets.
    lines = {at: [i for i in own if i.origin.line and i.value is not None] for at, own in inputs.items()}
    commits = find_value_commits(seen.paths, dict.fromkeys(i.origin for found in lines.values() for i in found))
    links = []
    for resource in resources:
        record = records[resource.address]
        line = max(reversed(lines[resource.address]), key=lambda item: _get_commit_time(commits, item), default=None)
        results = (r.address for r in own if r.kind is Kind.RESULT)
        upstream = tuple(results) if resource in submission else resource.upstream
        links.append(
            Link(
                address=resource.address,
                key=resource.key,
                upstream=upstream,
                record=record,
                metric=metrics.get(record),
                due=str(due[resource.address].change.reason) if resource.address in due else "",
                brought=brought.get(record),
                line=line,
                changed=_convert_commit(commits.get(line.origin)) if line is not None else None,
            )
        )
    return tuple(links)


class _Version(Struct):
    """A spec file at one time. ``paths``: place → path of the value there; ``values``: path → value and place."""

    paths: dict[Origin, Sequence[str]] = field(default_factory=dict)
    values: dict[Sequence[str], tuple[Any, Origin]] = field(default_factory=dict)

    def add(self, node: Node, path: tuple[str, ...] = ()) -> None:
        if not isinstance(node, MapNode):
            self._note(path, convert_plain(node), node.origin)
            return
        self._note(path, None, node.origin)
        for name, item in node.items.items():
            self._note((*path, name, "name"), None, node.keys[name])
            self.add(item, (*path, name))

    def _note(self, path: tuple[str, ...], value: Any, origin: Origin) -> None:
        self.paths.setdefault(origin, path)
        self.values[path] = value, origin


def find_value_commits(paths: RepositoryPaths, origins: Iterable[Origin]) -> dict[Origin, git.LineCommit]:
    """Find who last changed the value at each place of a spec, as far as git knows. Edits of other values on its line,
    of comments and of the indentation do not count."""

    @cache
    def read(file: str, commit: str) -> _Version:
        data = git.read_file_at(paths.root, file, commit) if commit else (paths.root / file).read_bytes()
        root, _ = parse((data or b"").decode(errors="replace"), file)
        version = _Version()
        if root is not None:
            version.add(root)
        return version

    def trace(origin: Origin, commit: git.LineCommit) -> git.LineCommit:
        here = read(origin.file, "")
        path = here.paths.get(origin)
        while path is not None:
            earlier = f"{commit.commit}^" if commit.committed else "HEAD"
            before, place = read(origin.file, earlier).values.get(path, (None, origin))
            if place is origin or before != here.values[path][0]:
                break
            found = git.find_line_commits(paths.root, origin.file, [place.line], earlier)
            if place.line not in found:
                break
            commit = found[place.line]
        return commit

    return {origin: trace(origin, commit) for origin, commit in find_commits(paths, origins).items()}


def _get_commit_time(commits: Mapping[Origin, git.LineCommit], item: Input) -> float:
    """Return the sort key. An uncommitted edit is the newest, and a file unknown to git is the oldest."""
    commit = commits.get(item.origin)
    if commit is None:
        return float("-inf")
    return commit.when.timestamp() if commit.when else float("inf")


def _convert_commit(commit: git.LineCommit | None) -> By | None:
    if commit is None or not commit.committed or commit.when is None:
        return None
    return _make_by(commit.commit, commit.author, commit.when, commit.summary, older=commit.boundary)


def _find_adding_commits(seen: PlanResult, records: list[str]) -> dict[str, By]:
    """Return record → the commit that added it. Records never change, so their paths suffice."""
    paths = [f"{RECORDS}/{record}.json" for record in records]
    found = git.find_appearances(seen.paths.root, "HEAD", paths) if paths else {}
    return {name_record(path): _make_by(c.id, c.author, c.when, c.subject) for (path, _), c in found.items()}


def _make_by(commit: str, author: str, when: datetime, subject: str, *, older: bool = False) -> By:
    utc = when.astimezone(UTC).isoformat(timespec="seconds")
    return By(commit, author, utc, subject, show_age(time.time() - when.timestamp()), older)


def explain(seen: PlanResult, cell: Cell, lineage: Sequence[Resource]) -> Explanation:
    steps: dict[Address, Step] = {}
    for step in seen.plan.steps:
        steps.update(dict.fromkeys((step.change.address, *step.shared), step))
    made = {s.id: s.started for group in seen.recorded.by_key.values() for s in group}
    now = time.time()
    parts = []
    accepted = seen.difference.accepted
    for_others = find_spared(lineage, {step.change.key: step.change for step in steps.values()})
    for resource in lineage:
        record = seen.difference.recorded_as.get(resource.address, "")
        inputs = seen.desired.detail(resource.address).inputs
        # Inputs of accepted results may be remade for other cells.
        spared = resource.address in for_others or (resource.kind in BUILT and cell in accepted)
        due = None if spared else steps.get(resource.address)
        instead = cell in accepted and any(key.address == resource.address for key in accepted[cell].accepted)
        unmade = seen.difference.unmade.get(resource.address, "")
        parts.append(Reasoned(resource, due, inputs, record, _format_age(made.get(record, ""), now), instead, unmade))
    findings = tuple(finding for finding in seen.plan.findings if is_about(finding.where, cell))
    decided = tuple(found for found in seen.difference.acceptances if found[1].cell == cell)
    made_from = {resource.address for resource in lineage}
    moved = tuple(source for source in list_moved_sources(seen) if source.address in made_from)
    notes = tuple(collect_notes(lineage, seen.difference, seen.observed))
    return Explanation(cell, tuple(parts), findings, decided, moved, notes)


def _format_age(started: str, now: float) -> str:
    try:
        return show_age(now - datetime.fromisoformat(started).timestamp())
    except ValueError:
        return ""
