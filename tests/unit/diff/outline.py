"""A difference and the conditions of its cells in short, without messages; `stories.yaml` holds what is expected."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from reconciler.diff.change import Difference, Work
from reconciler.resource.conditions import CONDITIONS, CellStatus, ConditionStatus

EXPECTED: dict[str, dict[str, Any]] = YAML(typ="safe").load(Path(__file__).with_name("stories.yaml"))


def outline(found: Difference, cells: Iterable[CellStatus]) -> dict[str, list[str]]:
    """Changes with reasons, drifts, kinds of findings, published records, and conditions that are not true."""
    changes = [
        f"{c.address} {c.action} {c.reason}"
        + (f" {c.how}" if c.how not in (Work.MAKE, Work.RENDER) else "")
        + (f" {len(c.restore)}" if c.restore else "")
        for c in found.changes
    ]
    reported = {
        "changes": changes,
        "drifts": [f"{d.address} {d.what} {d.presence}" for d in found.drifts],
        "findings": [f"{f.kind} {f.where}" for f in found.findings],
        "undeclared": [str(address) for address in found.undeclared],
        "published": [
            f"{cell} {' '.join(identity or '-' for identity in chosen.all)}" for cell, chosen in found.chosen.items()
        ],
        "conditions": [_show(cell) for cell in cells],
    }
    return {
        name: [line.replace("open/box/", "").replace(":", " ") for line in lines]
        for name, lines in reported.items()
        if lines
    }


def _show(cell: CellStatus) -> str:
    assert tuple(condition.type for condition in cell.conditions) == CONDITIONS
    figures = [" ".join(pair) for pair in (cell.metric, cell.accuracy, cell.efficiency) if pair]
    red = [f"{c.type}={c.status}/{c.reason}" for c in cell.conditions if c.status is not ConditionStatus.TRUE]
    return " ".join([f"{cell.cell} {cell.ready}", *figures, *filter(None, [cell.validity]), *cell.marks, *red])
