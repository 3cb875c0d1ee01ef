"""Renders a submission: the same values give the same paths and bytes, on any machine, at any time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reconciler.errors import ReconcilerError
from reconciler.resource.programs import PROGRAMS
from reconciler.resource.records import REHEARSAL
from reconciler.rules.nameplate import CAPACITY
from reconciler.rules.programs import load_program
from reconciler.rules.ruleset import Ruleset
from reconciler.tree.code import join_declared_code, place_kept_code
from reconciler.tree.content import CellCode, CellContent, Content, Rendered, SubmissionContent
from reconciler.tree.documents import (
    collect_measurements_fields,
    encode_json,
    render_cell_readme,
    render_description,
    render_source_readme,
)
from reconciler.tree.formats.rendering import find_rendered_format
from reconciler.tree.layout import Layout, choose_layout, make_cell_path, make_path, name_folders


def render(submission: SubmissionContent, ruleset: Ruleset) -> Iterator[Rendered]:
    """Every file of the tree as (path with "/", content), sorted by path.

    ReconcilerError when a name cannot stand in a tree, when two files claim one path, when a truncated accuracy log is
    larger than the round allows, or when one folder is to be two benchmarks.
    """
    if ruleset.layout in PROGRAMS:
        yield from load_program(ruleset.layout).render(submission, ruleset)
        return
    files: dict[str, Content] = {}
    for name, content in _files(submission, ruleset):
        if name in files:
            raise ReconcilerError(f"two files claim {name} in the submission tree")
        files[name] = content
    yield from sorted(files.items(), key=lambda item: item[0])


def _files(submission: SubmissionContent, ruleset: Ruleset) -> Iterator[Rendered]:
    layout = choose_layout(ruleset)
    for system in submission.systems:
        names = {"division": system.division, "submitter": submission.submitter, "system": system.name}
        yield (
            make_path(layout.system, **names),
            render_description(system, submission.submitter, ruleset),
        )
        if system.nameplate and CAPACITY in ruleset.power_fields:  # no earlier round knows the file
            yield make_path(layout.nameplate, **names), system.nameplate
    for content in submission.cells:
        yield from _cell(content, submission.submitter, layout, ruleset)
    for division in sorted({content.cell.division for content in submission.cells}):
        yield from _division(division, submission, layout, ruleset)


def _cell(content: CellContent, submitter: str, layout: Layout, ruleset: Ruleset) -> Iterator[Rendered]:
    place = name_folders(content.cell, content.official, ruleset)

    def at(template: str, **names: str) -> str:
        return make_cell_path(template, submitter, place, **names)

    yield at(layout.measurements), encode_json(collect_measurements_fields(_marked(content), ruleset))
    form = find_rendered_format(content.format)
    yield at(layout.readme), render_cell_readme(content, ruleset, form.DESCRIBED)
    yield from form.render_runs(content, ruleset, layout, at)


def _marked(content: CellContent) -> dict[str, Any]:
    """With the word by which everybody who checks the tree knows a rehearsal."""
    return {**content.measurements, **({REHEARSAL: True} if content.rehearsal else {})}


def _division(division: str, submission: SubmissionContent, layout: Layout, ruleset: Ruleset) -> Iterator[Rendered]:
    """What a division has once: code, documents and, in open, the model mapping."""
    names = {"division": division, "submitter": submission.submitter}
    cells = [content for content in submission.cells if content.cell.division == division]
    folders: dict[str, list[CellContent]] = {}
    for content in cells:
        folders.setdefault(name_folders(content.cell, content.official, ruleset).benchmark, []).append(content)
    kept: dict[str, list[CellCode]] = {}
    for item in submission.kept_code:
        if item.cell.division == division:
            kept.setdefault(name_folders(item.cell, item.official, ruleset).benchmark, []).append(item)
    for folder, entered in sorted(folders.items()):
        code = join_declared_code({content.cell.benchmark for content in entered}, submission)
        code |= place_kept_code(folder, kept.get(folder, ()), code)
        if "README.md" not in code:
            notes = {content.code for content in entered if content.code}
            code["README.md"] = render_source_readme(folder, tuple(sorted(notes)))
        for name, file in code.items():
            yield make_path(layout.source, **names, benchmark=folder, file=name), file
    for name, document in submission.documents.items():
        if name in submission.official_only and not ruleset.binds(division, "accuracy"):
            continue
        yield make_path(layout.document, **names, file=name), document
    mapping = _model_mapping(cells)
    if mapping and ruleset.binds(division, "model_mapping"):
        yield make_path(layout.model_mapping, **names), encode_json(mapping)


def _model_mapping(cells: list[CellContent]) -> dict[str, str]:
    """{folder: official benchmark} for the folders that are named otherwise."""
    mapping: dict[str, str] = {}
    for content in sorted(cells, key=lambda content: content.cell):
        folder = content.cell.benchmark
        if mapping.setdefault(folder, content.official) != content.official:
            raise ReconcilerError(f"{folder} is entered as {mapping[folder]} and as {content.official}")
    return {folder: official for folder, official in mapping.items() if folder != official}
