"""Commits records after a pass, and pushes them: never by force, and not before an embargo allows."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct

from reconciler.reconcile.planning import PlanResult
from reconciler.resource.embargo import explain_refusal, make_embargo
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths
from reconciler.watch.reporter import Reporter
from reconciler.watch.settings import WatchSettings


class Commits(Struct):
    """``due``: a pass may have recorded something since. ``unpushed`` likewise, of commits. ``moved``: from where to
    where HEAD moved by our own doing."""

    paths: RepositoryPaths
    settings: WatchSettings
    reporter: Reporter
    due: bool = True
    unpushed: bool = True
    moved: tuple[str, str] | None = None
    refused: str = ""

    def publish(self, seen: PlanResult) -> None:
        """Raises RepositoryError; the records are safe in state/ all the same, and it is tried again."""
        if self.settings.commit and self.due:
            self.commit()
        if self.settings.push and self.unpushed:
            self.push(seen)

    def commit(self) -> None:
        folders = [path for path in (self.paths.records, self.paths.logs) if path.exists()]
        paths = [str(path.relative_to(self.paths.root)) for path in folders]
        commit = git.commit(self.paths.root, paths, "Record outcomes")
        self.due = False
        if commit:
            self.unpushed = True
            self.moved = git.resolve_commit(self.paths.root, f"{commit}^"), commit
            self.reporter.say("committed", f"committed the records as {commit[:7]}", commit=commit)

    def push(self, seen: PlanResult) -> None:
        root, remote, name = self.paths.root, self.settings.push, git.find_branch(self.paths.root)
        embargo, today = make_embargo(seen.desired.submission), datetime.now(UTC).date()
        refused = (explain_refusal(embargo, address, today) for address in git.list_addresses(root, remote))
        why = next(filter(None, refused), "")
        if not why and not name:
            why = "no branch is checked out"
        if why:
            if why != self.refused:
                self.refused = why
                self.reporter.say("refused", f"not pushed to {remote}: {why}")
            return
        self.refused = ""
        before = git.resolve_commit(root, "HEAD")
        git.push(root, remote, name)
        self.unpushed = False
        self.moved = (self.moved[0] if self.moved else before), git.resolve_commit(root, "HEAD")
        self.reporter.say("pushed", f"pushed {name} to {remote}")
