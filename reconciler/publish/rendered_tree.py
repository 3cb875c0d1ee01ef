"""Render everything publishable to disk, with the note that identifies it later."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from reconciler.desired.state import Desired
from reconciler.diff.change import Chosen, Difference
from reconciler.diff.difference import list_published_cells
from reconciler.diff.fingerprint import compute_fingerprint, compute_submission_fingerprint
from reconciler.observed.rendered import SHARED, Rendered, read_rendered, spell_entry, write_rendered
from reconciler.publish.tree_files import group_by_cell, remove_rendered, write_tree
from reconciler.record.index import load_record
from reconciler.record.store import find_readable
from reconciler.resource.decisions import find_freeze
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.programs import PROGRAMS
from reconciler.resource.records import Artifact
from reconciler.rules.programs import load_program
from reconciler.rules.rounds import load_ruleset
from reconciler.rules.ruleset import Ruleset
from reconciler.storage.files import RepositoryPaths
from reconciler.tree.assemble import Assembly
from reconciler.tree.content import LogRef, SubmissionContent
from reconciler.tree.layout import name_folders
from reconciler.tree.render import render
from reconciler.tree.source import DiskSources


def select_publishable(difference: Difference) -> dict[Cell, Chosen]:
    names = list_published_cells(difference.chosen)
    return {cell: chosen for cell, chosen in difference.chosen.items() if str(cell) in names}


def find_log(paths: RepositoryPaths, ref: LogRef) -> Path:
    """Return the file of a log that the tree shows. Raises StorageError if it is lost."""
    return find_readable(paths, Artifact("", ref.sha256, ref.size, "logs"))


def assemble_content(
    paths: RepositoryPaths, desired: Desired, difference: Difference, kept: Collection[Cell] = ()
) -> tuple[SubmissionContent, Ruleset]:
    """Assemble the tree of everything publishable, and its round, without the files of ``kept`` cells."""
    ruleset = load_ruleset(desired.submission.round)
    chosen = {cell: records for cell, records in select_publishable(difference).items() if cell not in kept}
    shared = {
        cell: difference.chosen.get(cell, Chosen())
        for cell in kept
        if Address(Kind.RESULT, str(cell)) in desired.by_address
    }
    assembly = Assembly(
        desired,
        chosen,
        lambda identity: load_record(paths, identity),
        lambda ref: find_log(paths, ref).read_bytes(),
        DiskSources(paths.root),
        difference.accepted,
        shared,
    )
    return assembly.assemble(), ruleset


def publish(paths: RepositoryPaths, tree: Path, desired: Desired, difference: Difference) -> Mapping[str, str]:
    """Render and return {path: sha256}. The rendered files of frozen cells are kept unchanged."""
    before = read_rendered(paths)
    if not (before.is_of(paths, tree) and tree.is_dir()):
        before = Rendered()
    cells_before = (Cell.parse(name) for name in (before.cells if difference.frozen else ()) if name != SHARED)
    kept = tuple(cell for cell in cells_before if find_freeze(cell, difference.frozen))
    content, ruleset = assemble_content(paths, desired, difference, kept)
    chosen = {cell: records for cell, records in select_publishable(difference).items() if cell not in kept}
    names = set(map(str, kept))
    if any(Address(Kind.RESULT, name) not in desired.by_address for name in names):
        names.add(SHARED)  # also keep shared files of a frozen cell, even if no spec lists them any more
    known = [path for name, files in before.files.items() if name not in names for path in files]
    rendered = tuple(render(content, ruleset))
    _note_begin(paths, spell_entry(paths, tree), before, kept, [path for path, _ in rendered])
    written = write_tree(tree, rendered, known, lambda ref: find_log(paths, ref))
    cells = {SHARED: compute_submission_fingerprint(desired, set(map(str, (*chosen, *kept))), difference.chosen)}
    for cell, records in chosen.items():
        result = desired.by_address[Address(Kind.RESULT, str(cell))]
        cells[str(cell)] = compute_fingerprint(result, list(records.all))
    if ruleset.layout in PROGRAMS:
        files = load_program(ruleset.layout).group_by_cell(written, content.cells)
    else:
        places = {name_folders(item.cell, item.official, ruleset): item.cell for item in content.cells}
        files = group_by_cell(written, places)
    for cell in kept:
        cells[str(cell)], files[str(cell)] = before.cells[str(cell)], dict(before.files.get(str(cell), {}))
    if SHARED in names:
        finished = {path: sha256 for path, sha256 in before.files.get(SHARED, {}).items() if sha256}
        files[SHARED] = {**finished, **files[SHARED]}
    write_rendered(paths, Rendered(spell_entry(paths, tree), cells, files))
    return written


def _note_begin(
    paths: RepositoryPaths, entry: str, before: Rendered, kept: Collection[Cell], written: Collection[str]
) -> None:
    """Mark the rendering as unfinished and list every file that it may leave behind, in case a full disk or a kill ends
    it."""
    cells = {str(cell): before.cells[str(cell)] for cell in kept}
    known = {path for files in before.files.values() for path in files}
    new = {path: "" for path in written if path not in known}
    files = {**before.files, SHARED: {**before.files.get(SHARED, {}), **new}}
    write_rendered(paths, Rendered(entry, cells, files))


def forget_cells(paths: RepositoryPaths, tree: Path, cells: Collection[str]) -> None:
    """Remove the files of only these cells; shared files are removed by the next rendering."""
    before = read_rendered(paths)
    files = {name: digests for name, digests in before.files.items() if name not in cells}
    kept = {path: sha256 for digests in files.values() for path, sha256 in digests.items()}
    remove_rendered(tree, {path for name in cells for path in before.files.get(name, {})} - kept.keys())
    left = {name: fingerprint for name, fingerprint in before.cells.items() if name not in cells}
    write_rendered(paths, Rendered(before.tree, left, files))
