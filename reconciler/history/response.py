"""Responses to an objection: the evidence for one result, from a commit only, and amendments of results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reconciler.diff.amendment import (
    SubmissionState,
    compare_results,
    judge_amendment,
    list_differing_inputs,
    list_repeated,
)
from reconciler.diff.change import Chosen
from reconciler.diff.claims import Claim, Proof
from reconciler.diff.difference import list_published_cells
from reconciler.errors import ReconcilerError
from reconciler.history.audit import audit_cell
from reconciler.history.logs import Logs, open_logs
from reconciler.history.rendered import verify_tree_files
from reconciler.history.snapshot import Snapshot, read_snapshot
from reconciler.plan.select import find_cell
from reconciler.reconcile.decisions import RecordedDecision, check_reason, get_time, read_decider, record_decision
from reconciler.reconcile.planning import Options, compute_plan
from reconciler.record.codec import summarize
from reconciler.record.decisions import AMENDED
from reconciler.record.index import load_record
from reconciler.resource.decisions import Amendment, KeyChange
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.quantities import show_count
from reconciler.resource.records import Record
from reconciler.spec.files import compute_blob_id
from reconciler.storage import git
from reconciler.storage.escaping import escape_markdown, quote_code
from reconciler.storage.files import RECORDS, RepositoryPaths

_SHORT = 12  # characters of a commit or an id


class EvidencedRun(Struct, frozen=True):
    """A record of the result. ``brought``: the first commit that has it; ``specs``: path → the first commit whose spec
    has the bytes that the run was made from, "" if no commit has them. ``missing``: logs that are not in the commit."""

    name: str
    id: str
    record: Record
    brought: str
    specs: Mapping[str, str]
    missing: tuple[str, ...]


class Evidence(Struct, frozen=True):
    """The evidence for one result. ``claims``: the audit's claims about this cell. ``settings``: name → value and the
    line that set it. ``files``: path below the response's folder → content."""

    cell: Cell
    commit: str
    runs: tuple[EvidencedRun, ...]
    claims: tuple[Claim, ...]
    settings: Mapping[str, tuple[str, str]]
    files: Mapping[str, bytes]


def gather_evidence(root: Path, at: Snapshot, cell: Cell) -> Evidence:
    """Gather the evidence for a cell's result. Raises ReconcilerError for a cell without a result in the commit."""
    chosen = at.difference.chosen[cell]
    names = [("performance", chosen.performance), ("accuracy", chosen.accuracy), ("score", chosen.score)]
    names += [*chosen.tests, *((f"{name}-verdict", identity) for name, identity in chosen.verdicts)]
    known = [(name, identity) for name, identity in names if identity in at.records]
    if not known:
        fix = "`reconcile history CELL` lists its measurements; use --at COMMIT for another commit"
        raise ReconcilerError(f"{cell} has no result in commit {at.commit[:12]}", fix=fix)
    published = str(cell) in list_published_cells(at.difference.chosen)
    files: dict[str, bytes] = {}
    with open_logs(root, at.commit) as logs:
        runs = tuple(_gather_run(root, at, logs, name, identity, files) for name, identity in known)
        claims = tuple(audit_cell(cell, at, logs, published=published))
        # A claim about this cell's files has the cell's name. Claims about other cells are not evidence here.
        tree = tuple(claim for claim in verify_tree_files(root, at, logs) if claim.where == str(cell))
    return Evidence(cell, at.commit, runs, (*claims, *tree), _collect_settings(at, cell), files)


def _gather_run(
    root: Path, at: Snapshot, logs: Logs, name: str, identity: str, files: dict[str, bytes]
) -> EvidencedRun:
    record = at.records[identity]
    path = f"{RECORDS}/{identity}.json"
    content = git.read_file_at(root, path, at.commit, refuse=True) or b""
    files[f"{name}/record.json"] = content
    kept = [artifact for artifact in record.artifacts if artifact.place == "logs"]
    good = logs.read(kept)
    files |= {f"{name}/{artifact.name}": good[artifact.sha256] for artifact in kept if artifact.sha256 in good}
    missing = tuple(a.name for a in record.artifacts if a.sha256 not in good)
    brought = _find_first(root, path, compute_blob_id(content))
    specs = {file: _find_first(root, file, blob) for file, blob in record.spec.items()}
    return EvidencedRun(name, identity, record, brought, specs, missing)


def _find_first(root: Path, path: str, blob: str) -> str:
    """Return the oldest commit that gave a file these bytes."""
    return next(reversed(git.find_blob_commits(root, path, blob)), "")


def _collect_settings(at: Snapshot, cell: Cell) -> dict[str, tuple[str, str]]:
    """Collect the inputs of the cell's own resources: each value, and the line that set it."""
    found: dict[str, tuple[str, str]] = {}
    for address in at.desired.list_lineage(Address(Kind.RESULT, str(cell))):
        for item in at.desired.detail(address).inputs:
            if item.upstream is None:
                found.setdefault(item.name, (str(item.value), str(item.origin)))
    return dict(sorted(found.items()))


