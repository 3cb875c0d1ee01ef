"""Renders what is publishable and puts it on disk, with the note by which a later look knows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from reconciler.desired.state import Desired
from reconciler.diff.change import Chosen, Difference
from reconciler.diff.difference import fingerprint_of, published_cells, submission_fingerprint
from reconciler.files import Places
from reconciler.mlperf.rounds import load_ruleset
from reconciler.mlperf.ruleset import Ruleset
from reconciler.observed.rendered import Rendered, read_rendered, spelled, write_rendered
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Record
from reconciler.tree.content import LogRef, SubmissionContent
from reconciler.tree.gather import gather
from reconciler.tree.render import render
from reconciler.tree.write import SHARED, by_cell, write_tree


def publishable(difference: Difference) -> dict[Cell, Chosen]:
    names = published_cells(difference.chosen)
    return {cell: chosen for cell, chosen in difference.chosen.items() if str(cell) in names}


def content_of(
    places: Places,
    desired: Desired,
    difference: Difference,
    load_record: Callable[[str], Record],
    stored: Callable[[LogRef], Path],
) -> tuple[SubmissionContent, Ruleset]:
    """What the tree of everything publishable is rendered from, and its round. Texts keep every byte: what is no UTF-8
    comes out as it went in."""

    def text(ref: LogRef) -> str:
        return stored(ref).read_bytes().decode("utf-8", "surrogateescape")

    submission = next(r for r in desired.resources if r.kind is Kind.SUBMISSION)
    ruleset = load_ruleset(str(desired.detail(submission.address).settings["round"]))
    return gather(desired, publishable(difference), load_record, text, places.root), ruleset


def publish(
    places: Places,
    tree: Path,
    desired: Desired,
    difference: Difference,
    load_record: Callable[[str], Record],
    stored: Callable[[LogRef], Path],
) -> Mapping[str, str]:
    """Gives {path: sha256} of the whole tree."""
    content, ruleset = content_of(places, desired, difference, load_record, stored)
    chosen = publishable(difference)
    before = read_rendered(places)
    known = [path for files in before.files.values() for path in files] if before.is_of(places, tree) else []
    written = write_tree(tree, render(content, ruleset), known, stored)
    cells = {SHARED: submission_fingerprint(desired, {str(cell) for cell in chosen})}
    for cell, records in chosen.items():
        result = desired.by_address[Address(Kind.RESULT, str(cell))]
        cells[str(cell)] = fingerprint_of(result, list(records.all))
    write_rendered(places, Rendered(spelled(places, tree), cells, by_cell(written, chosen)))
    return written
