"""Commits records after a pass, and pushes them: never by force, and not before an embargo allows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from reconciler import git, git_remotes
from reconciler.controller.settings import Settings
from reconciler.controller.teller import Teller
from reconciler.desired.state import submission_settings
from reconciler.files import Places
from reconciler.look import Look
from reconciler.resource.embargo import embargo_of, refusal


@dataclass(slots=True)
class Commits:
    """``due``: a pass may have recorded something since. ``unpushed`` likewise, of commits. ``moved``: from where to
    where HEAD moved by our own doing."""

    places: Places
    settings: Settings
    teller: Teller
    due: bool = True
    unpushed: bool = True
    moved: tuple[str, str] | None = None
    refused: str = ""

    def publish(self, seen: Look) -> None:
        """Raises RepositoryError; the records are safe in state/ all the same, and it is tried again."""
        if self.settings.commit and self.due:
            self.commit()
        if self.settings.push and self.unpushed:
            self.push(seen)

    def commit(self) -> None:
        folders = [path for path in (self.places.records, self.places.logs) if path.exists()]
        paths = [str(path.relative_to(self.places.root)) for path in folders]
        commit = git.commit(self.places.root, paths, "Record outcomes")
        self.due = False
        if commit:
            self.unpushed = True
            self.moved = git_remotes.commit_of(self.places.root, f"{commit}^"), commit
            self.teller.say("committed", f"committed the records as {commit[:7]}", commit=commit)

    def push(self, seen: Look) -> None:
        root, remote, name = self.places.root, self.settings.push, git_remotes.branch(self.places.root)
        embargo, today = embargo_of(submission_settings(seen.desired)), datetime.now(UTC).date()
        refused = (refusal(embargo, address, today) for address in git_remotes.addresses(root, remote))
        why = next(filter(None, refused), "")
        if not why and not name:
            why = "no branch is checked out"
        if why:
            if why != self.refused:
                self.refused = why
                self.teller.say("refused", f"not pushed to {remote}: {why}")
            return
        self.refused = ""
        before = git_remotes.commit_of(root, "HEAD")
        git_remotes.push(root, remote, name)
        self.unpushed = False
        self.moved = (self.moved[0] if self.moved else before), git_remotes.commit_of(root, "HEAD")
        self.teller.say("pushed", f"pushed {name} to {remote}")
