"""Two commits compared as a merge would see them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from reconciler.diff.impact import Impact, Remark
from reconciler.errors import SpecError
from reconciler.history.commit_records import RECORDS
from reconciler.history.forgeries import find_forgeries
from reconciler.history.pull_request import compute_impact
from reconciler.history.snapshot import Shared, Snapshot, read_snapshot
from reconciler.plan.expectation import Expectation
from reconciler.reconcile.planning import make_expectation
from reconciler.resource.embargo import explain_refusal, make_embargo
from reconciler.resource.kinds import Address
from reconciler.resource.records import Recorded
from reconciler.spec.locations import SECRETS
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths


class Compared(Struct, frozen=True):
    """``outside``: what a comment, an annotation or a workflow's page may show of ``impact``."""

    impact: Impact
    outside: Impact


def assess_merge(paths: RepositoryPaths, base: str, head: str) -> Compared:
    """Against the commit where the two part, as a merge would be. Raises RepositoryError for a commit that is not
    here."""
    root = paths.root
    tip, wanted = git.resolve(root, base), git.resolve(root, head)
    parted = git.merge_base(root, tip, wanted)
    base_commit = parted or tip
    apart = () if parted or tip in git.find_parents(root, wanted) else (_apart(root, tip),)
    # A clone without local work, as a workflow makes one, is not asked again: nothing is kept there. Few records are
    # read in full: the sources of changes, and new ones.
    index = paths.index if paths.index.is_dir() else None
    today, shared = datetime.now(UTC).date(), Shared(index, keep=False, checked_out=True)
    try:
        after = read_snapshot(root, wanted, today=today, shared=shared)
    except SpecError as error:
        remarks = (*review_specs(error), *review(root, base_commit, wanted, {}), *apart)
        broken = Impact(base_commit, wanted, (), remarks=remarks)
        return Compared(broken, broken)
    remarks = (*review(root, base_commit, wanted, after.damaged), *apart)
    try:
        before = read_snapshot(root, base_commit, today=today, shared=shared)
    except SpecError as error:
        before = _nothing(after, base_commit)
        remarks = (*remarks, Remark("notice", "", 0, f"the base has no valid spec: {_first(error)}"))
    shared.reader.save()
    found = compute_impact(before, after, _predict(), (*remarks, *find_forgeries(root, base_commit, after)))
    why = check_embargo_of_page(root, before, after)
    if not why:
        return Compared(found, found)
    remarks = (*remarks, *find_forgeries(root, base_commit, after, withheld=True))
    return Compared(found, compute_impact(before, after, _predict_by_formula, remarks, withheld=why))


def _apart(root: Path, tip: str) -> Remark:
    """Report that the point where the two part is not known."""
    text = f"no common history of head and base here: what {tip[:10]} has and head has not counts as taken back"
    fix = "git fetch --unshallow" if git.is_shallow(root) else "start the branch from the base"
    return Remark("warning", "", 0, text, fix)


def _first(error: SpecError) -> str:
    first = error.problems[0]
    return f"{first.file}:{first.line}: {first.message}" if first.line else f"{first.file}: {first.message}"


def check_embargo_of_page(root: Path, *commits: Snapshot) -> str:
    """Why no measured figure may be on the pull request's page; "" when it may. An embargo that either commit declares
    counts: merging may end it, proposing to may not."""
    embargoes = [make_embargo(at.desired.submission) for at in commits]
    today, pages = datetime.now(UTC).date(), list_page_addresses(root)
    return next(filter(None, (explain_refusal(e, page, today) for e in embargoes for page in pages)), "")


def list_page_addresses(root: Path) -> list[str]:
    """Addresses of the repository whose pull request this is: as its workflow says, else all of this clone's remotes;
    one that is nowhere when it is unknown."""
    server, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    known = f"{server}/{name}" if server and name else os.environ.get("CI_PROJECT_URL", "")
    return [known] if known else [url for _, url in git.list_remotes(root)] or [""]


def _nothing(after: Snapshot, base: str) -> Snapshot:
    """A base without a readable spec declares no cell."""
    empty = type(after.desired)(digest="", resources=(), detail=after.desired.detail, name="", by_address={})
    return Snapshot(base, {}, empty, after.recorded, type(after.difference)(changes=()), after.committed)


