"""Git queries and commands for the other modules, run by ``git_process``. Paths are relative to our repository
(``root``), which may be below git's top folder.

Outside a repository, without commits, in a shallow clone or without a git program, the answers are None, empty or "not
committed". A failing disk raises StorageError. Functions that write or contact a remote raise RepositoryError, as do
queries about one commit that is missing or incomplete.

Only the part of GitPython that starts git is used: limits, streams and a missing program are handled there. Its objects
(``Repo``, ``IndexFile``, ``Commit``) are not used: each call needs the options that keep a foreign folder's
configuration from naming commands, and one call of git answers for thousands of objects that they would query one by
one.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import RepositoryError, suggest_nearest
from reconciler.storage.git_index import PrivateIndex, end_killed_commits, open_private_index, refuse_disk
from reconciler.storage.git_process import (
    GitAnswer,
    ask,
    ask_again,
    converse,
    read_commit_time,
    refuse_disk_of_git,
    refuse_incomplete,
)
from reconciler.storage.leftovers import make_folder
from reconciler.storage.storage_errors import refuse_storage_error

_BLAME = ("blame", "--no-textconv", "--no-ignore-revs-file", "--porcelain")
_FOREIGN = 60.0  # seconds for a folder of unknown origin, whose configuration may be endless
_TURN = 10.0  # seconds within which another git process releases the index
_LINK = "120000"  # the mode of a symbolic link
_QUESTIONS = 500  # blob ids that fit into a pipe that is not being read yet
_FROM_STDIN = ("--pathspec-from-file=-", "--pathspec-file-nul")


class LineCommit(Struct, frozen=True):
    """The commit that last changed a line; for a line edited since, ``committed`` is False and the rest is empty.

    ``boundary``: a shallow clone ends here, so the line may be older.
    """

    commit: str = ""
    author: str = ""
    when: datetime | None = None
    summary: str = ""
    committed: bool = False
    boundary: bool = False


def find_root(start: Path) -> Path | None:
    """Return the top of the git work tree that contains ``start``; None outside one."""
    top = ask_again(start, "rev-parse", "--show-toplevel").text
    return Path(top) if top else None


def initialise(root: Path, *, own: bool = False) -> bool:
    """Make a git repository at ``root`` unless it is already in one; return True if made. ``own``: ignore an enclosing
    repository."""
    if (root / ".git").exists() if own else find_root(root):
        return False
    if (root / ".git").exists():  # damaged, or left by a killed git
        _initialise(root, "--quiet")
        return True
    # A killed git leaves a lock in the unfinished repository, which no later git would complete.
    with make_folder(root / ".git") as aside:
        _initialise(aside, "--quiet", "--bare")
        ask(aside, "config", "--file", str(aside / "config"), "core.bare", "false")
    return True


def _initialise(folder: Path, *options: str) -> None:
    chosen = ask(folder, "config", "--get", "init.defaultBranch").text or "main"  # as on GitHub and in the guides
    command = ("-c", f"init.defaultBranch={chosen}", "init", *options)
    answer = ask(folder, *command)
    if answer.status:
        refuse_disk(answer.error, folder, folder)
        answer = ask(folder, *command)  # git gives no reason if a single write fails
    answer.require("git init", "fix what git reports, or install git, and run again")


def find_head(root: Path) -> str | None:
    """Return the checked-out commit; None if there is none."""
    return resolve_commit(root, "HEAD") or None


def read_file_at(root: Path, path: str, at: str = "HEAD", *, refuse: bool = False) -> bytes | None:
    """Return the bytes of a file in a commit; None if the commit does not have it. ``refuse``: raise RepositoryError if
    a partial clone cannot fetch it."""
    answer = ask(root, "cat-file", "blob", f"{at}:./{path}", fetch=True)
    if refuse:
        refuse_incomplete(answer, at)
    return answer.out if answer.status == 0 else None


def list_dirty(root: Path, paths: Iterable[str]) -> list[str]:
    """List the files whose bytes differ from HEAD: edited, untracked, or not in git at all.

    It compares raw bytes, without git's filters, since a record contains the blob id of the bytes that were read.
    """
    found = []
    for path in paths:
        try:
            data = (root / path).read_bytes()
        except OSError as error:
            refuse_storage_error(error, root / path)
            data = None
        if data is None or read_file_at(root, path) != data:
            found.append(path)
    return found


def count_new_files(root: Path, folders: Iterable[str]) -> int:
    """Count the files below these folders that committing them would add."""
    answer = ask(root, "status", "--porcelain", "--untracked-files=all", "--", *folders)
    return sum(1 for line in answer.out.splitlines() if line.startswith((b"??", b"A ")))


def is_shallow(root: Path) -> bool:
    return ask(root, "rev-parse", "--is-shallow-repository").out.strip() == b"true"


def find_line_commits(root: Path, file: str, lines: Iterable[int], at: str = "") -> Mapping[int, LineCommit]:
    """Find who last changed the given 1-based lines of a file, as it is on disk or as it was in the commit ``at``.
    Lines past its end are left out."""
    wanted = sorted(set(lines))
    if not at:
        if not (root / file).is_file():
            return {}
        count = len((root / file).read_bytes().splitlines())
        wanted = [line for line in wanted if line <= count]  # a single line past the end makes git refuse all of them
    if not wanted:
        return {}
    ranges = [word for first, last in _join_lines(wanted) for word in ("-L", f"{first},{last}")]
    answer = ask(root, *_BLAME, *ranges, *filter(None, [at]), "--", file, unfiltered=True, fetch=True)
    if answer.status == 0:
        found = _parse_blame(answer.out.decode(errors="replace"))
        if any(line.boundary for line in found.values()) and not is_shallow(root):
            return {number: replace(line, boundary=False) for number, line in found.items()}  # the very first commit
        return found
    if at or find_root(root) is None or read_file_at(root, file) is not None:
        return {}
    return {line: LineCommit() for line in wanted}


def _join_lines(lines: Iterable[int]) -> list[tuple[int, int]]:
    """Return ascending lines as ranges of first and last line, since git takes a limited number of arguments."""
    runs = ([line for _, line in run] for _, run in groupby(enumerate(lines), lambda placed: placed[1] - placed[0]))
    return [(run[0], run[-1]) for run in runs]


def _parse_blame(text: str) -> dict[int, LineCommit]:
    commits: dict[str, dict[str, str]] = {}
    lines: dict[int, str] = {}
    name = ""
    for row in text.split("\n"):
        words = row.split(" ")
        if row.startswith("\t") or not row:
            continue
        if len(words[0]) in (40, 64) and len(words) >= 3 and words[2].isdigit():
            name = words[0]
            lines[int(words[2])] = name
            commits.setdefault(name, {})
        elif name:
            commits[name][words[0]] = row[len(words[0]) + 1 :]
    return {line: _make_line_commit(commit, commits[commit]) for line, commit in lines.items()}


def _make_line_commit(commit: str, facts: Mapping[str, str]) -> LineCommit:
    if not commit.strip("0"):
        return LineCommit()
    when = read_commit_time(facts.get("author-time", ""))
    return LineCommit(commit, facts.get("author", ""), when, facts.get("summary", ""), True, "boundary" in facts)


def find_blob_commits(root: Path, path: str, blob: str) -> tuple[str, ...]:
    """Return the commits that gave ``path`` exactly these bytes (by git blob id), newest first."""
    changes = _list_changes(root, "%H", f"--find-object={blob}", "--", path)
    return tuple(commit for commit, _, found in changes if found == blob)


def _list_changes(root: Path, form: str, *words: str) -> Iterator[tuple[str, str, str]]:
    """Yield (the commit in this format of git, path, blob id after the change, or zeros if deleted) for each file that
    a commit changed, including branches whose changes a merge dropped, and the merge's own changes."""
    every = ("--full-history", "-c", "--raw", "--no-abbrev", "--no-renames", f"--format=%x01{form}")
    commit = ""
    for row in ask(root, "-c", "core.quotePath=false", "log", *every, *words, fetch=True).lines:
        if row.startswith("\x01"):
            commit = row[1:]
        elif row.startswith(":"):
            facts, _, path = row.partition("\t")
            before = len(facts) - len(facts.lstrip(":"))  # a merge has a mode and a blob for each further parent
            yield commit, path, facts.split()[2 * before + 1]


