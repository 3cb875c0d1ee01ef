"""The only module that starts git, and thus the only place that decides what git may run, follow or reach.

A repository's configuration can name commands for git to run: file-system monitors, hooks, filters, text conversions,
and programs that verify signatures, open connections or ask for passwords. The repository may be a stranger's: a folder
of a pull request that looks like a bare one, or a copied folder with its ``.git``. When git only reads, it runs none of
these and contacts no other machine. ``own`` requests the user's own git, to commit, push or sign.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO

import git
from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import RepositoryError
from reconciler.storage.storage_errors import explain_storage_error, find_refusal, find_refusal_in, refuse_storage_error

# A hook sets these for its own repository; they would silently redirect our calls to it.
_SELECTS_A_REPOSITORY = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_SHALLOW_FILE",
)
_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_LITERAL_PATHSPECS": "1"}
# Options of every call. A repository must have a .git: a folder that merely looks like one does not count. The command
# line overrides its configuration.
_ALWAYS = ("safe.bareRepository=explicit", "core.fsmonitor=false")
_READING = (
    f"core.hooksPath={os.devnull}",
    f"core.attributesFile={os.devnull}",
    "log.showSignature=false",
    "diff.external=",
    "submodule.recurse=false",
    "core.pager=cat",
    "core.alternateRefsCommand=",
    "maintenance.auto=false",
    "gc.auto=0",
    "advice.graftFileDeprecated=false",
    # Programs read the output, so it depends only on objects, not on a commit-graph file, and not on mailmap or order
    # files, which may be endless.
    "core.commitGraph=false",
    "i18n.logOutputEncoding=UTF-8",
    "color.ui=false",
    "log.showRoot=true",
    "log.follow=false",
    f"mailmap.file={os.devnull}",
    f"diff.orderFile={os.devnull}",
)
# Ignore object replacements and grafts, so that a commit is read with its own objects and parents.
_HONEST = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull, "GIT_ATTR_NOSYSTEM": "1", "GIT_PAGER": "cat"}
_NOWHERE, _REMOTES = "-", "file:git:http:https:ssh"  # protocols, for GIT_ALLOW_PROTOCOL
# Settings of a clone that name a program that git runs to reach a remote, a file to write on the way (cookies), or
# another host to trust as the remote, which would then get the real one's credentials. A few http settings do none of
# this.
_HARMLESS = "extraheader|postbuffer|version|lowspeedlimit|lowspeedtime|maxrequests|minsessions|useragent"
_REFUSED_TO_FETCH = re.compile(
    rf"core\.(sshcommand|askpass|gitproxy)|credential\.(?!(.*\.)?(username|usehttppath)$).*"
    rf"|remote\..*\.(uploadpack|vcs|proxy.*)|http\.(?!(.*\.)?({_HARMLESS})$).*|(fetch|transfer)\.bundle.*|bundle\..*",
    re.IGNORECASE | re.DOTALL,
)
_DRIVER = re.compile(r"filter\.(.*)\.(?:clean|smudge|process|required)", re.DOTALL)
_OFF = {"clean": "", "smudge": "", "process": "", "required": "false"}
_LATEST = 1 << 37  # seconds; near the end of Python's dates, with room for adding spans
_MISSING_OBJECTS = ("promisor remote", "not allowed")


class GitAnswer(Struct, frozen=True):
    """The end of one call of git."""

    status: int
    out: bytes
    error: str

    @property
    def text(self) -> str:
        """The output without the last line end; "" after a failure."""
        return self.out.decode(errors="surrogateescape").rstrip("\n") if self.status == 0 else ""

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n") if self.text else []

    @property
    def items(self) -> list[str]:
        """The NUL-separated items of the output."""
        return list(filter(None, self.text.split("\0")))

    def require(self, what: str, fix: str) -> GitAnswer:
        """Return itself. Raises RepositoryError if git failed."""
        if self.status:
            raise RepositoryError(f"{what}: {self.error or 'no answer'}", fix=fix)
        return self

    @property
    def lacks_objects(self) -> bool:
        """Return True if a partial clone left out the requested objects, and they were not fetched."""
        return self.status != 0 and any(words in self.error for words in _MISSING_OBJECTS)


def ask(
    root: Path,
    *arguments: str,
    stdin: bytes = b"",
    limit: float | None = None,
    own: bool = False,
    reach: str = _NOWHERE,
    fetch: bool = False,
    unfiltered: bool = False,
    index: Path | None = None,
    alone: bool = False,
    inherits: tuple[int, ...] = (),
) -> GitAnswer:
    """Run git. ``limit``: seconds after which a call that contacts other machines is ended. ``own``: as the user would
    run it, with the clone's hooks and programs. ``reach``: allowed protocols. ``fetch``: allow fetching objects that a
    partial clone left out, if its configuration needs nothing more. ``unfiltered``: take files of the work tree without
    filters. ``index``: the index to use instead of the repository's; ``alone``: git survives a kill of this process and
    its group, unless it may have to prompt at the terminal. ``inherits``: descriptors that it gets."""
    chosen = {"GIT_INDEX_FILE": str(index)} if index is not None else {}
    if own:
        apart = alone and not _has_terminal()
        return _run(root, arguments, _ALWAYS, chosen, stdin, limit, alone=apart, inherits=inherits)
    closed = (*_ALWAYS, *_READING)
    environment = {**_HONEST, **chosen, "GIT_ALLOW_PROTOCOL": reach, **(_disable_filters(root) if unfiltered else {})}
    answer = _run(root, arguments, closed, environment, stdin, limit)
    refuse_disk_of_git(answer, root)
    if not fetch or not answer.lacks_objects:
        return answer
    if named := _find_refused(root):
        why = f"{named} of this clone may start a program, write a file or lead elsewhere"
        return replace(answer, error=f"{answer.error}\nfatal: could not fetch: {why}")
    return _run(root, arguments, closed, {**environment, "GIT_ALLOW_PROTOCOL": _REMOTES}, stdin, limit)


def ask_again(root: Path, *arguments: str, own: bool = False) -> GitAnswer:
    """Ask a question to which "there is none" is a valid answer. Git also gives this answer after a single failed read
    on a disk that works again, so it counts only if given twice."""
    answer = ask(root, *arguments, own=own)
    return answer if answer.status == 0 else ask(root, *arguments, own=own)


@contextlib.contextmanager
def converse(root: Path, *arguments: str, stdin: bytes = b"") -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a read-only git process that answers query after query: (its input, its output). ``stdin``: all queries, if
    known."""
    environment = {**_HONEST, "GIT_ALLOW_PROTOCOL": _NOWHERE}
    with _open_stream(stdin) as stream:
        source = stream if stdin else subprocess.PIPE
        running = _execute(root, arguments, (*_ALWAYS, *_READING), environment, istream=source, as_process=True)
    process = running.proc  # GitPython ends the process once nothing refers to ``running``
    # Its messages about damaged objects are discarded, but it must not block on them.
    unread = Thread(target=deque, args=(process.stderr, 0), daemon=True)
    unread.start()
    try:
        yield process.stdin, process.stdout
    finally:
        for asked in filter(None, (process.stdin, process.stdout)):
            asked.close()
        process.wait()
        unread.join()
        process.stderr.close()


