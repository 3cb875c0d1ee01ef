"""Decisions that were written anew: they have no signature, and a name that follows from their bytes, so only a
commit's history shows what was decided first.

A decision that is made again says when that was. Of one cell and one kind, two with the same second mean that one was
edited, unless both are in force.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from reconciler.diff.claims import Claim, Proof
from reconciler.history.snapshot import Snapshot
from reconciler.record.decisions import is_decision, parse_decisions
from reconciler.resource.decisions import Acceptance, Amendment, Decisions, Freeze
from reconciler.storage import git
from reconciler.storage.git import Appearances
from reconciler.storage.untrusted_files import LARGEST_RECORD


class _Moment(Struct, frozen=True):
    """Subject of a decision, and when it was made; equal for two texts of one decision."""

    kind: str
    cell: str
    made: str


def find_rewritten_decisions(root: Path, at: Snapshot, appeared: Appearances) -> Iterator[Claim]:
    """As far as the history here goes back; a decision that was revoked is none of them."""
    present = _list_moments(at.decisions)
    if not present:
        return
    decided = {key: commit for key, commit in appeared.items() if is_decision(key[0])}
    contents = git.read_blobs(root, [blob for (path, blob) in decided if path not in present])
    first: dict[_Moment, tuple[str, str]] = {}
    for (path, blob), commit in decided.items():
        data = contents.get(blob, b"")
        if path in present:
            moments = [present[path]]
        elif len(data) <= LARGEST_RECORD:
            moments = [*_list_moments(parse_decisions({path: data}, at.decisions.today)).values()]
        else:
            moments = []
        for moment in moments:
            first.setdefault(moment, (path, commit.id))
    for path, moment in sorted(present.items()):
        was, brought = first.get(moment, (path, ""))
        if was not in present:
            detail = f"{path} is dated {moment.made}, as {was} was, which came with {brought[:12]} and reads otherwise"
            yield Claim(moment.cell, f"{moment.kind}: as it was decided", Proof.CONTRADICTED, detail)


def _list_moments(decisions: Decisions) -> dict[str, _Moment]:
    """By path."""
    known: dict[str, Acceptance | Freeze | Amendment] = {
        **decisions.acceptances,
        **decisions.freezes,
        **decisions.amendments,
    }
    return {
        path: _Moment(type(item).__name__.lower(), str(item.cell or "submission"), item.made)
        for path, item in known.items()
    }