def _predict() -> Callable[[Address, Snapshot], float | None]:
    """Predict from a commit's records; the records like a step are looked up once."""
    known: dict[str, Expectation] = {}

    def predict(address: Address, at: Snapshot) -> float | None:
        if at.commit not in known:
            known[at.commit] = make_expectation(at.desired, at.recorded)
        return known[at.commit].predict(address)[0]

    return predict


def _predict_by_formula(address: Address, at: Snapshot) -> float | None:
    """Predict from how fast an earlier run was."""
    return make_expectation(at.desired, Recorded()).predict(address)[0]


# Checks that spare a reviewer a search: records edited by hand, rendered files edited, large and secret-looking
# files.

LARGE = 1 << 20  # bytes: what one log in git may have
_READ = 2 << 20  # bytes: what is searched for secrets

_SECRETS = (
    *((what, re.compile(pattern.encode())) for what, pattern in SECRETS.items()),
    (
        "a password",
        re.compile(
            rb"(?im)(?:^[ \t]*(?:export |- )?['\"]?|\{ *['\"]?|, *['\"])"
            rb"[\w.-]*(?:password|passwd|secret_key|secret_access_key|api_key)['\"]?\s*[:=]\s*['\"]?[^\s'\"{$<]{8,}"
        ),
    ),
)


def review_specs(error: SpecError) -> tuple[Remark, ...]:
    return tuple(
        Remark("error", p.file, p.line, f"{p.path}: {p.message}" if p.path else p.message, p.fix, p.column)
        for p in error.problems
    )


def review(root: Path, base: str, head: str, damaged: Mapping[str, str]) -> tuple[Remark, ...]:
    """Remarks about the files that differ between two commits, and about the head's damaged records."""
    changed = git.list_changed_files(root, base, head)
    sizes = (
        git.list_files_at(root, head, sorted(path for path, (_, blob) in changed.items() if blob)) if changed else {}
    )
    found = [*_records(changed, damaged), *_files(root, changed, sizes)]
    named = (replace(remark, file=_printable(remark.file)) for remark in found)
    return tuple(sorted(named, key=lambda remark: (remark.level, remark.file)))


def _printable(path: str) -> str:
    """A name that is not UTF-8 or holds control characters, as a terminal, a comment and JSON can take it."""
    text = path.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _records(changed: Mapping[str, tuple[str, str]], damaged: Mapping[str, str]) -> Iterator[Remark]:
    for path, why in sorted(damaged.items()):
        yield Remark(
            "error", path, 0, f"the record is damaged: {why}", "restore it from the base; records never change"
        )
    for path, (status, _) in sorted(changed.items()):
        if path.startswith(f"{RECORDS}/") and status in "MT" and path not in damaged:
            yield Remark("error", path, 0, "a record was edited", "restore it; a new outcome is a new record")
        elif path.startswith(f"{RECORDS}/") and status == "D" and "/." not in path:
            yield Remark(
                "warning", path, 0, "a record is deleted: what it proves is lost", "restore it unless it is meant"
            )
        elif path.startswith("state/logs/") and status in "MDT" and "/." not in path:
            yield Remark("error", path, 0, "a recorded log was edited or deleted", "restore it from the base")


def _files(
    root: Path, changed: Mapping[str, tuple[str, str]], sizes: Mapping[str, tuple[str, int]]
) -> Iterator[Remark]:
    small = {}
    for path in sorted(sizes):
        if path.startswith(".reconcile/"):
            text = "files of .reconcile/ are what each machine writes for itself, and believes"
            yield Remark("error", path, 0, text, "take them out of the branch: git rm -r --cached .reconcile")
            break
    for path, (blob, size) in sorted(sizes.items()):
        if size > LARGE:
            yield Remark("warning", path, 0, f"the file has {size / 2**20:.1f} MiB", "keep large files outside git")
        if path in changed and size <= _READ and not path.startswith("state/logs/"):
            small[path] = blob
    contents = git.read_blobs(root, small.values())
    for path, blob in small.items():
        data = contents.get(blob, b"")
        for what, pattern in _SECRETS:
            match = pattern.search(data)
            if match:
                line = data.count(b"\n", 0, match.start()) + 1
                fix = "take it out of this branch's history and revoke it; specs refer to secrets, they never hold them"
                yield Remark("error", path, line, f"this looks like {what}", fix)
                break