def list_blobs_in_refs(root: Path, folder: str, suffix: str) -> tuple[bytes, ...]:
    """Return the contents of every file below ``folder`` whose name ends in ``suffix``, at the tip of any local ref."""
    refs = ask(root, "for-each-ref", "--format=%(objectname)").lines
    names: set[str] = set()
    for tip in dict.fromkeys([*refs, *filter(None, [find_head(root)])]):
        rows = ask(root, "ls-tree", "-r", "-z", f"{tip}^{{tree}}", "--", folder).items
        names.update(row.split()[2] for row in rows if row.endswith(suffix))
    return tuple(read_blobs(root, sorted(names)).values())


def _read_content(stream: BinaryIO, words: list[bytes]) -> bytes | None:
    """Read the content after a row of ``cat-file --batch``; None for "NAME missing", which means a blob that a
    partial clone left out."""
    return stream.read(int(words[2]) + 1)[:-1] if len(words) == 3 else None


def resolve(root: Path, name: str) -> str:
    """Return the commit of a branch, tag or id. Raises RepositoryError with the command that fetches it if it is
    missing."""
    answer = _ask_for_commit(root, name)
    if answer.status == 0:
        return answer.text
    if answer.error:  # git rejects a merely unknown name silently
        said = answer.error.splitlines()
        advice = next((line.strip() for line in said if line.strip().startswith("git config")), "")
        has_git = any((folder / ".git").exists() for folder in (root, *root.parents))
        other = "check `git status`" if has_git else "run `git init`, then commit specs/ and state/"
        raise RepositoryError(said[0].removeprefix("fatal: "), fix=advice or other)
    if name == "HEAD":
        raise RepositoryError("no commit is checked out", fix="commit specs/ and state/ first")
    if set(name) & set("~^"):
        fix = "git fetch --unshallow" if is_shallow(root) else "`git log` lists the commits"
        raise RepositoryError(f"no commit {name!r} in this clone", fix=fix)
    known = {remote for remote, _ in list_remotes(root)}
    remote, slash, branch = name.partition("/")
    # A clone of one branch creates no remote branch for other branches unless the command names it.
    wanted = f"{remote} {branch}:refs/remotes/{name}" if slash and remote in known else f"origin {name}"
    deepen = "--depth=1 " if is_shallow(root) else ""
    here = f"{suggest_nearest(name, list_refs(root))}`git branch --all` lists the branches"
    raise RepositoryError(f"no commit {name!r} in this clone", fix=f"git fetch {deepen}{wanted}" if known else here)


