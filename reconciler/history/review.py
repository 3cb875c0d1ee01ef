"""Checks that spare a reviewer a search: records edited by hand, rendered files edited, large and secret-looking
files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from reconciler.diff.impact import Remark
from reconciler.errors import SpecError
from reconciler.history.commit_records import RECORDS
from reconciler.spec.locations import SECRETS
from reconciler.storage import git

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
