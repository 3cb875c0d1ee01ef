"""Claims of an audit about a commit, as values, each with its level of proof."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace


class Proof(StrEnum):
    """From best to worst. PROVEN: derived again here with the same outcome. ATTESTED: the digest matches, and a program
    that was not run again confirms it. ACCEPTED: accepted by a user's decision, without proof. MISSING: the proof is
    not in this commit. CONTRADICTED: derived again with another outcome."""

    PROVEN = "proven"
    ATTESTED = "attested"
    ACCEPTED = "accepted"
    MISSING = "missing"
    CONTRADICTED = "contradicted"


class Claim(Struct, frozen=True):
    """``where``: a cell, a path, or "submission"; ``detail``: the source of the derivation, or both values if they
    differ."""

    where: str
    what: str
    proof: Proof
    detail: str = ""


class AuditReport(Struct, frozen=True):
    """``marks``: by cell, the marks that every reader of its results must know, such as "rehearsal"."""

    commit: str
    claims: tuple[Claim, ...]
    records: int = 0
    logs: int = 0
    marks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def proof(self) -> Proof:
        return find_worst_proof(claim.proof for claim in self.claims)

    def with_claims(self, claims: Iterable[Claim]) -> AuditReport:
        """Return the report with these claims, each subject's together, in the order of the subjects here."""
        order = {where: index for index, where in enumerate(dict.fromkeys(claim.where for claim in self.claims))}
        return replace(self, claims=tuple(sorted(claims, key=lambda claim: order.get(claim.where, len(order)))))


def find_worst_proof(proofs: Iterable[Proof]) -> Proof:
    """Return the worst proof; MISSING if there are no claims."""
    order = list(Proof)
    return max(proofs, key=order.index, default=Proof.MISSING)
