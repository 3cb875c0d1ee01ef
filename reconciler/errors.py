"""The exceptions a user can meet, and the exit code of each branch.

    ReconcilerError                     1   something the user can fix; the message says how
    ├── SpecError                       1   the spec is wrong: one or more problems, each with file:line:column
    ├── RepositoryError                 1   not a repository made for reconcile, or git refuses
    ├── RecordError                     1   a record or log cannot be read or is not what its name says
    ├── LockedError                     1   another command, a pass or one that writes, holds what this one needs
    ├── StalePlanError                  1   a saved plan no longer matches the spec or the records
    ├── LogError                        1   a LoadGen log cannot be parsed (file:line)
    ├── StorageError                    1   a disk or machine refuses: full, read-only, failing, without locks
    └── StoreError                      1   an object store elsewhere cannot be reached, or refuses

Anything else that escapes is a bug in this program: exit 3, with a report file. KeyboardInterrupt: 130.
Exit 2 is not an error: it says that something selected is not in sync.
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
    """An error the user can fix. ``fix`` says how, in one line."""

    exit_code = ERROR

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class Problem(NamedTuple):
    """One thing wrong in a spec: where (file, 1-based line and column), the path in the document, what, and the fix."""

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
    """All problems found in one reading of the specs, in file order."""

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


def suggest_nearest(name: str, known: Iterable[str]) -> str:
    """The beginning of a fix for a wrong name, with a blank behind it; "" where nothing known is like it."""
    import difflib

    near = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]}? " if near else ""
