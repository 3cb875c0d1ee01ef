"""What earlier passes left: a complete attempt becomes its record now; one without a result was lost with its pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from reconciler.errors import ReconcilerError
from reconciler.execute.attempt import read
from reconciler.execute.finish import finish
from reconciler.execute.perform import Finished
from reconciler.files import is_leftover, remove


def harvest(folder: Path, note: Callable[[str], None]) -> Iterator[Finished]:
    """Oldest first. Run it under the pass lock, so that no attempt here is another's in flight."""
    for entry in sorted(folder.glob("*")):
        attempt = None if is_leftover(entry) else read(entry)
        if attempt is None or not attempt.result.exists():
            remove(entry)
            continue
        try:
            record, kept = finish(attempt)
        except (ReconcilerError, OSError, ValueError, KeyError, TypeError) as error:
            aside = folder.parent / "quarantine" / entry.name
            aside.parent.mkdir(parents=True, exist_ok=True)
            entry.replace(aside)
            note(f"{attempt.intent.address}: the result of an earlier pass is unreadable ({error}); moved to {aside}")
            continue
        yield Finished(attempt, record, kept)