def count_unproven(claims: tuple[Claim, ...]) -> int:
    return sum(claim.proof in (Proof.MISSING, Proof.CONTRADICTED) for claim in claims)


def render_response(evidence: Evidence, objection: str) -> str:
    counts = Counter(claim.proof for claim in evidence.claims)
    listed = ", ".join(f"{counts[proof]} {proof}" for proof in Proof if counts[proof])
    parts = [
        f"# Evidence for {escape_markdown(str(evidence.cell))}",
        "",
        f"Everything here is of commit `{evidence.commit}`, and can be derived from it again: "
        f"`reconcile audit --at {evidence.commit[:_SHORT]}`.",
        "",
        *(["## The objection", "", *_quote(objection), ""] if objection else []),
        "## The answer",
        "",
        "*To be written.*",
        "",
        "## Runs",
        "",
        *(line for run in evidence.runs for line in _render_run(run)),
        "## What the audit says",
        "",
        f"{show_count(len(evidence.claims), 'claim')}: {listed}.",
        "",
        *(
            f"- **{claim.proof}** {escape_markdown(claim.what)}: {escape_markdown(claim.detail)}"
            for claim in sorted(evidence.claims, key=lambda claim: -list(Proof).index(claim.proof))
        ),
        "",
        "## Settings",
        "",
        "| setting | value | set at |",
        "|---|---|---|",
        *(_render_row(name, *found) for name, found in evidence.settings.items()),
    ]
    return "\n".join(parts) + "\n"


def _render_row(*texts: str) -> str:
    return f"| {' | '.join(quote_code(text, in_table=True) for text in texts)} |"


def _quote(text: str) -> list[str]:
    return [f"> {escape_markdown(line)}" for line in text.splitlines() or [""]]


def _render_run(run: EvidencedRun) -> list[str]:
    record = run.record
    metric = record.values.get("metric")
    stated = [f"{metric['value']} {metric['unit']}"] if metric else []
    stated += [str(record.values["validity"])] if record.values.get("validity") else []
    stated += ["passed" if record.values["passed"] else "failed"] if "passed" in record.values else []
    tool = escape_markdown(record.tool or "an earlier release")
    lines = [
        f"### {escape_markdown(run.name)}",
        "",
        f"- record {quote_code(run.id)}, made {record.started} by {tool}"
        + (f": {escape_markdown(', '.join(stated))}" if stated else ""),
        f"- its files: {quote_code(f'{run.name}/')}; in git since commit {_show_commit(run.brought)}",
    ]
    lines += [f"- spec {quote_code(path)} as of commit {_show_commit(commit)}" for path, commit in run.specs.items()]
    if record.marks:
        lines.append(f"- marked: {escape_markdown(', '.join(record.marks))}")
    if run.missing:
        names = ", ".join(map(quote_code, run.missing))
        lines.append(f"- not in this commit, in the object store only: {names}")
    return [*lines, ""]


def _show_commit(commit: str) -> str:
    return f"`{commit[:_SHORT]}`" if commit else "none: it is in no commit"


def amend(
    paths: RepositoryPaths, options: Options, text: str, since: str, objection: str, reason: str | None, *, commit: bool
) -> RecordedDecision[Amendment]:
    """Record that the result submitted in the commit ``since`` was corrected. Raises ReconcilerError if it was not."""
    why = check_reason(reason)
    seen = compute_plan(paths, options)
    base = read_snapshot(paths.root, git.resolve(paths.root, since))
    before, after = SubmissionState(base.desired, base.difference), SubmissionState(seen.desired, seen.difference)
    cell = find_cell(text, {*before.difference.chosen, *after.difference.chosen})
    old, new = (item.difference.chosen.get(cell, Chosen()) for item in (before, after))
    inputs, repeated = list_differing_inputs(before.desired, after.desired, cell), list_repeated(old, new)
    if refused := judge_amendment(cell, before, after, inputs, repeated):
        raise ReconcilerError(f"{cell} is not amended: {refused[0].why}", fix=refused[0].fix)
    by, _ = read_decider(paths)
    amendment = Amendment(
        cell=cell,
        objection=check_reason(objection),
        reason=why,
        by=by,
        made=get_time(),
        commit=base.commit,
        result=KeyChange(*compare_results(cell, before, after)),
        inputs=inputs,
        repeated=repeated,
        metric=(_show_metric(paths, cell, old), _show_metric(paths, cell, new)),
    )
    return record_decision(paths, amendment, {}, AMENDED, f"Amend {cell}", commit=commit)


def _show_metric(paths: RepositoryPaths, cell: Cell, chosen: Chosen) -> str:
    if not chosen.performance:
        return ""
    try:
        metric = summarize(load_record(paths, chosen.performance), chosen.performance).find_metric(cell.scenario)
    except ReconcilerError:
        return ""  # only the submitted commit has the record
    return " ".join(metric) if metric else ""
