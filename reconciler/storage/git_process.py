"""The only module that starts git, and so the only place that says what git may run, follow or reach.

A repository brings a configuration along, and git takes commands from it: file-system monitors, hooks, filters, text
conversions, programs that verify signatures, that open connections or ask for passwords. A repository may be a
stranger's: a folder of a pull request that looks like a bare one, a copied folder with its ``.git``. Where git only
reads, nothing of that runs and no other machine is asked. Where the user's own git is wanted (to commit, push or sign),
``own`` says so.
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

# A hook sets these for its own repository, and they would silently redirect every call of ours to it.
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
# Options of every call. A repository counts where it has a .git, and not where a folder merely looks like one; the
# command line wins over its configuration.
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
    # Output is read by a program, and follows from objects alone: neither from a table of what commits are said to
    # hold, nor from a list of whom to name and what to pass over, which may have no end.
    "core.commitGraph=false",
    "i18n.logOutputEncoding=UTF-8",
    "color.ui=false",
    "log.showRoot=true",
    "log.follow=false",
    f"mailmap.file={os.devnull}",
    f"diff.orderFile={os.devnull}",
)
# Objects are what a commit names: no other replaces them, and history is what its commits say.
_HONEST = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull, "GIT_ATTR_NOSYSTEM": "1", "GIT_PAGER": "cat"}
_NOWHERE, _REMOTES = "-", "file:git:http:https:ssh"  # protocols, for GIT_ALLOW_PROTOCOL
# Settings of a clone that name a program for git to run on its way to a remote, a file to write there (cookies), or
# another host to believe as the remote, which would then get the credentials of the real one. Few of those of http do
# none of that.
_HARMLESS = "extraheader|postbuffer|version|lowspeedlimit|lowspeedtime|maxrequests|minsessions|useragent"
_REFUSED_TO_FETCH = re.compile(
    rf"core\.(sshcommand|askpass|gitproxy)|credential\.(?!(.*\.)?(username|usehttppath)$).*"
    rf"|remote\..*\.(uploadpack|vcs|proxy.*)|http\.(?!(.*\.)?({_HARMLESS})$).*|(fetch|transfer)\.bundle.*|bundle\..*",
    re.IGNORECASE | re.DOTALL,
)
_DRIVER = re.compile(r"filter\.(.*)\.(?:clean|smudge|process|required)", re.DOTALL)
_OFF = {"clean": "", "smudge": "", "process": "", "required": "false"}
_LATEST = 1 << 37  # seconds: Python's dates end not long after, and spans are added to them
_LACKING = ("promisor remote", "not allowed")


class GitAnswer(Struct, frozen=True):
    """How one call of git ended."""

    status: int
    out: bytes
    error: str

    @property
    def text(self) -> str:
        """What it printed, without the last line end; "" where it failed."""
        return self.out.decode(errors="surrogateescape").rstrip("\n") if self.status == 0 else ""

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n") if self.text else []

    @property
    def items(self) -> list[str]:
        """Printed with NUL between them."""
        return list(filter(None, self.text.split("\0")))

    def require(self, what: str, fix: str) -> GitAnswer:
        """Itself. Raises RepositoryError where git failed."""
        if self.status:
            raise RepositoryError(f"{what}: {self.error or 'no answer'}", fix=fix)
        return self

    @property
    def lacks_objects(self) -> bool:
        """True where a partial clone left out what was asked for, and it was not fetched."""
        return self.status != 0 and any(words in self.error for words in _LACKING)


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
    """``limit``: seconds after which git is ended, for what talks to other machines. ``own``: as the user would call
    it, with the hooks and programs of the clone. ``reach``: protocols that it may use. ``fetch``: what a partial clone
    left out may be fetched, as long as its configuration asks for no more than that. ``unfiltered``: files of the work
    tree count as they are. ``index``: the one to work on instead of the repository's; ``alone``: git
    survives what kills this process and its group, unless it may have to ask somebody at the terminal. ``inherits``:
    descriptors that it gets."""
    chosen = {"GIT_INDEX_FILE": str(index)} if index is not None else {}
    if own:
        apart = alone and not _has_terminal()
        return _run(root, arguments, _ALWAYS, chosen, stdin, limit, alone=apart, inherits=inherits)
    closed = (*_ALWAYS, *_READING)
    environment = {**_HONEST, **chosen, "GIT_ALLOW_PROTOCOL": reach, **(_without_filters(root) if unfiltered else {})}
    answer = _run(root, arguments, closed, environment, stdin, limit)
    refuse_disk_of_git(answer, root)
    if not fetch or not answer.lacks_objects:
        return answer
    if named := _find_refused(root):
        why = f"{named} of this clone may start a program, write a file or lead elsewhere"
        return replace(answer, error=f"{answer.error}\nfatal: could not fetch: {why}")
    return _run(root, arguments, closed, {**environment, "GIT_ALLOW_PROTOCOL": _REMOTES}, stdin, limit)


def ask_again(root: Path, *arguments: str) -> GitAnswer:
    """A question whose answer may be "there is none", which is also what git makes of a single read that failed: it
    then names no cause, and the disk answers again. Only what it says twice counts."""
    answer = ask(root, *arguments)
    return answer if answer.status == 0 else ask(root, *arguments)


@contextlib.contextmanager
def converse(root: Path, *arguments: str, stdin: bytes = b"") -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The input and output of a git that answers question after question, and only reads: (to it, from it).
    ``stdin``: all that it is asked, where that is known."""
    chosen = [word for setting in (*_ALWAYS, *_READING) for word in ("-c", setting)]
    with _own_repository(), _stream(stdin) as stream:
        running: Any = git.cmd.Git(root).execute(
            ["git", *chosen, *arguments],
            istream=stream if stdin else subprocess.PIPE,
            as_process=True,
            env={**_ENVIRONMENT, **_HONEST, "GIT_ALLOW_PROTOCOL": _NOWHERE},
        )
    process = running.proc
    # Its messages about damaged objects are not read, and it must not wait for that.
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