def _disable_filters(root: Path) -> dict[str, str]:
    """Return variables that turn off every filter in the configuration."""
    found = _read_config(root, "--name-only", "--get-regexp", r"^filter\.")
    drivers = sorted({match[1] for name in found if (match := _DRIVER.fullmatch(name))})
    off = [(f"filter.{driver}.{key}", value) for driver in drivers for key, value in _OFF.items()]
    given = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    variables = {"GIT_CONFIG_COUNT": str(given + len(off))}
    for number, (name, value) in enumerate(off, start=given):
        variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def _find_refused(root: Path) -> str:
    """Return the first setting of the clone that forbids automatic fetching; "" for none."""
    words = _read_config(root, "--name-only", "--show-scope", "--list")
    names = (name for scope, name in zip(words[::2], words[1::2], strict=False) if scope in ("local", "worktree"))
    return next((name for name in names if _REFUSED_TO_FETCH.fullmatch(name)), "")


def _read_config(root: Path, *arguments: str) -> list[str]:
    return _run(root, ("config", "-z", *arguments), _ALWAYS, {}, b"", None).items


def _run(
    root: Path,
    arguments: tuple[str, ...],
    settings: tuple[str, ...],
    environment: dict[str, str],
    stdin: bytes,
    limit: float | None,
    *,
    alone: bool = False,
    inherits: tuple[int, ...] = (),
) -> GitAnswer:
    try:
        with _open_stream(stdin) as stream:
            status, out, error = _execute(
                root,
                arguments,
                settings,
                environment,
                istream=stream,
                with_extended_output=True,
                with_exceptions=False,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
                kill_after_timeout=limit,
                start_new_session=alone,
                pass_fds=inherits,
            )
    except (git.exc.GitCommandNotFound, OSError) as problem:
        refuse_storage_error(problem.__cause__ if isinstance(problem.__cause__, OSError) else problem, root)
        return GitAnswer(127, b"", str(problem))
    # A message may name a file whose name is not text.
    return GitAnswer(status, out, error.encode(errors="surrogateescape").decode(errors="replace").strip())


def _execute(
    root: Path, arguments: tuple[str, ...], settings: tuple[str, ...], environment: dict[str, str], **options: Any
) -> Any:
    chosen = [word for setting in settings for word in ("-c", setting)]
    hidden = {name: os.environ.pop(name) for name in _SELECTS_A_REPOSITORY if name in os.environ}
    try:
        return git.cmd.Git(root).execute(["git", *chosen, *arguments], env={**_ENVIRONMENT, **environment}, **options)
    finally:
        os.environ.update(hidden)


def refuse_disk_of_git(answer: GitAnswer, root: Path) -> None:
    """Raise StorageError if the disk refused git, which then answers as if nothing was found, often without a
    reason."""
    if answer.status <= 0:
        return
    refused = find_refusal_in(answer.error) or find_refusal(root)
    if refused is not None:
        raise explain_storage_error(refused, root, "read")


def refuse_incomplete(answer: GitAnswer, commit_id: str) -> None:
    """Raise RepositoryError for a query about a commit if objects are missing from a partial clone."""
    if answer.lacks_objects:
        said = answer.error.splitlines()[-1].removeprefix("fatal: ")
        raise RepositoryError(
            f"commit {commit_id[:12]} is incomplete in this clone: {said}",
            fix="make the remote of this partial clone reachable, or clone it completely",
        )


def read_commit_time(seconds: str) -> datetime:
    """Return the commit time, which is text that the commit's author chooses: 1970 if it is not a time."""
    try:
        found = int(seconds)
    except ValueError:
        found = 0
    return datetime.fromtimestamp(found if 0 <= found < _LATEST else 0, UTC)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _open_stream(data: bytes) -> Iterator[BinaryIO]:
    """Open the data as a file, which git reads at its own pace."""
    with tempfile.TemporaryFile() if data else Path(os.devnull).open("rb") as stream:
        if data:
            stream.write(data)
            stream.seek(0)
        yield stream
