"""README.md of a response: the objection, and the evidence that speaks to it."""

from __future__ import annotations

from collections import Counter

from reconciler.diff.claims import Claim, Proof
from reconciler.history.response import Evidence, EvidencedRun
from reconciler.resource.quantities import show_count
from reconciler.storage.escaping import escape_markdown, quote_code

_SHORT = 12  # characters of a commit or an id


def render_response(evidence: Evidence, objection: str) -> str:
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
        _count(evidence.claims),
        "",
        *(_render_claim(claim) for claim in sorted(evidence.claims, key=_rank)),
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


def _rank(claim: Claim) -> int:
    return -list(Proof).index(claim.proof)


def _count(claims: tuple[Claim, ...]) -> str:
    counts = Counter(claim.proof for claim in claims)
    listed = ", ".join(f"{counts[proof]} {proof}" for proof in Proof if counts[proof])
    return f"{show_count(len(claims), 'claim')}: {listed}."


def _render_claim(claim: Claim) -> str:
    return f"- **{claim.proof}** {escape_markdown(claim.what)}: {escape_markdown(claim.detail)}"
