"""Rendering of a cell's runs, by result format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from reconciler.errors import ReconcilerError
from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, BUILT_IN_CONF
from reconciler.resource.kinds import Cell
from reconciler.resource.programs import find_program_of_results
from reconciler.rules.accuracy import add_hash, parse_accuracy
from reconciler.rules.programs import load_program
from reconciler.rules.ruleset import Ruleset
from reconciler.tree.content import AccuracyLog, CellContent, LogRef, Rendered, hash_content
from reconciler.tree.documents import render_built_in_conf
from reconciler.tree.layout import Layout, MakePath


class RenderedFormat(Protocol):
    """Renderer for one result format. ``DESCRIBED``: text of a cell's README.md about the files of its runs."""

    DESCRIBED: str

    def render_runs(self, content: CellContent, ruleset: Ruleset, layout: Layout, at: MakePath) -> Iterator[Rendered]:
        """Render the files of a scenario folder except its measurements and its README.md. ``at``: makes a path in the
        layout."""


_OURS = (ACCURACY_LOG, ACCURACY_TEXT)


class LoadGenRuns:
    """Renderer for LoadGen's files."""

    DESCRIBED = """\
- performance run: `performance/run_1/`, with the settings in `user.conf`, which are those of this very run
- accuracy run: `accuracy/`; `accuracy.txt` carries the SHA-256 of the untruncated accuracy log"""

    def render_runs(self, content: CellContent, ruleset: Ruleset, layout: Layout, at: MakePath) -> Iterator[Rendered]:
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


def _power(content: CellContent, layout: Layout, at: MakePath) -> Iterator[Rendered]:
    """Keep every byte as measured: a power session lists the digests of its files, including LoadGen's own logs."""
    for name, file in content.power.items():
        log = content.performance.get(name.removeprefix("run_1/")) if name.startswith("run_1/") else None
        if log is None:
            yield at(layout.power, file=name), file
        elif hash_content(log) != hash_content(file):
            problem = f"{content.cell}: {name} of the power measurement is not the log of the published run"
            fix = "publish the run that was measured: `reconcile import` its folder, or take `power` out"
            raise ReconcilerError(problem, fix=fix)


def _hashed(text: str, digest: str) -> str:
    """An imported accuracy.txt already has its hash line, so it is not changed."""
    return text if parse_accuracy(text, ()).hash == digest else add_hash(text, digest)


def _check_size(cell: Cell, log: AccuracyLog, ruleset: Ruleset) -> None:
    kept, limit = log.kept, ruleset.accuracy_log.limit
    size = kept.size if isinstance(kept, LogRef) else len(kept)
    if size > limit:
        problem = f"{cell}: the accuracy log has {size} bytes, {ruleset.round} allows {limit}"
        raise ReconcilerError(problem, fix="truncate it first; the original stays in storage")


def find_rendered_format(results: str) -> RenderedFormat:
    program = find_program_of_results(results)
    found: RenderedFormat = load_program(program).find_cell_format(results) if program else LoadGenRuns()
    return found