def find_merge_base(root: Path, one: str, other: str) -> str | None:
    """Return the merge base of two commits; None if there is none or a shallow clone does not reach it."""
    return ask(root, "merge-base", one, other).text or None


def find_parents(root: Path, commit_id: str) -> tuple[str, ...]:
    """Return the parents that the commit itself lists. A shallow clone may not have them."""
    rows = ask(root, "cat-file", "commit", commit_id).out.partition(b"\n\n")[0].decode(errors="replace").split("\n")
    return tuple(row.removeprefix("parent ") for row in rows if row.startswith("parent "))


def find_prefix(root: Path) -> str:
    """Return our repository's path below git's top folder: "" at the top, otherwise for example "teams/acme/"."""
    return ask(root, "rev-parse", "--show-prefix").text


def list_files_at(root: Path, commit_id: str, folders: Iterable[str] = ()) -> dict[str, tuple[str, int]]:
    """Return path → (blob id, bytes) of every regular file of a commit, or of those below ``folders``. Raises
    RepositoryError if git has lost one, or if a partial clone cannot fetch missing ones."""
    return list_files_and_links_at(root, commit_id, folders)[0]


def list_files_and_links_at(
    root: Path, commit_id: str, folders: Iterable[str]
) -> tuple[dict[str, tuple[str, int]], dict[str, str]]:
    """Return what ``list_files_at`` returns, and path → blob id of the symbolic links among these files: a link's
    content is its target."""
    rows = dict(_list_blob_rows(root, commit_id, folders, "-l"))
    if lost := next((path for path, (*_, size) in rows.items() if size == "BAD"), None):  # git's own marker
        fix = "`git fsck` lists lost objects; `git fetch --refetch` restores them from the remote"
        raise RepositoryError(f"commit {commit_id[:12]} is incomplete here: missing {lost}", fix=fix)
    files = {path: (blob, int(size)) for path, (_, _, blob, size) in rows.items()}
    return files, {path: blob for path, (mode, _, blob, _) in rows.items() if mode == _LINK}


