"""Renders a submission: the same values give the same paths and bytes, on any machine, at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from reconciler.errors import ReconcilerError
from reconciler.mlperf.accuracy import add_hash, parse_accuracy
from reconciler.mlperf.endpoints_program.rules import load_endpoints_rules
from reconciler.mlperf.log_files import ACCURACY_LOG, ACCURACY_TEXT, BUILT_IN_CONF, CONFIG
from reconciler.mlperf.nameplate import CAPACITY
from reconciler.mlperf.rules.endpoints_ruleset import LAYOUT as CURVES
from reconciler.mlperf.rules.endpoints_ruleset import ROUND_PREFIX
from reconciler.mlperf.rules.ruleset import Ruleset
from reconciler.resource.kinds import Cell
from reconciler.resource.records import REHEARSAL
from reconciler.tree.code import join_declared_code, place_kept_code
from reconciler.tree.content import AccuracyLog, CellCode, CellContent, Content, LogRef, SubmissionContent, hash_content
from reconciler.tree.curve.render import render_endpoints
from reconciler.tree.curves import collect_curves
from reconciler.tree.documents import (
    collect_measurements_fields,
    encode_json,
    render_built_in_conf,
    render_cell_readme,
    render_description,
    render_source_readme,
)
from reconciler.tree.layout import Layout, choose_layout, make_cell_path, make_path, name_folders

_OURS = (ACCURACY_LOG, ACCURACY_TEXT)

Rendered = tuple[str, Content]


def render(submission: SubmissionContent, ruleset: Ruleset) -> Iterator[Rendered]:
    """Every file of the tree as (path with "/", content), sorted by path.

    ReconcilerError when a name cannot stand in a tree, when two files claim one path, when a truncated accuracy log is
    larger than the round allows, or when one folder is to be two benchmarks.
    """
    if ruleset.layout == CURVES:
        rules = load_endpoints_rules(ruleset.round.removeprefix(ROUND_PREFIX))
        yield from render_endpoints(collect_curves(submission, rules), rules)
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
    yield at(layout.readme), render_cell_readme(content, ruleset)
    if content.configuration is not None:
        yield from _endpoints(content, content.configuration, layout, at)
        return
    assert content.user_conf is not None
    assert content.accuracy_log is not None
    yield at(layout.user_conf), content.user_conf
    rules = ruleset.find_rules(content.cell.division, content.official)
    if BUILT_IN_CONF in ruleset.cell_documents and rules is not None:
        yield at(layout.built_in_conf), render_built_in_conf(rules, content.cell.scenario)
    for name, log in content.performance.items():
        yield at(layout.performance, file=name), log
    for name, log in content.accuracy.items():
        if name not in _OURS:
            yield at(layout.accuracy, file=name), log
    _check_size(content.cell, content.accuracy_log, ruleset)
    text = _hashed(content.accuracy_text, content.accuracy_log.original.sha256)
    yield at(layout.accuracy, file=ACCURACY_LOG), content.accuracy_log.kept
    yield at(layout.accuracy, file=ACCURACY_TEXT), text.encode("utf-8", "surrogateescape")
    for test, files in content.compliance.items():
        for name, log in files.items():
            yield at(layout.compliance, test=test, file=name), log
    yield from _power(content, layout, at)


def _marked(content: CellContent) -> dict[str, Any]:
    """With the word by which everybody who checks the tree knows a rehearsal."""
    return {**content.measurements, **({REHEARSAL: True} if content.rehearsal else {})}


def _endpoints(
    content: CellContent, configuration: Content, layout: Layout, at: Callable[..., str]
) -> Iterator[Rendered]:
    """Results of the endpoints harness, byte for byte: the checker reads them beside the measurements."""
    yield at(layout.endpoints, file=CONFIG), configuration
    for folder, files in (("performance", content.performance), ("accuracy", content.accuracy)):
        for name, file in files.items():
            yield at(layout.endpoints, file=f"{folder}/{name}"), file
    for folder, files in content.compliance.items():
        for name, file in files.items():
            yield at(layout.endpoints, file=f"{folder}/{name}"), file


def _power(content: CellContent, layout: Layout, at: Callable[..., str]) -> Iterator[Rendered]:
    """Byte for byte as measured: a power session proves its files by their digests, LoadGen's own logs among them."""
    for name, file in content.power.items():
        log = content.performance.get(name.removeprefix("run_1/")) if name.startswith("run_1/") else None
        if log is None:
            yield at(layout.power, file=name), file
        elif hash_content(log) != hash_content(file):
            raise ReconcilerError(
                f"{content.cell}: {name} of the power measurement is not the log of the published run",
                fix="publish the run that was measured: `reconcile import` its folder, or take `power` out",
            )


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


def _hashed(text: str, digest: str) -> str:
    """An imported accuracy.txt has its hash line already: then not a byte of it changes."""
    return text if parse_accuracy(text, ()).hash == digest else add_hash(text, digest)


def _check_size(cell: Cell, log: AccuracyLog, ruleset: Ruleset) -> None:
    kept, limit = log.kept, ruleset.accuracy_log.limit
    size = kept.size if isinstance(kept, LogRef) else len(kept)
    if size > limit:
        raise ReconcilerError(
            f"{cell}: the accuracy log has {size} bytes, {ruleset.round} allows {limit}",
            fix="truncate it first; the original stays in storage",
        )
