"""Exceptions that users can see, with the exit code of each branch.

    ReconcilerError                     1   something the user can fix; the message says how
    ├── SpecError                       1   the spec is wrong: one or more problems, each with file:line:column
    ├── RepositoryError                 1   not a repository made for reconcile, or git refuses
    ├── RecordError                     1   a record or log is unreadable or does not match its name
    ├── LockedError                     1   another command, a pass or a writer, has locked what this one needs
    ├── StalePlanError                  1   a saved plan no longer matches the spec or the records
    ├── LogError                        1   a LoadGen log cannot be parsed (file:line)
    ├── StorageError                    1   a disk or machine fails: full, read-only, broken, without locks
    └── StoreError                      1   a remote object store is unreachable or refuses a request

Anything else that escapes is a bug in this program: exit 3, with a report file. KeyboardInterrupt: 130.
Exit 2 is not an error: a selected resource is not in sync.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

IN_SYNC = 0
ERROR = 1
NOT_IN_SYNC = 2
BUG = 3
INTERRUPTED = 130


class ReconcilerError(Exception):
    """Error that the user can fix. ``fix`` says how, in one line."""

    exit_code = ERROR

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class Problem(NamedTuple):
    """One problem in a spec: its location (file, 1-based line and column), path in the document, description, and
    fix."""

    file: str
    line: int
    column: int
    path: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        path = f" {self.path}:" if self.path else ""
        return f"{where}:{path} {self.message}" + (f"\n    fix: {self.fix}" if self.fix else "")


class SpecError(ReconcilerError):
    """All problems found while reading the specs, in file order."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = sorted(problems)
        super().__init__("\n".join(map(str, self.problems)))


class RepositoryError(ReconcilerError):
    pass


class RecordError(ReconcilerError):
    pass


class LockedError(ReconcilerError):
    pass


class StalePlanError(ReconcilerError):
    pass


class LogError(ReconcilerError):
    pass


class StorageError(ReconcilerError):
    pass


class StoreError(ReconcilerError):
    pass


def suggest_nearest(name: str, known: Iterable[str], most: int = 1) -> str:
    """Return the beginning of a fix for a wrong name, with a trailing blank; "" if no known name is similar."""
    import difflib

    near = difflib.get_close_matches(name, list(dict.fromkeys(known)), most)
    return f"did you mean {' or '.join(near)}? " if near else ""
