"""Harvest of earlier passes: a complete attempt becomes its record now; one without a result was lost with its pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from reconciler.errors import ReconcilerError
from reconciler.execute.attempt import Attempt, read
from reconciler.execute.attempt_record import build_record
from reconciler.execute.executors.executor import read_handle
from reconciler.execute.executors.table import Executors
from reconciler.execute.perform import Finished
from reconciler.launch.audit_config_files import find_placed_by
from reconciler.storage.files import is_leftover, remove
from reconciler.storage.storage_errors import convert_storage_errors, refuse_storage_error


def find_under_way(folder: Path, executors: Executors) -> dict[str, Attempt]:
    """Key → the attempt of an earlier pass that an executor still runs, or is to."""
    going = (entry for entry in sorted(folder.glob("*")) if executors.is_still_running(read_handle(entry)))
    return {attempt.intent.key: attempt for attempt in map(read, going) if attempt is not None}


def harvest(folder: Path, note: Callable[[str], None], spared: Collection[Path] = ()) -> Iterator[Finished]:
    """Oldest first, without the ``spared`` folders. Run it under the pass lock, so that no attempt here is another's in
    flight."""
    for entry in sorted(folder.glob("*")):
        if entry in spared:
            continue
        if is_leftover(entry.name) or not (entry / "result.json").exists():
            if (placed := find_placed_by(entry)) is not None:
                placed.unlink(missing_ok=True)
            remove(entry)
            continue
        attempt = read(entry)
        try:
            if attempt is None:
                raise ValueError("attempt.json is not one of this version")
            with convert_storage_errors(entry):
                record, kept = build_record(attempt)
        except (ReconcilerError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            refuse_storage_error(error, entry)  # a full disk says nothing about the result
            aside = folder.parent / "quarantine" / entry.name
            aside.parent.mkdir(parents=True, exist_ok=True)
            entry.replace(aside)
            whose = attempt.intent.address if attempt else entry.name
            note(f"{whose}: the result of an earlier pass is unreadable ({error}); moved to {aside}")
            continue
        yield Finished(attempt, record, kept)
