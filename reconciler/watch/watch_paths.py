"""Places to watch for changes: specs, records, the rendered tree, git's refs, and the files that the specs name."""

from __future__ import annotations

from pathlib import Path

from reconciler.reconcile.desired_cache import list_spec_paths
from reconciler.reconcile.planning import Options, PlanResult
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths
from reconciler.watch.predicate import Homes, Topic


class WatchPaths:
    """``homes`` after each look: another spec may name other files. What the last good one named stays until then."""

    def __init__(self, paths: RepositoryPaths, options: Options) -> None:
        self._paths, self._options = paths, options
        self._tree, self._sources = paths.tree, dict[Path, Topic]()
        self._git: tuple[Path, ...] = ()

    def learn(self, seen: PlanResult) -> None:
        root = self._paths.root
        self._tree = seen.tree
        named = (root / location for location in seen.sources)
        # A link and what it leads to: either may be changed.
        self._sources = {path: Topic.SOURCES for name in named for path in (name, name.resolve())}

    def list_homes(self) -> Homes:
        """List the homes. Where two are one, the later counts: records are no sources, though all the code that is
        named be here."""
        paths = self._paths
        self._git = self._git or git.list_control_folders(paths.root)
        found = {**self._sources, paths.work: Topic.OURS, paths.root / "state": Topic.RECORDS}
        found[self._tree] = Topic.TREE
        for path in list_spec_paths(paths, self._options.specs):
            whole = path.is_dir() or path == paths.specs
            found[path.resolve() if whole else path.resolve().parent] = Topic.SPECS
        return found | dict.fromkeys(self._git, Topic.GIT)
