"""Records of a pass: stored with what they name, signed and committed; damaged ones are repaired."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct, field

from reconciler.diff.change import Work
from reconciler.errors import ReconcilerError, RepositoryError
from reconciler.execute.outcome import Event, Message, Outcome
from reconciler.execute.perform import Finished
from reconciler.reconcile.planning import PlanResult
from reconciler.record.codec import summarize
from reconciler.record.store import keep, repair_record, write_record
from reconciler.resource.quantities import show_count
from reconciler.resource.records import Summary
from reconciler.storage.files import RepositoryPaths, remove

Sign = Callable[[str], None]


class Recorder(Struct):
    """``sign`` signs a record, once a signer is known; until then records wait in ``unsigned``."""

    paths: RepositoryPaths
    report: Callable[[Event], None]
    sign: Sign | None = None
    unsigned: list[str] = field(default_factory=list)
    not_committed: RepositoryError | None = None

    def require_git(self) -> None:
        """Committing at the end needs a repository: better known before hours of runs than after."""
        from reconciler.storage import git

        if git.find_root(self.paths.root) is None:
            raise RepositoryError(
                f"--commit: {self.paths.root} is not in a git repository", fix="run `git init`, or leave --commit out"
            )

    def end_killed_commits(self) -> None:
        """End the remains of killed commits in .git, where that is a folder here: only then is git loaded."""
        if any((self.paths.root / ".git").glob("reconcile-commit-*")):
            from reconciler.storage.git_index import end_killed_commits

            end_killed_commits(self.paths.root)

    def prepare_signing(self, result: PlanResult) -> None:
        """A key that cannot sign is better known before hours of runs than after."""
        due = self.unsigned or any(step.change.how is Work.MAKE for step in result.plan.steps)
        if due and result.desired.submission.get("signing.sign"):
            from reconciler.record.signing import find_signer, sign_record

            signer = find_signer(self.paths.root)

            def sign(identity: str) -> None:
                try:
                    sign_record(self.paths, identity, signer)
                except ReconcilerError as error:
                    self.report(Message(f"{identity} is not signed: {error}; `reconcile sign` signs it later"))

            self.sign = sign
            for identity in self.unsigned:
                sign(identity)

    def store(self, finished: Finished) -> Summary:
        """Files first, then the record that names them, then the attempt's folder goes: a kill in between repeats
        nothing."""
        for item in finished.kept:
            keep(self.paths, item.path, item.name, in_git=item.in_git)
        identity = write_record(self.paths, finished.record)
        if self.sign is None:
            self.unsigned.append(identity)
        else:
            self.sign(identity)
        if finished.lives:
            finished.attempt.settle()
        else:
            remove(finished.attempt.folder)
        return summarize(finished.record, identity)

    def repair_records(self, result: PlanResult) -> None:
        for item in result.damaged:
            self.report(
                Message(f"{item.path}: {item.why}: {repair_record(self.paths, item.path, self.read_head_file)}")
            )

    def read_head_file(self, path: str) -> bytes | None:
        from reconciler.storage import git

        return git.read_head_file(self.paths.root, path)

    def commit(self, outcomes: Iterable[Outcome]) -> str:
        from reconciler.storage import git

        paths = [str(p.relative_to(self.paths.root)) for p in (self.paths.records, self.paths.logs) if p.exists()]
        # Uncommitted records of earlier passes are in the commit, too.
        done = sum(1 for outcome in outcomes if outcome.record is not None)
        new = git.count_new_files(self.paths.root, [path for path in paths if path.endswith("records")])
        message = f"Record {show_count(max(done, new), 'outcome')}"
        try:
            identity = git.commit(self.paths.root, paths, message)
        except RepositoryError as error:
            self.not_committed = error  # reported after the pass's work, which is recorded all the same
            return ""
        return identity
