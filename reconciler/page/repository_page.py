"""Data of the page, read from this repository as by the commands that print the same with `--json`."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from reconciler.check.engine import check_tree, load_verifier
from reconciler.cli.logs import find_log, list_logs
from reconciler.cli.plan import report_plan
from reconciler.cli.status import report_status
from reconciler.diff.timeline import compute_ratio
from reconciler.errors import ReconcilerError
from reconciler.execute.outcome import QueuedStep
from reconciler.execute.queue_status import watch_jobs
from reconciler.history.compare import compare, read_own_sides, read_tree_sides, resolve_side
from reconciler.history.pull_request import assess_merge
from reconciler.history.record_history import RecordHistory, read_record_history
from reconciler.page.cell_report import report_cell, report_run
from reconciler.page.live_report import is_timed, report_live
from reconciler.page.plan_snapshots import PlanSnapshot, PlanSnapshots
from reconciler.plan.select import find_cell
from reconciler.reconcile.line_commits import show_line_commit
from reconciler.reconcile.planning import Options
from reconciler.reconcile.rendered_check import check_rendered
from reconciler.record.store import find_readable
from reconciler.render.documents import convert_plain_value, make_metric_document, render_document
from reconciler.render.findings import render_findings_part
from reconciler.render.plan import summarise_plan
from reconciler.render.pull_request import render_impact
from reconciler.render.timeline import report_comparison
from reconciler.resource.kinds import PERFORMANCE, Address, Cell, Kind, RunAddress
from reconciler.resource.parts import PARTS
from reconciler.spec.families import find_chip, find_starting_value
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.untrusted_files import read_regular

# A spec file for the page: its lines as written, each with the commit that set it.

_LARGEST = 16 << 20  # bytes


def report_spec(paths: RepositoryPaths, file: str) -> dict[str, Any]:
    """Report a spec file. ``file``: as named in origins. Raises ReconcilerError."""
    try:
        text = read_regular(paths.root / file, _LARGEST).decode("utf-8", "replace")
    except OSError as error:
        raise ReconcilerError(f"{file}: {error.strerror}", fix="look again: the file has changed since") from error
    lines = text.splitlines()
    commits = git.find_line_commits(paths.root, file, range(1, len(lines) + 1))
    return {
        "file": file,
        "title": file,
        "lines": [
            {
                "number": number,
                "text": line,
                "commit": commits[number].commit if number in commits else "",
                "said": show_line_commit(commits[number]) if number in commits else "",
            }
            for number, line in enumerate(lines, 1)
        ],
    }


_LOG_TAIL = 256 << 10  # bytes of a log that are shown
_LARGEST_LOG = 1 << 30
_QUEUE_ASKED = 10.0  # seconds between two queries


class RepositoryPage(Struct, dict=True):
    """``trees``: name → a submission tree that may be shown in addition to the rendered one. Slow views are computed on
    request, cached until the repository changes, and postponed while a run is timed. Each method raises ReconcilerError
    with a fix, like the command whose document it returns."""

    paths: RepositoryPaths
    options: Options
    trees: Mapping[str, Path] = field(default_factory=dict)
    _kept: dict[tuple[str, ...], tuple[object, dict[str, Any]]] = field(default_factory=dict)
    _history: RecordHistory | None = None
    _jobs: tuple[float, tuple[QueuedStep, ...]] = (float("-inf"), ())
    _alone: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self._looks = PlanSnapshots(self.paths, self.options, lambda: self.is_timed())

    @property
    def name(self) -> str:
        return self.paths.root.resolve().name

    def is_timed(self) -> bool:
        """Return True while a run is being timed, so that slow work must wait."""
        return is_timed(self.paths)

    def look(self) -> PlanSnapshot:
        return self._looks.take()

    def find(self, cell: str) -> str:
        """Return the name of the one matching cell. Raises ReconcilerError that lists the candidates."""
        return str(_find_cell(self.look(), cell))

    def read_matrix(self) -> dict[str, Any]:
        """Return `status` and the time of its plan."""
        look = self.look()
        return self._keep(look, ("matrix",), lambda: self._report_matrix(look))

    def _report_matrix(self, look: PlanSnapshot) -> dict[str, Any]:
        desired = look.seen.desired
        named = {"submission": desired.name, "round": desired.submission.round, "looked": _show_now()}
        status = report_status(look.seen, look.cells)
        cells = [
            {
                **entry,
                **_describe_hardware(look, found.cell),
                "last": None if found.metric else _find_last(look, found.cell),
            }
            for entry, found in zip(status["cells"], look.cells, strict=True)
        ]
        return {**status, "cells": cells, **named}

    def read_cell(self, cell: str) -> dict[str, Any]:
        """Return `show`, `why` and the measurements."""
        look = self.look()
        return self._keep(look, ("cell", cell), lambda: _report_cell(look, cell))

    def read_run(self, cell: str, record: str) -> dict[str, Any]:
        """Return another performance run of a cell, like the ``performance`` of ``read_cell``."""
        look = self.look()
        return self._keep(look, ("run", cell, record), lambda: report_run(look, _find_cell(look, cell), record))

    def read_log(self, cell: str, name: str) -> dict[str, Any]:
        """Return `logs --print`: the end of one log as text."""
        look = self.look()
        chosen = _find_cell(look, cell)
        log = find_log(name, [log for r in look.lineages[chosen] for log in list_logs(look.seen, r)])
        try:
            data = read_regular(find_readable(self.paths, log.artifact), _LARGEST_LOG)
        except OSError as error:
            fix = "`reconcile` restores it from git or from its other copy"
            raise ReconcilerError(f"{log.name}: {error.strerror}", fix=fix) from error
        shown = data[-_LOG_TAIL:]
        said = {"text": shown.decode("utf-8", "replace"), "skipped": len(data) - len(shown)}
        return {"cell": cell, "name": log.name, "record": log.summary.id, "title": name, **said}

    def list_specs(self) -> tuple[str, ...]:
        return self.look().spec_files

    def read_spec(self, file: str) -> dict[str, Any]:
        look = self.look()
        if file not in look.spec_files:
            raise ReconcilerError(f"no value of this submission comes from {file!r}", fix="follow the link of a value")
        return self._keep(look, ("spec", file), lambda: report_spec(self.paths, file))

    def read_plan(self) -> dict[str, Any]:
        look = self.look()
        return self._keep(look, ("plan",), lambda: {**report_plan(look.seen, look.cells), **_sum_up(look)})

    def read_impact(self, base: str, head: str) -> dict[str, Any]:
        """Return `pr`."""
        root = self.paths.root
        at = tuple(git.resolve(root, name) for name in (base, head))
        return self._keep_slow(at, ("impact",), lambda: render_impact(assess_merge(self.paths, *at).impact))

    def read_history(self, cell: str) -> dict[str, Any]:
        """Return `history` and `blame`: results, and the steps between them."""
        tip = git.resolve(self.paths.root, "HEAD")
        past = self._read_past(tip)
        known = {str(item): item for item in past.cells}
        chosen = known.get(cell) or find_cell(cell, known.values())
        return self._keep_slow(tip, ("history", str(chosen)), lambda: _report_history(past, chosen))

    def read_recent(self) -> dict[str, Any]:
        """Return the newest committed results of all cells."""
        tip = git.resolve(self.paths.root, "HEAD")
        return self._keep_slow(tip, ("recent",), lambda: _report_recent(self._read_past(tip)))

    def _read_past(self, tip: str) -> RecordHistory:
        if self._history is None or self._history.tip != tip:
            self._refuse_timed()
            self._history = read_record_history(self.paths.root, tip)
        return self._history

    def read_comparison(self, one: str, other: str) -> dict[str, Any]:
        """Return `compare` of two commits or systems, or of trees with names from ``list_trees``."""
        at = tuple(self._identify(name) for name in (one, other))
        return self._keep_slow(at, ("compare",), lambda: self._compare(one, other))

    def _identify(self, name: str) -> str:
        """Return what the name of a side refers to now."""
        known = (*self.list_systems(), *self.trees)
        if name in known:
            return f"{name} {git.resolve(self.paths.root, 'HEAD')}"
        return resolve_side(self.paths.root, name, known, "`reconcile page --tree PATH` adds a tree")

    def _compare(self, one: str, other: str) -> dict[str, Any]:
        """Compare two sides. A path is never read as a tree; only the trees given on the command line are."""
        sides = [
            read_tree_sides(self.trees[name]) if name in self.trees else read_own_sides(self.paths.root, name)
            for name in (one, other)
        ]
        return report_comparison(compare((one, other), *sides))

    def list_systems(self) -> tuple[str, ...]:
        return tuple(self.look().seen.desired.submission.systems)

    def list_refs(self) -> tuple[str, ...]:
        return git.list_refs(self.paths.root)

    def list_trees(self) -> tuple[str, ...]:
        return (RENDERED, *self.trees)

    def read_findings(self, tree: str, command: str) -> dict[str, Any]:
        look = self.look()
        if tree not in self.list_trees() or command not in FINDINGS:
            raise ReconcilerError(f"there is no tree {tree!r} to look at", fix="name it: reconcile page --tree PATH")
        path = look.seen.tree if tree == RENDERED else self.trees[tree]
        if not path.is_dir():
            raise ReconcilerError("there is no rendered tree yet", fix="`reconcile` renders it")
        return self._keep_slow(look, ("findings", tree, command), lambda: _report_findings(look, tree, command, path))

    def _keep_slow(self, at: object, name: tuple[str, ...], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Cache a slow view like ``_keep``, but never compute it while a run is timed."""

        def make_quietly() -> dict[str, Any]:
            self._refuse_timed()
            return make()

        return self._keep(at, name, make_quietly)

    def _refuse_timed(self) -> None:
        if self.is_timed():
            raise ReconcilerError("a run is being timed: this is worked out when it has ended", fix="look again then")

    def read_live(self) -> dict[str, Any]:
        return {**report_live(self.paths, self._find_jobs()), "looked": _show_now()}

    def _find_jobs(self) -> tuple[QueuedStep, ...]:
        """Find queued jobs. A shared queue is not queried for every view; one that is unreachable from here yields
        nothing."""
        if time.monotonic() - self._jobs[0] >= _QUEUE_ASKED:
            found: tuple[QueuedStep, ...] = ()
            with suppress(ReconcilerError):
                found = watch_jobs(self.paths)()
            self._jobs = time.monotonic(), found
        return self._jobs[1]

    def _keep(self, at: object, name: tuple[str, ...], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Cache a value; only one is computed at a time. ``at``: the state that it was made from. The value is
        recomputed when the state differs."""
        with self._alone:
            kept = self._kept.get(name)
            if kept is None or kept[0] != at:
                if len(self._kept) >= _MOST_KEPT:
                    self._kept.clear()
                kept = self._kept[name] = (at, make())
            return kept[1]


FINDINGS = ("check", "verify-tree") if "verify" in PARTS else ("check",)  # commands that report findings
_MOST_KEPT = 256
_RECENT = 50  # results that the history shows at first
RENDERED = "the rendered tree"


def _describe_hardware(look: PlanSnapshot, cell: Cell) -> dict[str, Any]:
    """Return a cell's number of accelerators, and the published results for one of them."""
    system = look.seen.desired.submission.systems.get(cell.system)
    count = system.hardware.count * (system.hardware.nodes or 1) if system else 0
    chip = find_chip(system.get_text("hardware.accelerator")) if system else None
    published = None
    if chip is not None:
        settings = look.seen.desired.detail(Address(Kind.RESULT, str(cell))).settings
        published = find_starting_value(chip, settings.official or cell.benchmark, cell.scenario)
    return {"accelerators": count, "published": convert_plain_value(published)}


def _find_last(look: PlanSnapshot, cell: Cell) -> dict[str, Any] | None:
    """Find the newest result of a cell whose results do not count now, with its validity."""
    runs = look.seen.recorded.by_address.get(RunAddress(cell, PERFORMANCE).address, ())
    last = next((run for run in reversed(runs) if run.metric), None)
    return {**(make_metric_document(last.metric) or {}), "validity": last.validity} if last else None


def _report_history(past: RecordHistory, cell: Cell) -> dict[str, Any]:
    steps = [{**convert_plain_value(step), "change": step.change} for step in past.list_steps(cell)]
    return render_document("history", cell=cell, results=past.list_measured(cell), steps=steps)


def _report_recent(past: RecordHistory) -> dict[str, Any]:
    rows = []
    for cell in past.cells:
        runs = [result for result in past.list_measured(cell) if result.what.startswith("Run ")]
        for before, after in itertools.pairwise([None, *runs]):
            if after is not None:
                change = compute_ratio(before.value, after.value, less=1.0) if before is not None else None
                rows.append({"cell": str(cell), "change": change, **convert_plain_value(after)})
    rows.sort(key=lambda row: row["started"], reverse=True)
    return {"results": rows[:_RECENT]}


def _sum_up(look: PlanSnapshot) -> dict[str, Any]:
    return {"summary": summarise_plan(look.seen.plan), "looked": _show_now()}


def _report_cell(look: PlanSnapshot, name: str) -> dict[str, Any]:
    cell = _find_cell(look, name)
    named = {"specs": look.spec_files, "looked": _show_now()}
    return {**report_cell(look, cell), **_describe_hardware(look, cell), **named}


def _report_findings(look: PlanSnapshot, tree: str, command: str, path: Path) -> dict[str, Any]:
    verifier = load_verifier() if command == "verify-tree" else None
    if verifier is not None:
        report = verifier.verify_tree(path)
    else:
        report = check_rendered(look.seen) if tree == RENDERED else check_tree(path)
    return render_document(command, **render_findings_part(report))


def _find_cell(look: PlanSnapshot, name: str) -> Cell:
    return look.by_name.get(name) or find_cell(name, look.lineages)


def _show_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
