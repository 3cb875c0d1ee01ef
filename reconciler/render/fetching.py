"""Render a fetch as text and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from reconciler.fetch.fetch import FetchResult, FetchStatus
from reconciler.fetch.scratch import Scratch
from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.render.documents import render_document
from reconciler.render.table import render_table
from reconciler.resource.quantities import show_count, show_size


class FetchReport(Struct, frozen=True):
    """``free``: bytes free in the scratch space before the fetch."""

    scratch: Scratch
    ended: Sequence[FetchResult]
    free: int
    dry_run: bool = False


def render_fetch_text(report: FetchReport, paint: Paint = show_plain) -> str:
    """Render a row per file, then the manual tasks and the problems, each with its fix; then the counts."""
    head, *rows = render_table(
        [("benchmark", "file", "size", "", "licence"), *map(_render_row, report.ended)], width=paint.width
    )
    lines = [paint(head, Tone.HEADING), *rows]
    for fate, title in ((FetchStatus.BY_HAND, "download by hand"), (FetchStatus.FAILED, "failed")):
        chosen = [item for item in report.ended if item.fate is fate]
        lines += ["", paint(title, Tone.HEADING)] if chosen else []
        for item in chosen:
            digest = item.due.file.digest
            proof = f" ({digest.algorithm} {digest.value})" if digest and fate is FetchStatus.BY_HAND else ""
            why = f": {item.why}" if item.why else ""
            lines += [f"  {item.due.file.path}{proof}{why}", f"    fix: {item.fix}"]
    return "\n".join([*lines, "", _summarise_fetch(report)])


def _render_row(item: FetchResult) -> tuple[str, ...]:
    file = item.due.file
    unproved = item.fate is FetchStatus.HERE and not item.sha256 and not file.is_pattern
    fate = "here, unproved" if unproved else str(item.fate)
    return item.due.benchmark, file.path, show_size(file.size), fate, file.licence


def _summarise_fetch(report: FetchReport) -> str:
    counts = Counter(item.fate for item in report.ended)
    parts = [f"{show_count(counts[fate], 'file')} {fate}" for fate in FetchStatus if counts[fate]]
    needed = sum(item.due.needed for item in report.ended if item.fate is FetchStatus.DUE)
    where = f"{report.scratch.root} ({report.scratch.origin})"
    room = f" About {show_size(needed)} are needed there; {show_size(report.free)} are free." if report.dry_run else ""
    return f"{where}: {', '.join(parts)}.{room}"


def render_fetch_document(report: FetchReport) -> dict[str, Any]:
    counts = Counter(item.fate for item in report.ended)
    due = [item for item in report.ended if item.fate is FetchStatus.DUE]
    return render_document(
        "fetch",
        scratch=report.scratch.root,
        origin=report.scratch.origin,
        dry_run=report.dry_run,
        counts={str(fate): counts[fate] for fate in FetchStatus},
        bytes_to_come=sum(item.due.coming for item in due),
        bytes_needed=sum(item.due.needed for item in due),
        bytes_free=report.free,
        files=[_render_file(item) for item in report.ended],
    )


def _render_file(item: FetchResult) -> dict[str, Any]:
    file = item.due.file
    digest = file.digest
    return {
        "benchmark": item.due.benchmark,
        "path": file.path,
        "found_at": item.due.found.path,
        "about": file.about,
        "licence": file.licence,
        "size": file.size,
        "count": file.count,
        "addresses": item.due.addresses or file.sources,
        "digest": {"algorithm": digest.algorithm, "value": digest.value, "origin": digest.origin} if digest else None,
        "sha256": item.sha256,
        "fate": item.fate,
        "why": item.why,
        "fix": item.fix,
    }
