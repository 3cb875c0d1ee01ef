"""A push or pull as text and JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from reconciler.record.objects import Fate, Moved
from reconciler.render.quantities import count, size

VERSION = 1
_DONE = {"push": "pushed", "pull": "pulled"}


@dataclass(frozen=True, slots=True)
class Report:
    command: str
    store: str
    url: str
    ended: tuple[Moved, ...]
    dry_run: bool = False


def text(report: Report) -> str:
    """What is wrong first and each by name; then the counts."""
    lines = []
    for item in report.ended:
        if item.fate in (Fate.ABSENT, Fate.WRONG):
            what = item.what
            lines.append(
                f"{item.fate:<7} {what.address}: {what.name} ({size(what.size)}), {what.sha256[:12]}: {item.why}"
            )
    moved = [item.what.size for item in report.ended if item.fate is Fate.MOVED]
    done = f"to be {_DONE[report.command]}" if report.dry_run else _DONE[report.command]
    parts = [f"{count(len(moved), 'object')} ({size(sum(moved))}) {done}"]
    counts = Counter(item.fate for item in report.ended)
    where = "there" if report.command == "push" else "here"
    parts += [f"{counts[Fate.PRESENT]} already {where}"] if counts[Fate.PRESENT] else []
    parts += [f"{counts[fate]} {fate}" for fate in (Fate.ABSENT, Fate.WRONG) if counts[fate]]
    lines.append(f"{report.store}: {', '.join(parts)}.")
    return "\n".join(lines)


def document(report: Report) -> dict[str, Any]:
    counts = Counter(item.fate for item in report.ended)
    return {
        "version": VERSION,
        "command": report.command,
        "store": report.store,
        "url": report.url,
        "dry_run": report.dry_run,
        "counts": {str(fate): counts[fate] for fate in Fate},
        "bytes": sum(item.what.size for item in report.ended if item.fate is Fate.MOVED),
        "objects": [
            {
                "sha256": item.what.sha256,
                "size": item.what.size,
                "name": item.what.name,
                "address": str(item.what.address),
                "fate": str(item.fate),
                "why": item.why,
            }
            for item in report.ended
        ],
    }