def _without_filters(root: Path) -> dict[str, str]:
    """Variables that turn every filter off which the configuration names."""
    found = _configured(root, "--name-only", "--get-regexp", r"^filter\.")
    drivers = sorted({match[1] for name in found if (match := _DRIVER.fullmatch(name))})
    off = [(f"filter.{driver}.{key}", value) for driver in drivers for key, value in _OFF.items()]
    given = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    variables = {"GIT_CONFIG_COUNT": str(given + len(off))}
    for number, (name, value) in enumerate(off, start=given):
        variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def _find_refused(root: Path) -> str:
    """The first setting of the clone itself with which nothing is fetched unasked; "" for none."""
    words = _configured(root, "--name-only", "--show-scope", "--list")
    names = (name for scope, name in zip(words[::2], words[1::2], strict=False) if scope in ("local", "worktree"))
    return next((name for name in names if _REFUSED_TO_FETCH.fullmatch(name)), "")


def _configured(root: Path, *arguments: str) -> list[str]:
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
    chosen = [word for setting in settings for word in ("-c", setting)]
    try:
        with _own_repository(), _stream(stdin) as stream:
            status, out, error = git.cmd.Git(root).execute(
                ["git", *chosen, *arguments],
                istream=stream,
                with_extended_output=True,
                with_exceptions=False,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
                env={**_ENVIRONMENT, **environment},
                kill_after_timeout=limit,
                start_new_session=alone,
                pass_fds=inherits,
            )
    except (git.exc.GitCommandNotFound, OSError) as problem:
        refuse_storage_error(problem.__cause__ if isinstance(problem.__cause__, OSError) else problem, root)
        return GitAnswer(127, b"", str(problem))
    return GitAnswer(int(status), _bytes(out), _bytes(error).decode(errors="replace").strip())


def refuse_disk_of_git(answer: GitAnswer, root: Path) -> None:
    """A git that its disk refuses answers like one that finds nothing, and often without a word of why. Raises
    StorageError."""
    if answer.status <= 0:
        return
    refused = find_refusal_in(answer.error) or find_refusal(root)
    if refused is not None:
        raise explain_storage_error(refused, root, "read")


def refuse_incomplete(answer: GitAnswer, commit_id: str) -> None:
    """Raises RepositoryError for a question about a commit where objects are missing from a partial clone."""
    if answer.lacks_objects:
        said = answer.error.splitlines()[-1].removeprefix("fatal: ")
        raise RepositoryError(
            f"commit {commit_id[:12]} is incomplete in this clone: {said}",
            fix="let git reach the remote that this partial clone was made from, or clone it whole",
        )


def read_commit_time(seconds: str) -> datetime:
    """The maker of a commit chooses the text in the place of its time: 1970 for what is none."""
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
def _own_repository() -> Iterator[None]:
    hidden = {name: os.environ.pop(name) for name in _SELECTS_A_REPOSITORY if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


@contextlib.contextmanager
def _stream(data: bytes) -> Iterator[BinaryIO]:
    """As a file, which git reads at its own pace."""
    if not data:
        with Path(os.devnull).open("rb") as nothing:
            yield nothing
        return
    with tempfile.TemporaryFile() as stream:
        stream.write(data)
        stream.seek(0)
        yield stream


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
