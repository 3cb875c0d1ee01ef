"""The plan behind all views of the page, cached for up to a minute and recomputed when specs, records or the tree
changed, but not while a run is timed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from msgspec import Struct, field

from reconciler.diff.conditions import trace_lineages
from reconciler.errors import RepositoryError
from reconciler.observed.rendered import Rendered, read_rendered
from reconciler.reconcile.desired_cache import list_spec_paths
from reconciler.reconcile.line_commits import find_commits
from reconciler.reconcile.planning import Options, PlanCache, PlanResult, compute_plan, list_cells
from reconciler.resource.conditions import CellStatus
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import Cell
from reconciler.resource.resources import Resource
from reconciler.spec.declared import Declared
from reconciler.spec.loading import load
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths, read_version
from reconciler.storage.untrusted_files import walk_files

_BELIEVED = 60.0  # seconds for which a plan is reused if no compared file has changed
_MOST_FILES = 1000  # maximum of compared spec files


class PlanSnapshot(Struct, frozen=True, eq=False, dict=True):
    """A plan, and lazily computed data that several views need."""

    paths: RepositoryPaths
    options: Options
    seen: PlanResult
    when: float

    @cached_property
    def lineages(self) -> Mapping[Cell, tuple[Resource, ...]]:
        return trace_lineages(self.seen.desired)

    @cached_property
    def cells(self) -> tuple[CellStatus, ...]:
        return list_cells(self.seen, self.options)

    @cached_property
    def statuses(self) -> Mapping[Cell, CellStatus]:
        return {status.cell: status for status in self.cells}

    @cached_property
    def by_name(self) -> Mapping[str, Cell]:
        return {str(cell): cell for cell in self.lineages}

    @cached_property
    def declared(self) -> Declared:
        return load(list_spec_paths(self.paths, self.options.specs), self.paths.root, os.environ)

    @cached_property
    def rendered(self) -> Rendered:
        return read_rendered(self.paths)

    @cached_property
    def origins(self) -> tuple[Origin, ...]:
        """List the spec lines that set an input of any resource."""
        known = (self.seen.desired.detail(r.address).inputs for r in self.seen.desired.resources)
        return tuple(dict.fromkeys(item.origin for inputs in known for item in inputs if item.origin.line))

    @cached_property
    def spec_files(self) -> tuple[str, ...]:
        """List the spec files with a line that sets an input of any resource."""
        return tuple(sorted({origin.file for origin in self.origins}))

    @cached_property
    def spec_commits(self) -> Mapping[tuple[str, str], git.Commit]:
        """Map (path, blob) to the first commit with this content of a spec file."""
        try:
            return git.find_appearances(self.paths.root, "HEAD", self.spec_files)
        except RepositoryError:
            return {}

    @cached_property
    def commits(self) -> Mapping[Origin, git.LineCommit]:
        """Map every line that sets an input to its commit: git is called once per file."""
        return find_commits(self.paths, self.origins)


class PlanSnapshots(Struct, dict=True):
    """``timed`` returns whether a run is being timed: if so, the last snapshot is reused, whatever its age."""

    paths: RepositoryPaths
    options: Options
    timed: Callable[[], bool]
    _last: tuple[tuple[object, ...], PlanSnapshot] | None = None
    _memory: PlanCache | None = None
    _alone: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> PlanSnapshot:
        """Return the current snapshot. Raises SpecError and the other errors of a plan."""
        with self._alone:
            stamp = tuple(_read_stamp(self.paths, self.options))
            if self._last is not None:
                before, look = self._last
                if self.timed() or (before == stamp and time.monotonic() - look.when < _BELIEVED):
                    return look
            self._memory = self._memory or PlanCache.of(self.paths)
            seen = compute_plan(self.paths, self.options, self._memory)
            if self._memory.unsaved:
                self._memory.save()
            look = PlanSnapshot(self.paths, self.options, seen, time.monotonic())
            self._last = stamp, look
            return look


def _read_stamp(paths: RepositoryPaths, options: Options) -> Iterator[object]:
    """Return a value that changes when a spec, a record, a decision, the rendered tree or the commit does."""
    git = paths.root / ".git"
    state = paths.root / "state"
    folders = [state, *(_list_folders(state)), *_list_folders(paths.records), paths.index / "tree.json"]
    for path in [*folders, git / "HEAD", git / "index", git / "packed-refs", git / "logs" / "HEAD"]:
        yield read_version(path)
    for path in list_spec_paths(paths, options.specs):
        files = sorted(walk_files(path))[:_MOST_FILES] if path.is_dir() else [path]
        yield from ((str(file), read_version(file)) for file in files)


def _list_folders(folder: Path) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
