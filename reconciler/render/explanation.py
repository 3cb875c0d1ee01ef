"""Why a cell's resources are or are not out of date: one value, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from reconciler.diff.change import Finding, InputChange, MovedSource, Reason
from reconciler.plan.plan import Step
from reconciler.render.causes import choose_action_word, describe_cause, word_reason
from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.render.documents import convert_plain_value, convert_setting, make_metric_document
from reconciler.render.status import render_metric_text
from reconciler.render.table import render_table
from reconciler.resource.codec import make_versioned
from reconciler.resource.decisions import FORMAT, Acceptance, AcceptanceStatus
from reconciler.resource.inputs import Input, Origin
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.quantities import join_listing, show_count
from reconciler.resource.resources import Resource
from reconciler.resource.wording import (
    name_setting,
    shorten_value,
    show_acceptance,
    show_accepted_input,
    show_change,
    show_value,
)


class Reasoned(Struct, frozen=True):
    """One resource of a cell. ``step`` None: it is in sync with ``record`` ("" for one that is rendered, not recorded).

    ``inputs``: the compared inputs. ``made``: when the record was made, for people. ``accepted``: the record has other
    inputs, but counts by decision. ``unmade``: why no step makes it, although it has no record.
    """

    resource: Resource
    step: Step | None
    inputs: tuple[Input, ...]
    record: str = ""
    made: str = ""
    accepted: bool = False
    unmade: str = ""


class Explanation(Struct, frozen=True):
    cell: Cell
    parts: tuple[Reasoned, ...]
    findings: tuple[Finding, ...] = ()
    acceptances: tuple[tuple[str, Acceptance, AcceptanceStatus], ...] = ()
    moved_sources: tuple[MovedSource, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def in_sync(self) -> bool:
        return not self.findings and all(part.step is None for part in self.parts)


def find_first_causes(explanation: Explanation) -> tuple[Reasoned, ...]:
    """Return the origins: the changed resources that depend on no other change of this cell, and those with a changed
    input that none before them has. A lost file is remade because something else needs it."""
    due = [part for part in explanation.parts if part.step is not None]
    causes = [p for p in due if p.step and p.step.change.reason is not Reason.ARTIFACT_MISSING] or due
    changed = {part.resource.address for part in causes}
    found, named = [], set[tuple[str, Origin]]()
    for part in causes:
        own = {(c.name, c.origin) for c in part.step.explained if c.upstream is None} if part.step else set()
        if own - named or not changed.intersection(part.resource.upstream):
            found.append(part)
            named |= own
    return tuple(found)


def trace_chain(explanation: Explanation) -> str:
    """Return "Engine → Run accuracy, Run performance → Score → Result": what runs again, by distance from the cause."""
    depth: dict[Address, int] = {}
    for part in explanation.parts:
        if part.step is not None:
            above = [depth[up] + 1 for up in part.resource.upstream if up in depth]
            depth[part.resource.address] = max(above, default=0)
    levels: dict[int, list[str]] = {}
    for address, level in depth.items():
        levels.setdefault(level, []).append(address.label)
    return " → ".join(", ".join(names) for _, names in sorted(levels.items()))


def collect_origins(explanation: Explanation) -> tuple[Origin, ...]:
    """Collect the spec lines behind changed inputs, to look up in git."""
    changes = (c for part in explanation.parts if part.step for c in part.step.explained)
    return tuple(dict.fromkeys(change.origin for change in changes if change.origin.line))


def render_explanation_text(explanation: Explanation, commits: Mapping[Origin, str], paint: Paint = show_plain) -> str:
    lines = [paint(str(explanation.cell), Tone.HEADING)]
    for path, item, status in explanation.acceptances:
        lines += [f"{paint('accepted', Tone.DOUBT)} {show_acceptance(item, status)}", f"    {path}"]
        lines += [f"    {show_accepted_input(*changed)}  {changed[-1].origin}" for changed in item.inputs]
    lines += map(str, explanation.moved_sources)
    lines += [f"{paint('note', Tone.DOUBT)} {note}" for note in explanation.notes]
    if explanation.in_sync:
        count = show_count(len(explanation.parts), "resource")
        lines.append(f"In sync: {count}, nothing to do. Inputs that were compared:")
        for part in explanation.parts:
            lines += _render_matched(part, paint)
        return "\n".join(lines)
    for finding in explanation.findings:
        lines.append(f"{paint('finding', Tone.BAD)} {finding.kind}: {finding.message}")
        lines += [f"    fix: {finding.fix}"] if finding.fix else []
    for part in find_first_causes(explanation):
        lines += _render_cause(part, commits, paint)
    if trace_chain(explanation):
        lines.append(f"To do: {trace_chain(explanation)}")
    blocked: dict[tuple[str, str], list[str]] = {}
    for part in explanation.parts:
        if part.step is not None and part.step.blocked:
            blocked.setdefault((part.step.blocked, part.step.fix), []).append(part.resource.address.label)
    for (reason, fix), labels in blocked.items():
        lines.append(f"{paint('blocked', Tone.BAD)} {join_listing(labels)}: {reason}")
        lines += [f"    fix: {fix}"] if fix else []
    unmade: dict[str, list[str]] = {}
    for part in explanation.parts:
        if part.step is None and part.unmade:
            unmade.setdefault(part.unmade, []).append(part.resource.address.label)
    lines += [f"{join_listing(labels)}: {why}" for why, labels in unmade.items()]
    kept = [part for part in explanation.parts if part.step is None and not part.unmade]
    if kept:
        shown = []
        for part in kept:
            how = "accepted" if part.accepted else f"{show_count(len(part.inputs), 'input')} equal"
            shown.append(f"{part.resource.address.label} ({how})")
        lines.append(f"In sync: {', '.join(shown)}")
    return "\n".join(lines)


def _render_cause(part: Reasoned, commits: Mapping[Origin, str], paint: Paint) -> list[str]:
    assert part.step is not None
    address = part.resource.address
    lines = [f"{paint(address.label, Tone.DOUBT)}: {choose_action_word(part.step)}, {describe_cause(part.step)}"]
    for change in part.step.explained:
        if change.upstream in part.step.because:
            continue
        before = f" (was {change.before_origin})" if change.before_origin not in ("", str(change.origin)) else ""
        text = show_change(change.name, change.before, change.after, address.kind)
        lines.append(f"    {text}  {change.origin}{before}")
        lines += [f"        {file}" for file in change.files]
        if commits.get(change.origin):
            lines.append(f"        {commits[change.origin]}")
    return lines


def _render_matched(part: Reasoned, paint: Paint) -> list[str]:
    record = f"record {part.record}" if part.record else part.unmade or "rendered from the records above"
    made = f", {part.made}" if part.made else ""
    if part.accepted:
        return [f"  {part.resource.address.label}: not equal, accepted; {record}{made}"]
    lines = [f"  {part.resource.address.label}: {show_count(len(part.inputs), 'input')} equal; {record}{made}"]
    rows = [(item.name, shorten_value(show_value(item.name, item.value)), str(item.origin)) for item in part.inputs]
    return lines + render_table(rows, 4, width=paint.width, is_last_loose=True)


def render_explanation_part(explanation: Explanation, commits: Mapping[Origin, str]) -> dict[str, Any]:
    """Return the explanation for the JSON report."""
    return {
        "cell": str(explanation.cell),
        "in_sync": explanation.in_sync,
        "chain": trace_chain(explanation),
        "causes": [str(part.resource.address) for part in find_first_causes(explanation)],
        "findings": convert_plain_value(explanation.findings),
        "acceptances": [render_acceptance_part(*found) for found in explanation.acceptances],
        "moved_sources": convert_plain_value(explanation.moved_sources),
        "notes": list(explanation.notes),
        "resources": [_render_part(part, commits) for part in explanation.parts],
    }


def render_acceptance_part(path: str, acceptance: Acceptance, status: AcceptanceStatus) -> dict[str, Any]:
    """Return an acceptance, with its file and whether it applies, for a JSON report."""
    return {"file": path, "stands": str(status), **make_versioned(FORMAT, acceptance)}


def _render_part(part: Reasoned, commits: Mapping[Origin, str]) -> dict[str, Any]:
    step = part.step
    return {
        "address": str(part.resource.address),
        "key": part.resource.key,
        "record": part.record or None,
        "action": step.change.action.value if step else "NoOp",
        "reason": step.change.reason.value if step else None,
        "because": [str(address) for address in step.because] if step else [],
        "blocked": (step.blocked or None) if step else None,
        "unmade": part.unmade or None,
        "changed": [_render_change(change, commits) for change in step.explained] if step else [],
        "inputs": render_inputs_part(part.inputs),
    }


def render_inputs_part(inputs: Iterable[Input]) -> list[dict[str, Any]]:
    return [{"name": i.name, "value": convert_setting(i.name, i.value), "origin": str(i.origin)} for i in inputs]


def _render_change(change: InputChange, commits: Mapping[Origin, str]) -> dict[str, Any]:
    return {
        "name": change.name,
        "before": convert_setting(change.name, change.before),
        "after": convert_setting(change.name, change.after),
        "origin": str(change.origin),
        "before_origin": change.before_origin or None,
        "commit": commits.get(change.origin),
    }


# From the submission down to the model: the inputs of each step, the commit that recorded it, and the spec line behind
# it.


class By(Struct, frozen=True):
    """A commit, as far as git knows it. ``age``: for people, "2 days ago"; ``older``: a shallow clone ends here."""

    commit: str
    author: str
    when: str
    subject: str
    age: str = ""
    older: bool = False

    def __str__(self) -> str:
        older = " or earlier: the clone is shallow" if self.older else ""
        return f"{self.commit[:7]}, {self.author}, {self.age}: {self.subject}{older}"


class Link(Struct, frozen=True):
    """One step. ``record``: "" if it is rendered or missing; ``metric``: (value, unit); ``due``: why it must be made;
    the record, if any, is then the last one. ``brought``: the commit that added the record, if any. ``line``: of its
    own inputs that a spec line sets, the one changed last, and by whom."""

    address: Address
    key: str
    upstream: tuple[Address, ...]
    record: str = ""
    metric: tuple[str, str] | None = None
    due: str = ""
    brought: By | None = None
    line: Input | None = None
    changed: By | None = None


def render_chain_text(links: Iterable[Link], paint: Paint = show_plain) -> list[str]:
    lines = ["Down the chain:"]
    for link in links:
        is_rendered = link.address.kind in (Kind.RESULT, Kind.SUBMISSION)
        missing = "rendered from the records below" if is_rendered else "no record yet"
        parts = [f"record {link.record}" if link.record else missing]
        parts += [render_metric_text(link.metric)] if link.metric else []
        parts += [f"committed in {link.brought}" if link.brought else "not committed yet"] if link.record else []
        parts += [paint(f"due: {word_reason(link.due)}", Tone.DOUBT)] if link.due else []
        lines.append(f"  {link.address.label}: {', '.join(parts)}")
        if link.line is not None:
            name = name_setting(link.line.name, link.address.kind)
            value = shorten_value(show_value(link.line.name, link.line.value))
            lines.append(f"      {link.line.origin}  {name} {value}")
            lines.append(f"          {link.changed or 'not committed yet'}")
    return lines


def render_chain_part(links: Iterable[Link]) -> list[dict[str, Any]]:
    """Return the chain for the JSON report."""
    return [
        {
            "address": str(link.address),
            "key": link.key,
            "made_from": [str(address) for address in link.upstream],
            "record": link.record or None,
            "metric": make_metric_document(link.metric),
            "due": link.due or None,
            "recorded_by": _render_commit(link.brought),
            "line": {
                "file": link.line.origin.file,
                "line": link.line.origin.line,
                "name": link.line.name,
                "value": convert_setting(link.line.name, link.line.value),
                "changed_by": _render_commit(link.changed),
            }
            if link.line is not None
            else None,
        }
        for link in links
    ]


def _render_commit(by: By | None) -> dict[str, Any] | None:
    return {"commit": by.commit, "author": by.author, "when": by.when, "subject": by.subject} if by else None
