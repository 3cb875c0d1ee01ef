"""`reconcile compare A B`: compare the results of two commits, trees or systems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from reconciler.cli.shared.options import complete_refs, json_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.repository import find_repository
from reconciler.diff.timeline import ResultComparison, Side
from reconciler.errors import IN_SYNC
from reconciler.history.compare import compare, read_sides
from reconciler.history.snapshot import read_snapshot
from reconciler.history.trees import read_tree_sides
from reconciler.render.documents import convert_plain_value, render_document
from reconciler.render.timeline import render_comparison_text
from reconciler.resource.kinds import Cell
from reconciler.storage import git

_ONE = click.Argument(["one"], metavar="A", shell_complete=complete_refs)
_OTHER = click.Argument(["other"], metavar="B", required=False, shell_complete=complete_refs)


@click.command("compare")
@takes([_ONE, _OTHER, json_option()])
def command(one: str, other: str | None, as_json: bool) -> int:
    """Compare the results of A and B. Each is a submission tree, a system of this repository, or a commit.

    Results are matched by benchmark and scenario, and if several systems fit, by division, accelerator and count. A
    ratio above 1 means that B is larger. The headroom is that of the latency bound. For curves of MLPerf Endpoints it
    lists the points that the other beats on both axes.
    """
    if other is None:
        one, dots, other = one.partition("..")
        if not dots or not one or not other:
            raise click.UsageError("name two: reconcile compare A B, or A..B of two commits")
    found = compare((one, other), _sides(one), _sides(other))
    if as_json:
        say_json(report_comparison(found))
    else:
        say(render_comparison_text(found))
    return IN_SYNC


def report_comparison(found: ResultComparison) -> dict[str, Any]:
    """For ``--json`` and for the page."""
    pairs = [{**convert_plain_value(p), "ratio": p.ratio, "per_accelerator": p.per_accelerator} for p in found.pairs]
    curves = [{**convert_plain_value(curve), "ratio": curve.ratio} for curve in found.curves]
    return render_document("compare", names=found.names, pairs=pairs, alone=found.alone, curves=curves)


def _sides(name: str) -> dict[Cell, Side]:
    """A folder is a tree; anything else is of this repository."""
    return read_tree_sides(Path(name)) if Path(name).is_dir() else read_own_sides(find_repository().root, name)


def read_own_sides(root: Path, name: str) -> dict[Cell, Side]:
    """A system is one that HEAD declares; anything else is a commit."""
    here = read_snapshot(root, git.resolve(root, "HEAD"))
    if any(resource.cell is not None and resource.cell.system == name for resource in here.desired.resources):
        return {cell: side for cell, side in read_sides(here).items() if cell.system == name}
    return read_sides(read_snapshot(root, git.resolve(root, name)))
