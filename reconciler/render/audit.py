"""An audit as text and JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

from reconciler.diff.claims import AuditReport, Claim, Proof
from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.resource.quantities import show_count

VERSION = 1
_ALWAYS = frozenset(Proof) - {Proof.ACCEPTED}  # counted even where there are none
_TONES = {
    Proof.PROVEN: Tone.GOOD,
    Proof.ATTESTED: Tone.GOOD,
    Proof.ACCEPTED: Tone.DOUBT,
    Proof.MISSING: Tone.DOUBT,
    Proof.CONTRADICTED: Tone.BAD,
}


def render_text(audit: AuditReport, *, paint: Paint = show_plain, everything: bool = False) -> str:
    """Unproven claims first and whole; proven ones counted by cell, or listed when ``everything`` is asked for."""
    lines = [f"audit of {audit.commit[:12]}: {show_count(audit.records, 'record')}, {show_count(audit.logs, 'log')}"]
    cells: dict[str, list[Claim]] = {}
    for claim in audit.claims:
        cells.setdefault(claim.where, []).append(claim)
    for where, claims in cells.items():
        proofs = Counter(claim.proof for claim in claims)
        counts = ", ".join(paint(f"{proofs[p]} {p}", _TONES[p]) for p in Proof if proofs[p])
        marks = ", ".join(audit.marks.get(where, ()))
        lines.append(f"{where}: {counts}" + (f"  {paint(marks, Tone.DOUBT)}" if marks else ""))
        for claim in claims:
            if everything or claim.proof in (Proof.CONTRADICTED, Proof.MISSING, Proof.ACCEPTED):
                lines.append(f"  {paint(f'{claim.proof:<12}', _TONES[claim.proof])} {claim.what}: {claim.detail}")
    lines.append(summarise_audit(audit))
    return "\n".join(lines)


def summarise_audit(audit: AuditReport) -> str:
    counts = Counter(claim.proof for claim in audit.claims)
    return ", ".join(f"{counts[proof]} {proof}" for proof in Proof if counts[proof] or proof in _ALWAYS) + "."


def render_document(audit: AuditReport) -> dict[str, Any]:
    return {
        "version": VERSION,
        "report": "audit",
        "commit": audit.commit,
        "proof": str(audit.proof),
        "records": audit.records,
        "logs": audit.logs,
        "marks": {where: list(marks) for where, marks in audit.marks.items()},
        "claims": [{"where": c.where, "what": c.what, "proof": str(c.proof), "detail": c.detail} for c in audit.claims],
    }
