"""Prepared datasets that repositories of this machine share, in the scratch space: a folder for each key.

An entry is there whole or not at all, and is believed by the digests that were recorded when it was made. Two passes
that prepare the same at once both finish; the entry of the first stays. Losing all of it costs time alone.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from pathlib import Path

from harness.contract import Result
from reconciler.errors import ReconcilerError
from reconciler.execute.attempt import Attempt
from reconciler.execute.commands import has_command
from reconciler.resource.kinds import Kind
from reconciler.storage.event_log import facts
from reconciler.storage.files import hash_file, link, remove
from reconciler.storage.storage_errors import PARTIAL
from reconciler.storage.untrusted_files import walk_files

PREPARED = "dataset.prepared"
TAKEN = "taken_from_scratch"  # in the values of a record whose files another repository prepared
_RESULT = "result.json"
_MANIFEST = "manifest.json"  # written after the digests of everything else were taken
_FILES = "files"
_LOGGER = logging.getLogger(__name__)


def find_prepared(attempt: Attempt) -> Path | None:
    """The place of what this attempt makes; None where it is not shared."""
    intent = attempt.intent
    folder = intent.locations.get(PREPARED)
    if intent.address.kind is not Kind.DATASET or not folder or has_command(attempt):
        return None
    return Path(folder) / intent.key


def take_prepared(attempt: Attempt, entry: Path) -> bool:
    """Take the entry's files and its result for the attempt; false where it has none. An entry whose files have changed
    is removed."""
    try:
        result = Result.read(entry / _RESULT)
        expected = dict(result.values["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    folder = entry / _FILES
    wrong = _find_wrong(folder, expected)
    if wrong:
        _LOGGER.warning("a prepared dataset is damaged, and prepared anew", extra=facts(path=str(wrong)))
        with contextlib.suppress(OSError):
            remove(entry)
        return False
    for name in (*expected, _MANIFEST):
        link(folder / name, attempt.output / name)
    result.values[TAKEN] = True
    result.write(attempt.result)
    _LOGGER.info("took a prepared dataset from the scratch space", extra=facts(path=str(entry)))
    return True


def _find_wrong(folder: Path, expected: dict[str, str]) -> Path | None:
    try:
        there = {path.relative_to(folder).as_posix() for path in walk_files(folder)}
        if there != {*expected, _MANIFEST}:
            return folder
        return next((folder / name for name, sha256 in expected.items() if hash_file(folder / name) != sha256), None)
    except OSError:
        return folder


def offer_prepared(attempt: Attempt, entry: Path) -> None:
    """Leave what the attempt made to others. Where the scratch space cannot take it, nothing is lost."""
    if entry.exists() or not attempt.result.is_file():
        return
    result = Result.read(attempt.result)
    if not result.done or "files" not in result.values:
        return
    aside = entry.with_name(f".{entry.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        for path in walk_files(attempt.output):
            link(path, aside / _FILES / path.relative_to(attempt.output))
        result.write(aside / _RESULT)
        aside.rename(entry)
    except (OSError, ReconcilerError) as error:  # read-only, full, or another pass was first
        _LOGGER.info(
            "a prepared dataset is not left in the scratch space", extra=facts(path=str(entry), why=str(error))
        )
        with contextlib.suppress(OSError):
            remove(aside)
