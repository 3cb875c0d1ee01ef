"""The description of a system, which is published and stales nothing, against what the records say that it ran on."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.diff.claims import Claim, Proof
from reconciler.history.snapshot import Snapshot
from reconciler.resource.kinds import Cell
from reconciler.resource.records import Record
from reconciler.resource.settings import COUNTED

_NODES = "number_of_nodes"


def verify_described(cell: Cell, name: str, record: Record, at: Snapshot) -> Iterator[Claim]:
    """Hardware that the spec declared when the run was made, and that was looked for; nodes that it was placed on, of
    which some may be no part of the system."""
    described = at.desired.submission.systems[cell.system].description
    stated = {field: text for field in COUNTED if (text := str(described.get(field, "")).strip()).isdecimal()}
    ran = {field: record.inputs[setting].value for field, setting in COUNTED.items() if setting in record.inputs}
    for field in sorted(stated.keys() & ran.keys()):
        if stated[field] != str(ran[field]):
            detail = f"{field} is {stated[field]} in the description of {cell.system}, and it ran on {ran[field]}"
            yield Claim(str(cell), f"{name}: {field}", Proof.CONTRADICTED, detail)
    placed = record.facts["machine.nodes"].value if "machine.nodes" in record.facts else None
    if (
        isinstance(placed, list)
        and placed
        and _NODES in stated.keys() - ran.keys()
        and stated[_NODES] != str(len(placed))
    ):
        detail = f"{_NODES} is {stated[_NODES]} in the description of {cell.system}, and it was placed on {len(placed)}"
        yield Claim(str(cell), f"{name}: {_NODES}", Proof.MISSING, detail)
