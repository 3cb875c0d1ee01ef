"""Code that commands with decisions share: who decides, until when, and committing the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta

import click

from reconciler.cli.shared.output import say
from reconciler.errors import ReconcilerError, RepositoryError
from reconciler.record.decisions import is_decision, parse_decisions
from reconciler.resource.decisions import Decisions
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.git import read_author

LONGEST = 366  # days: no decision outlives a year without somebody saying so again
_LENGTH = re.compile(r"(\d{1,3})([dw])")


def add_reason_option() -> click.Option:
    return click.Option(["--reason"], metavar="TEXT", help="Why; it is recorded and shown.")


def add_end_options(default: str) -> list[click.Parameter]:
    return [
        click.Option(
            ["--until"], metavar="DATE", help="The first day on which it no longer holds, such as 2027-04-01."
        ),
        click.Option(["--for", "length"], metavar="LENGTH", help=f"How long it holds, such as 30d or 4w. {default}"),
    ]


def add_commit_option() -> click.Option:
    return click.Option(["--commit"], is_flag=True, help="Commit the decision, and nothing else, to git.")


def today() -> date:
    return datetime.now(UTC).date()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def check_reason(reason: str | None) -> str:
    text = "".join(sign for sign in " ".join((reason or "").split()) if sign.isprintable())
    if not text:
        raise ReconcilerError("a decision needs a reason", fix='say why: --reason "…"')
    return text


def parse_end(until: str | None, length: str | None, days: int | None) -> date | None:
    """``days``: how long it holds when it is not given; None for no end. Raises ReconcilerError."""
    if until and length:
        raise ReconcilerError("--until and --for say the same", fix="give one of them")
    if not until and not length:
        return today() + timedelta(days=days) if days else None
    end = _date(until) if until else today() + _length(str(length))
    if not today() < end <= today() + timedelta(days=LONGEST):
        raise ReconcilerError(f"{end} is not within the next {LONGEST} days", fix="name a future date within a year")
    return end


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ReconcilerError(f"--until: {text!r} is not a date", fix="write it as 2027-04-01") from error


def _length(text: str) -> timedelta:
    found = _LENGTH.fullmatch(text)
    if found is None:
        raise ReconcilerError(f"--for: {text!r} is not a duration", fix="write it as 30d (days) or 4w (weeks)")
    return timedelta(days=int(found[1]) * (7 if found[2] == "w" else 1))


def name_decider(paths: RepositoryPaths) -> tuple[str, str]:
    """Who decides, and the commit they see ("" without one)."""
    who = read_author(paths.root)
    if not who:
        raise RepositoryError(
            "git does not know who you are, and a decision needs an author",
            fix='git config user.name "…"; git config user.email "…"',
        )
    return who, git.find_head(paths.root) or ""


def read_removed(paths: RepositoryPaths, folder: str) -> Decisions:
    """Read the files of a folder in HEAD that are removed here: a command that was to commit that may have been killed
    in between, or after its commit."""
    git.end_killed_commit(paths.root, [folder])
    head = git.find_head(paths.root)
    known = git.list_files_at(paths.root, head, [folder]) if head else {}
    gone = {path: blob for path, (blob, _) in known.items() if is_decision(path) and not (paths.root / path).exists()}
    blobs = git.read_blobs(paths.root, gone.values())
    return parse_decisions({path: blobs[blob] for path, blob in gone.items() if blob in blobs}, today())


def conclude(paths: RepositoryPaths, folder: str, message: str, *, commit: bool) -> str:
    """Commit what changed below a folder; gives the commit, "" where it is left to the user."""
    return git.commit(paths.root, [folder], message) if commit else ""


def say_damaged(damaged: Mapping[str, str]) -> None:
    """``damaged``: file → what is wrong with it."""
    for path, why in sorted(damaged.items()):
        say(f"{path}: {why}: it has no effect")


def say_next(paths: RepositoryPaths, made: str, changed: Iterable[str]) -> None:
    """``changed``: what was written or removed; what was removed before anybody committed it is nobody's concern."""
    known = [p for p in changed if (paths.root / p).exists() or git.read_head_file(paths.root, p) is not None]
    if made:
        say(f"Committed as {made[:7]}.")
    elif known:
        say(f"Commit it, so that others see it: git add {' '.join(known)} && git commit")
