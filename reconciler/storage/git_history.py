"""History of files in git's log, in one call for a whole history; and a whole commit as files."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from reconciler.errors import RepositoryError
from reconciler.storage.git import EVERY_CHANGE, find_root, list_blob_rows, parse_blob_row
from reconciler.storage.git_index import refuse_disk
from reconciler.storage.git_process import GitAnswer, ask, converse, read_commit_time

_AT_ONCE = 1 << 20  # bytes


class Commit(Struct, frozen=True):
    """``when``: the author wrote it; ``committed``: it came to be as it is, after it was rebased or amended."""

    id: str
    author: str
    when: datetime
    committed: datetime
    subject: str


Appearances = Mapping[tuple[str, str], Commit]  # (path, blob id) → the commit that first gave the file these bytes


def find_appearances(root: Path, tip: str, folders: Iterable[str]) -> Appearances:
    """(path, blob id) → the first commit, of all that lead to ``tip``, that gave the file these bytes."""
    answer = ask(
        root, "-c", "core.quotePath=false", "log", "--reverse", "--topo-order", *EVERY_CHANGE, "--relative",
        "--format=%x01%H%x00%at%x00%ct%x00%an%x00%s", tip, "--", *folders, fetch=True,
    )  # fmt: skip
    found: dict[tuple[str, str], Commit] = {}
    commit = None
    for row in answer.out.decode(errors="surrogateescape").split("\n") if answer.status == 0 else ():
        if row.startswith("\x01"):
            words = row[1:].split("\0", 4)  # which no commit holds
            written, made = (read_commit_time(seconds) for seconds in words[1:3])
            commit = Commit(words[0], words[3], written, made, words[4])
        elif row.startswith(":") and commit is not None:
            path, blob = parse_blob_row(row)
            if blob.strip("0"):
                found.setdefault((path, blob), commit)
    return found


def find_commit_times(root: Path, commits: Iterable[str]) -> dict[str, datetime]:
    """When each was committed; nothing of those that are not here."""
    found = {}
    for commit in sorted(set(commits)):
        answer = ask(root, "show", "--no-patch", "--format=%ct", f"{commit}^{{commit}}")
        if answer.status == 0:
            found[commit] = read_commit_time(answer.out.decode().strip())
    return found


def find_early_commits(root: Path, commits: str) -> list[tuple[str, datetime, datetime]]:
    """Find those of ``commits``, a range or a tip, that by their dates were committed before one of their parents, with
    their own date and that parent's."""
    answer = ask(root, "log", "--format=%H %ct %P", "--end-of-options", commits)
    rows = [row.split() for row in answer.out.decode().splitlines()] if answer.status == 0 else []
    made = {row[0]: read_commit_time(row[1]) for row in rows}
    made |= find_commit_times(root, {parent for row in rows for parent in row[2:]} - made.keys())
    latest = (
        (row[0], max((made[parent] for parent in row[2:] if parent in made), default=made[row[0]])) for row in rows
    )
    return [(commit, made[commit], before) for commit, before in latest if made[commit] < before]


def find_tree(root: Path, commit_id: str, folder: str) -> str:
    """Git's name for a folder of a commit, which is that of all files below it; "" where there is none."""
    asked = f"{commit_id}:./{folder}"
    answer = ask(root, "rev-parse", "--verify", "--quiet", "--end-of-options", asked, fetch=True)
    return answer.out.decode().strip() if answer.status == 0 else ""


def name_blobs_at(root: Path, commit_id: str, folders: Iterable[str]) -> dict[str, str]:
    """path → blob id of the files that ``list_files_at`` gives, whether git has them or not: of thousands in a fifth of
    the time, since git opens none of them."""
    return {path: blob for path, (blob,) in list_blob_rows(root, commit_id, folders)}


def list_links_at(root: Path, commit_id: str, folders: Iterable[str]) -> dict[str, str]:
    """path → blob id of each symbolic link of a commit below these folders: its content is where it leads."""
    answer = ask(root, "ls-tree", "-r", "-z", commit_id, "--", *folders, fetch=True)
    rows = (row.partition("\t") for row in answer.out.decode(errors="surrogateescape").split("\0"))
    return {path: facts.split()[2] for facts, _, path in rows if facts.startswith("120000 ")}


def stream_blobs(root: Path, blobs: Sequence[str], largest: int) -> Iterator[bytes | None]:
    """The contents of each, in this order, while git still reads the next: they need not be in memory together. None
    for one that has more bytes than ``largest``, or is not here: ``read_blobs`` may fetch it."""
    if not blobs:
        return
    with converse(root, "cat-file", "--batch", "--buffer", stdin="\n".join(blobs).encode()) as (_, answers):
        for _ in blobs:
            words = answers.readline().split()
            size = int(words[2]) if len(words) == 3 else -1  # else such as "<name> missing"
            if size > largest:
                _skip(answers, size + 1)
                yield None
                continue
            data = answers.read(size + 1)[:-1]
            yield data if len(data) == size else None


def _skip(stream: BinaryIO, size: int) -> None:
    while size > 0 and (passed := len(stream.read(min(size, _AT_ONCE)))):
        size -= passed


def clone_at(root: Path, commit: str, folder: Path) -> Path:
    """A clone of the repository with this commit checked out; gives where ``root`` is in it. It shares git's objects
    with the repository, whose refs and work tree stay as they are."""
    top = find_root(root) or root
    made = _clone(top, commit, folder)
    if made.status:  # of a single write that failed git names no cause, and the disk is well again
        shutil.rmtree(folder, ignore_errors=True)
        made = _clone(top, commit, folder)
    if made.status:
        refuse_disk(made.error, folder.parent, folder)
        raise RepositoryError(f"git clone at {commit[:12]}: {made.error}", fix="see what git says; nothing was changed")
    return folder / root.resolve().relative_to(top.resolve())


def find_day(root: Path, commit: str) -> date:
    """The day (UTC) on which a commit was made."""
    answer = ask(root, "show", "--no-patch", "--format=%ct", commit)
    return read_commit_time(answer.out.decode().strip()).date()


def _clone(top: Path, commit: str, folder: Path) -> GitAnswer:
    words = ("clone", "--quiet", "--shared", "--no-checkout", "--template=", "--", str(top), str(folder))
    made = ask(top, *words, reach="file")
    return made if made.status else ask(folder, "checkout", "--quiet", "--detach", commit)
