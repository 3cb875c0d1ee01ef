"""Find models and datasets whose path was changed to a missing file, although records still supply their digests."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from reconciler.diff.change import MovedSource
from reconciler.errors import RecordError
from reconciler.reconcile.planning import PlanResult
from reconciler.record.index import load_record
from reconciler.resource.inputs import MADE_OF_SOURCES
from reconciler.resource.kinds import Address
from reconciler.resource.records import Ended
from reconciler.storage.escaping import escape_hidden

_LINE = re.compile(r".*\.ya?ml:\d+")  # of a spec that declares the digest; it is unknown which file was read


def list_moved_sources(seen: PlanResult) -> tuple[MovedSource, ...]:
    """List such paths. Nothing is remade for them, since a path may be right on another machine, or be a mistake."""
    found = []
    for pin in seen.recorded_sources:
        if (seen.paths.root / pin.location).exists():  # it appeared after the spec was compiled
            continue
        address = Address(MADE_OF_SOURCES[pin.name], pin.owner)
        before, now = _find_recorded_location(seen, address), escape_hidden(pin.location)
        if before and not _is_same_place(seen.paths.root, before, (now, pin.location)):
            found.append(MovedSource(address, f"{pin.name}.path", now, before))
    return tuple(found)


def _is_same_place(root: Path, before: str, spellings: Iterable[str]) -> bool:
    """Return True if a path is only spelled differently: with "./", a variable, or relative to this clone's root."""
    return os.path.normpath(root / before) in {os.path.normpath(root / spelling) for spelling in spellings}


def _find_recorded_location(seen: PlanResult, address: Address) -> str:
    """Return the location of the source when it was last read; "" if no record knows it."""
    summaries = seen.recorded.by_address.get(address, ())
    made = [summary for summary in summaries if summary.ended is Ended.DONE and "source" in dict(summary.pins)]
    if not made:
        return ""
    try:
        origin = load_record(seen.paths, made[-1].id).inputs["source"].origin
    except RecordError:  # its problems are reported elsewhere
        return ""
    return "" if origin == "record" or _LINE.fullmatch(origin) else escape_hidden(origin)
