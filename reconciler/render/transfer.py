"""A push or pull as text and JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec import Struct

from reconciler.record.objects import TransferResult, TransferStatus
from reconciler.resource.quantities import show_count, show_size

VERSION = 1
_DONE = {"push": "pushed", "pull": "pulled"}


class TransferReport(Struct, frozen=True):
    command: str
    store: str
    url: str
    ended: tuple[TransferResult, ...]
    dry_run: bool = False


def render_text(report: TransferReport) -> str:
    """Problems first and each by name; then the counts."""
    lines = []
    for item in report.ended:
        if item.fate in (TransferStatus.ABSENT, TransferStatus.WRONG):
            what = item.what
            lines.append(
                f"{item.fate:<7} {what.address}: {what.name} ({show_size(what.size)}), {what.sha256[:12]}: {item.why}"
            )
    moved = [item.what.size for item in report.ended if item.fate is TransferStatus.MOVED]
    done = f"to be {_DONE[report.command]}" if report.dry_run else _DONE[report.command]
    parts = [f"{show_count(len(moved), 'object')} ({show_size(sum(moved))}) {done}"]
    counts = Counter(item.fate for item in report.ended)
    where = "there" if report.command == "push" else "here"
    parts += [f"{counts[TransferStatus.PRESENT]} already {where}"] if counts[TransferStatus.PRESENT] else []
    parts += [f"{counts[fate]} {fate}" for fate in (TransferStatus.ABSENT, TransferStatus.WRONG) if counts[fate]]
    lines.append(f"{report.store}: {', '.join(parts)}.")
    return "\n".join(lines)


def render_document(report: TransferReport) -> dict[str, Any]:
    counts = Counter(item.fate for item in report.ended)
    return {
        "version": VERSION,
        "report": report.command,
        "command": report.command,
        "store": report.store,
        "url": report.url,
        "dry_run": report.dry_run,
        "counts": {str(fate): counts[fate] for fate in TransferStatus},
        "bytes": sum(item.what.size for item in report.ended if item.fate is TransferStatus.MOVED),
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
