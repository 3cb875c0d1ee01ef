"""Paths of trials, which are runs in a repository that never become results. No publishing code reads them."""

from __future__ import annotations

from pathlib import Path

from reconciler.storage.files import RepositoryPaths


class TrialPaths(RepositoryPaths, frozen=True):
    """The specs, objects and locks are shared with every pass; records, logs, attempts and the tree are separate."""

    @property
    def trials(self) -> Path:
        return self.work / "trials"

    @property
    def records(self) -> Path:
        return self.trials / "records"

    @property
    def logs(self) -> Path:
        return self.trials / "logs"

    @property
    def attempts(self) -> Path:
        return self.trials / "attempts"

    @property
    def index(self) -> Path:
        return self.trials / "index"

    @property
    def tree(self) -> Path:
        return self.trials / "tree"