def _list_blob_rows(root: Path, commit_id: str, folders: Iterable[str], *more: str) -> Iterator[tuple[str, list[str]]]:
    """Yield path → git's columns for each file of a commit: mode, type, blob id, and its size with "-l"."""
    answer = ask(root, "ls-tree", "-r", *more, "-z", commit_id, "--", *folders, fetch=True)
    refuse_incomplete(answer, commit_id)
    for row in answer.out.decode(errors="surrogateescape").split("\0"):
        facts, _, path = row.partition("\t")
        if len(words := facts.split()) > 2 and words[1] == "blob":
            yield path, words


def read_blobs(root: Path, blobs: Iterable[str]) -> dict[str, bytes]:
    """Return contents by blob id, with one call of git; blobs missing from a partial clone are left out."""
    wanted = dict.fromkeys(blobs)  # keeps the order, since neighbouring files are close in git's packs
    questions = "\n".join(wanted).encode()
    answer = ask(root, "cat-file", "--batch", "--buffer", stdin=questions, fetch=True) if wanted else None
    stream, found = BytesIO(answer.out if answer else b""), dict[str, bytes]()
    while words := stream.readline().split():
        if (content := _read_content(stream, words)) is not None:
            found[words[0].decode()] = content
    return found


class BlobReader(Struct, frozen=True):
    """Read contents by blob id like ``read_blobs``, but through one git process that stays open for many small
    queries."""

    root: Path
    ask: BinaryIO
    answer: BinaryIO

    def read(self, blobs: Iterable[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        uncached = []
        wanted = sorted(set(blobs))
        for at in range(0, len(wanted), _QUESTIONS):
            some = wanted[at : at + _QUESTIONS]
            with contextlib.suppress(BrokenPipeError):  # then it has ended and answers no query
                self.ask.write("".join(f"{blob}\n" for blob in some).encode())
                self.ask.flush()
            for blob in some:
                content = _read_content(self.answer, self.answer.readline().split())
                if content is None:
                    uncached.append(blob)
                else:
                    found[blob] = content
        # A partial clone may fetch missing blobs, which this reader does not.
        return {**found, **read_blobs(self.root, uncached)} if uncached else found


@contextlib.contextmanager
def open_blobs(root: Path) -> Iterator[BlobReader]:
    with converse(root, "cat-file", "--batch") as (asking, answering):
        yield BlobReader(root, asking, answering)


def commit(root: Path, paths: Iterable[str], message: str) -> str:
    """Commit the changes in these files and folders, and nothing else that the user has staged.

    Returns the new commit, "" if nothing changed. It runs the user's own git, with its identity, signing and hooks.
    Raises RepositoryError with git's message.
    """
    given = [path for path in paths if (root / path).exists() or _is_in_head(root, path)]
    if not given:
        return ""
    with open_private_index(root) as index:
        if index is None:
            raise RepositoryError(f"git add: {root} is not in a git repository", fix="run `git init`")
        made, free = _commit(index, given, message)
        if behind := _list_index_changes(root, given):  # with the remains of a commit that was killed before this point
            index.share(_join_paths(behind), _TURN if free else 0.0)
    return made


def end_killed_commit(root: Path, paths: Iterable[str]) -> None:
    """Bring the index to HEAD below these paths, and remove the remains of a commit killed at its end."""
    given = list(paths)
    end_killed_commits(root)
    if not _list_index_changes(root, given):
        return
    with open_private_index(root) as index:
        if index is not None and (behind := _list_index_changes(root, given)):
            index.share(_join_paths(behind), _TURN)


def _is_in_head(root: Path, path: str) -> bool:
    head = find_head(root)
    return head is not None and bool(list_files_at(root, head, [path]))


def _commit(index: PrivateIndex, given: Sequence[str], message: str) -> tuple[str, bool]:
    added = index.ask("add", *_FROM_STDIN, stdin=_join_paths(given))
    if added.status:
        refuse_disk(added.error, index.folder, index.root)
    added.require("git add", "commit the records yourself, or fix what git reports")
    new = _list_index_changes(index.root, given, index.copy)
    if not new:
        return "", True
    free = index.wait_for_turn(_TURN)  # otherwise another process left a lock, and only the commit itself proceeds
    # --only takes these files from the work tree, and the HEAD that git finds under its own lock.
    made = _commit_in_turn(index, "--quiet", "--only", "--message", message, *_FROM_STDIN, stdin=_join_paths(new))
    if made.status and _list_index_changes(index.root, new, index.copy):  # else another process has just committed them
        refuse_disk(made.error, index.folder, index.root)
        said = made.error or made.out.decode(errors="replace").strip() or f"it ended with {made.status}"
        raise RepositoryError(f"git commit: {said}", fix="fix what git reports; the records are safe in state/")
    return find_head(index.root) or "", free


def _commit_in_turn(index: PrivateIndex, *arguments: str, stdin: bytes) -> GitAnswer:
    """Commit once no other git process has locked the branch. Such locks last only for moments."""
    give_up = time.monotonic() + _TURN
    while True:
        answer = index.commit(*arguments, stdin=stdin)
        if time.monotonic() > give_up or "cannot lock ref" not in answer.error:
            return answer
        end_killed_commits(index.root)  # such as one whose git was still running when this one began
        time.sleep(0.1)


def _list_index_changes(root: Path, paths: Iterable[str], index: Path | None = None) -> list[str]:
    """List files below these paths whose bytes in an index (by default the user's) differ from HEAD; if there is no
    commit yet, list all files of the index there."""
    if find_head(root) is None:
        answer = ask(root, "ls-files", "-z", index=index)
    else:
        answer = ask(root, "diff", "--cached", "--name-only", "--no-renames", "--relative", "-z", "HEAD", index=index)
    given = list(paths)
    return [name for name in answer.items if any(name == path or name.startswith(f"{path}/") for path in given)]


def _join_paths(paths: Iterable[str]) -> bytes:
    return b"".join(path.encode(errors="surrogateescape") + b"\0" for path in paths)


def list_changed_files(root: Path, base: str, commit_id: str) -> dict[str, tuple[str, str]]:
    """Return path → (status letter, blob id in ``commit_id``, "" if deleted) of every file that differs between two
    commits."""
    words = ask(root, "diff-tree", "-r", "-z", "--no-renames", "--relative", base, commit_id, fetch=True).items
    rows = ((path, facts.split()) for facts, path in zip(words[::2], words[1::2], strict=False))
    return {path: (letter, "" if letter == "D" else blob) for path, (_, _, _, blob, letter) in rows}


def list_remotes(root: Path) -> tuple[tuple[str, str], ...]:
    """List (name, address) of every remote's fetch and push addresses, with ``url.*.insteadOf`` and ``pushInsteadOf``
    applied; empty outside a repository."""
    answer = ask(root, "remote", "--verbose")
    rows = answer.out.decode(errors="replace").splitlines() if answer.status == 0 else []
    found = (row.partition("\t") for row in rows)
    return tuple(dict.fromkeys((name, address.rpartition(" (")[0]) for name, _, address in found))


def list_refs(root: Path, most: int = 200) -> tuple[str, ...]:
    """List short names of branches and tags, newest first; empty outside a repository."""
    kinds = ("refs/heads", "refs/remotes", "refs/tags")
    shown = ("--format=%(refname:short)", "--sort=-creatordate", f"--count={most}")
    answer = ask(root, "for-each-ref", *shown, *kinds)
    return tuple(answer.out.decode(errors="replace").split()) if answer.status == 0 else ()


def list_kept_files(folder: Path) -> dict[str, bool]:
    """Return each file below a folder that git tracks or would add → whether it is tracked; empty if git knows none.
    Paths are relative to the folder."""
    answer = ask(folder, "ls-files", "-z", "-t", "--cached", "--others", "--exclude-standard", limit=_FOREIGN)
    return {line[2:]: not line.startswith("?") for line in answer.items}


# Exchange between this clone and its remotes, git's control folders, and the author of new commits.
#
# Never force. A refused push is repeated on top of the remote's state, or given up.

_LIMIT = 60.0  # seconds for a remote to answer


def list_control_folders(root: Path) -> tuple[Path, ...]:
    """List the folders with HEAD and the refs: one, two in a linked work tree, none outside a repository."""
    names = ask(root, "rev-parse", "--git-dir", "--git-common-dir").lines
    return tuple(dict.fromkeys((root / name).resolve() for name in names))


def read_author(root: Path) -> str:
    """Return "Ada Lovelace <ada@acme.com>", the author of a commit made now; "" if git would refuse to make one."""
    answer = ask(root, "var", "GIT_AUTHOR_IDENT")
    return answer.out.decode(errors="replace").rpartition(">")[0] + ">" if answer.status == 0 else ""


def find_hook_path(root: Path, name: str) -> Path:
    """Return the path of a hook of this clone. Raises RepositoryError outside a repository."""
    answer = ask_again(root, "rev-parse", "--git-path", f"hooks/{name}", own=True)
    refuse_disk_of_git(answer, root)
    if answer.status:
        raise RepositoryError(f"{root} is not in a git repository", fix="run `git init`")
    return (root / answer.text).resolve()


def find_branch(root: Path) -> str:
    """Return the checked-out branch; "" on a detached HEAD."""
    return ask(root, "symbolic-ref", "--quiet", "--short", "HEAD").text


def resolve_commit(root: Path, name: str) -> str:
    """Return the commit of a ref, "" if there is none."""
    return _ask_for_commit(root, name).text


def _ask_for_commit(root: Path, name: str) -> GitAnswer:
    return ask_again(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")


def find_main_branch(root: Path) -> str | None:
    """Return the branch that others merge into: the remote's, else this clone's; None if it has neither."""
    usual = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
    return next((name for name in usual if resolve_commit(root, name)), None)


def is_ancestor(root: Path, one: str, other: str) -> bool:
    return ask(root, "merge-base", "--is-ancestor", one, other).status == 0


def list_addresses(root: Path, remote: str) -> tuple[str, ...]:
    """List every address that a push to this remote goes to. Raises RepositoryError if there is no such remote."""
    answer = ask(root, "remote", "get-url", "--push", "--all", remote)
    return tuple(answer.require(f"no remote {remote!r}", "`git remote -v` lists the remotes").lines)


def fetch(root: Path, remote: str, name: str) -> str:
    """Fetch one branch and return its commit on the remote. Raises RepositoryError with git's message."""
    wanted = f"+refs/heads/{name}:refs/remotes/{remote}/{name}"
    answer = ask(root, "fetch", "--quiet", "--no-tags", remote, wanted, limit=_LIMIT, own=True)
    answer.require(f"git fetch {remote} {name}", f"check that `git fetch {remote}` works")
    return resolve_commit(root, f"refs/remotes/{remote}/{name}")


def fast_forward(root: Path, commit: str) -> None:
    """Fast-forward the checked-out branch and the work tree; edited files are left unchanged."""
    answer = ask(root, "merge", "--ff-only", "--quiet", commit, own=True)
    answer.require("git merge --ff-only", "commit or stash the listed files")


def push(root: Path, remote: str, name: str) -> None:
    """Push the branch; if the remote has advanced, rebase and push once more. Raises RepositoryError."""
    for last in (False, True):
        answer = ask(root, "push", "--quiet", remote, f"HEAD:refs/heads/{name}", limit=_LIMIT, own=True)
        if answer.status == 0:
            return
        if last or not any(word in answer.error for word in ("fetch first", "non-fast-forward", "cannot lock ref")):
            answer.require(f"git push {remote}", "the records are committed here; push them later")
        rebase(root, fetch(root, remote, name))


def rebase(root: Path, onto: str) -> None:
    """Rebase this branch's own commits onto another; after a conflict nothing has changed. Raises RepositoryError."""
    answer = ask(root, "rebase", "--quiet", "--autostash", onto, own=True)
    if answer.status:
        ask(root, "rebase", "--abort", own=True)
        raise RepositoryError(f"git rebase {onto[:12]}: {answer.error}", fix="rebase by hand; nothing was changed")


# History of files from git's log, with one call for the whole history; and a complete commit as files.

_AT_ONCE = 1 << 20  # bytes


class Commit(Struct, frozen=True):
    """A commit and its times. ``when``: when it was written; ``committed``: when it got its present form, after any
    rebase or amendment."""

    id: str
    author: str
    when: datetime
    committed: datetime
    subject: str


Appearances = Mapping[tuple[str, str], Commit]  # (path, blob id) → the commit that first gave the file these bytes


def find_appearances(root: Path, tip: str, folders: Iterable[str]) -> Appearances:
    """Return (path, blob id) → the first commit among the ancestors of ``tip`` that gave the file these bytes."""
    form, order = "%H%x00%at%x00%ct%x00%an%x00%s", ("--reverse", "--topo-order", "--relative")
    read = lru_cache(maxsize=1)(_read_commit)
    found: dict[tuple[str, str], Commit] = {}
    for commit, path, blob in _list_changes(root, form, *order, tip, "--", *folders):
        if blob.strip("0") and (path, blob) not in found:
            found[path, blob] = read(commit)
    return found


def _read_commit(row: str) -> Commit:
    identity, written, made, author, subject = row.split("\0", 4)  # a commit cannot contain NUL
    return Commit(identity, author, read_commit_time(written), read_commit_time(made), subject)


def find_commit_times(root: Path, commits: Iterable[str]) -> dict[str, datetime]:
    """Return the commit time of each of these commits; missing commits are left out."""
    found = {}
    for commit in sorted(set(commits)):
        answer = ask(root, "show", "--no-patch", "--format=%ct", f"{commit}^{{commit}}")
        if answer.status == 0:
            found[commit] = read_commit_time(answer.text)
    return found


def find_early_commits(root: Path, commits: str) -> list[tuple[str, datetime, datetime]]:
    """Find the commits in ``commits``, a range or a tip, whose commit date is earlier than a parent's, with both
    dates."""
    rows = [row.split() for row in ask(root, "log", "--format=%H %ct %P", "--end-of-options", commits).lines]
    made = {row[0]: read_commit_time(row[1]) for row in rows}
    made |= find_commit_times(root, {parent for row in rows for parent in row[2:]} - made.keys())
    latest = (
        (row[0], max((made[parent] for parent in row[2:] if parent in made), default=made[row[0]])) for row in rows
    )
    return [(commit, made[commit], before) for commit, before in latest if made[commit] < before]


def find_tree(root: Path, commit_id: str, folder: str) -> str:
    """Return git's id of a folder in a commit, which identifies all files below it; "" if there is none."""
    asked = f"{commit_id}:./{folder}"
    return ask(root, "rev-parse", "--verify", "--quiet", "--end-of-options", asked, fetch=True).text


def list_blobs_at(root: Path, commit_id: str, folders: Iterable[str]) -> dict[str, str]:
    """Return path → blob id of the files that ``list_files_at`` lists, even if git has lost them: five times as fast,
    since git opens none of them."""
    return {path: blob for path, (_, _, blob) in _list_blob_rows(root, commit_id, folders)}


def stream_blobs(root: Path, blobs: Sequence[str], largest: int) -> Iterator[bytes | None]:
    """Yield the contents in this order. Git reads ahead, and they need not all be in memory. Yields None for
    a blob larger than ``largest`` or missing here: ``read_blobs`` may fetch it."""
    if not blobs:
        return
    with converse(root, "cat-file", "--batch", "--buffer", stdin="\n".join(blobs).encode()) as (_, answers):
        for _ in blobs:
            words = answers.readline().split()
            size = int(words[2]) if len(words) == 3 else -1  # otherwise "<name> missing" or similar
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
    """Clone the repository with this commit checked out; return the path of ``root`` in the clone. It shares git's
    objects with the repository, whose refs and work tree do not change."""
    top = find_root(root) or root
    made = _clone(top, commit, folder)
    if made.status:  # git gives no reason if a single write failed and the disk works again by now
        shutil.rmtree(folder, ignore_errors=True)
        made = _clone(top, commit, folder)
    if made.status:
        refuse_disk(made.error, folder.parent, folder)
        raise RepositoryError(f"git clone at {commit[:12]}: {made.error}", fix="see git's output; nothing was changed")
    return folder / root.resolve().relative_to(top.resolve())


def find_day(root: Path, commit: str) -> date:
    """Return the day (UTC) of a commit."""
    return read_commit_time(ask(root, "show", "--no-patch", "--format=%ct", commit).text).date()


def _clone(top: Path, commit: str, folder: Path) -> GitAnswer:
    words = ("clone", "--quiet", "--shared", "--no-checkout", "--template=", "--", str(top), str(folder))
    made = ask(top, *words, reach="file")
    return made if made.status else ask(folder, "checkout", "--quiet", "--detach", commit)
