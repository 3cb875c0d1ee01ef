"""Claims of an audit about a commit, as values: each with how far it is proven."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field


class Proof(StrEnum):
    """From best to worst. PROVEN: derived again here, with the same outcome. ATTESTED: the digest fits, and a
    program that did not run again says so. ACCEPTED: somebody decided that it counts, and nothing proves it.
    MISSING: what would prove it is not in this commit. CONTRADICTED: derived again, and it differs."""

    PROVEN = "proven"
    ATTESTED = "attested"
    ACCEPTED = "accepted"
    MISSING = "missing"
    CONTRADICTED = "contradicted"


class Claim(Struct, frozen=True):
    """``where`` is a cell, a path, or "submission"; ``detail`` says from what it was derived, or both values where
    they differ."""

    where: str
    what: str
    proof: Proof
    detail: str = ""


class AuditReport(Struct, frozen=True):
    """``marks``: by cell what every reader of its results must know, such as "rehearsal"."""

    commit: str
    claims: tuple[Claim, ...]
    records: int = 0
    logs: int = 0
    marks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def proof(self) -> Proof:
        return find_worst_proof(claim.proof for claim in self.claims)


def find_worst_proof(proofs: Iterable[Proof]) -> Proof:
    """No green over red. Nothing claimed is nothing proven."""
    order = list(Proof)
    return max(proofs, key=order.index, default=Proof.MISSING)
