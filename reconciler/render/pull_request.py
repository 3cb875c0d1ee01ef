"""The impact of a pull request as a terminal table, Markdown, annotations and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from reconciler.diff.change import InputChange
from reconciler.diff.impact import CellEffect, DueWork, Effect, Impact, Remark
from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.render.documents import convert_setting, render_document
from reconciler.resource.quantities import join_listing, show_count, show_duration
from reconciler.resource.wording import show_change
from reconciler.storage.escaping import escape_markdown, quote_code

LIMIT = 40
_WITHHELD = "Measured figures are withheld"
_AS_BEFORE = (Effect.WAS_STALE, Effect.NEVER)
_TONES = {
    Effect.ADDED: Tone.GOOD,
    Effect.STALE: Tone.DOUBT,
    Effect.WAS_STALE: Tone.DOUBT,
    Effect.NEVER: Tone.DOUBT,
    Effect.REMOVED: Tone.BAD,
}


def describe_verdict(impact: Impact) -> str:
    """Summarise in one line what merging changes. "Nothing" is stated only if both sides were compared completely."""
    if impact.errors:
        return f"{show_count(sum(r.level == 'error' for r in impact.remarks), 'error')}: do not merge."
    if not impact.work:
        return "Merging adds no work."
    before = f"already due: {_describe_work(impact.due_before)}"
    if not impact.adds_work:
        return f"Merging adds no work; {before}."
    return f"Due after merging: {_describe_work(impact.added)}{f'; {before}' if impact.due_before.counts else ''}."


def _describe_work(due: DueWork) -> str:
    made = join_listing(f"{number} x {label}" for label, number in due.counts.items())
    about = f", about {show_duration(due.seconds)}" if due.seconds else ""
    more = f" and {show_count(due.unknown, 'step')} of unknown length" if due.unknown else ""
    return f"{made}{about}{more}"


def render_text(impact: Impact, *, paint: Paint = show_plain, limit: int | None = LIMIT) -> str:
    shown = [cell for cell in impact.cells if cell.effect is not Effect.UNAFFECTED]
    lines = [f"{impact.base[:10]} → {impact.head[:10]}"]
    for cell in shown[:limit]:
        effect = paint(f"{cell.effect:<13}", _TONES.get(cell.effect, Tone.FAINT))
        lines.append(f"  {effect} {cell.cell}{_describe_due(cell)}")
        lines += [f"      {line}" for line in _list_causes(cell)]
    if limit is not None and len(shown) > limit:
        lines.append(f"  … and {show_count(len(shown) - limit, 'more cell')}; --all shows them")
    unaffected = len(impact.cells) - len(shown)
    lines += [f"  {show_count(unaffected, 'cell')} unaffected"] if impact.cells else []
    lines += [_render_remark(remark) for remark in impact.remarks]
    lines += [f"{_WITHHELD}: {impact.withheld}."] if impact.withheld else []
    return "\n".join([*lines, describe_verdict(impact)])


def _describe_due(cell: CellEffect) -> str:
    if not cell.due:
        return ""
    about = f", about {show_duration(cell.seconds)}" if cell.seconds else ""
    return f": {_list_due(cell)}{about}"


def _list_due(cell: CellEffect, join: Callable[[Iterable[str]], str] = join_listing) -> str:
    """List what is due, and separately what is also due on the base, unless that is everything."""
    added = [label for label in cell.due if label not in cell.due_before]
    before = f" (already due: {join(cell.due_before)})" if cell.due_before else ""
    return f"{join(added)}{before}" if added else join(cell.due)


def _list_causes(cell: CellEffect) -> list[str]:
    mark = "" if cell.effect in _AS_BEFORE else "  (already on the base)"
    before = (f"{_show_change(cause)}  {cause.origin}{mark}" for cause in cell.causes_before)
    return list(dict.fromkeys([*(f"{_show_change(cause)}  {cause.origin}" for cause in cell.causes), *before]))


def _show_change(cause: InputChange) -> str:
    return show_change(cause.name, cause.before, cause.after)


def _render_remark(remark: Remark) -> str:
    where = f"{remark.file}:{remark.line}: " if remark.line else f"{remark.file}: " if remark.file else ""
    return f"{remark.level}: {where}{remark.message}" + (f"\n    fix: {remark.fix}" if remark.fix else "")


def render_markdown(impact: Impact) -> str:
    """Render a comment: the verdict first, then the evidence."""
    lines = [f"**{describe_verdict(impact)}**", "", f"Base `{impact.base[:10]}`, head `{impact.head[:10]}`.", ""]
    shown = [cell for cell in impact.cells if cell.effect is not Effect.UNAFFECTED]
    if shown:
        lines += ["| Cell | Effect | To make | Because | About |", "|---|---|---|---|---|"]
        lines += [_render_row(cell) for cell in shown[:LIMIT]]
        if len(shown) > LIMIT:
            lines.append(f"\n… and {show_count(len(shown) - LIMIT, 'more cell')}.")
    lines += ["", f"{show_count(len(impact.cells) - len(shown), 'cell')} unaffected.", ""] if impact.cells else []
    for remark in impact.remarks:
        place = f"{remark.file}:{remark.line}" if remark.line else remark.file
        said = f"{remark.message} ({remark.fix})" if remark.fix else remark.message
        lines.append(f"- **{remark.level}** {f'{quote_code(place)} ' if remark.file else ''}{escape_markdown(said)}")
    lines += ["", escape_markdown(f"{_WITHHELD}: {impact.withheld}.")] if impact.withheld else []
    return "\n".join(lines).rstrip() + "\n"


def _render_row(cell: CellEffect) -> str:
    because = "<br>".join(quote_code(line, in_table=True) for line in _list_causes(cell))
    about = show_duration(cell.seconds) if cell.seconds else ""
    return f"| {escape_markdown(str(cell.cell))} | {cell.effect} | {_list_due(cell, ', '.join)} | {because} | {about} |"


def render_annotation_lines(impact: Impact, prefix: str = "") -> Iterator[str]:
    """Yield GitHub workflow commands: each remark, and each cause at the line that makes something stale. ``prefix``:
    the path of our repository below git's root, to which GitHub's paths are relative."""
    for remark in impact.remarks:
        said = remark.message + (f"\nfix: {remark.fix}" if remark.fix else "")
        yield _render_annotation(remark.level, remark.file and prefix + remark.file, remark.line, said, remark.column)
    stale: dict[tuple[str, int, str], list[str]] = {}
    for cell in impact.cells:
        for cause in cell.causes if cell.effect not in _AS_BEFORE else ():
            if cause.origin.line:
                stale.setdefault((cause.origin.file, cause.origin.line, _show_change(cause)), []).append(str(cell.cell))
    for (file, line, change), cells in stale.items():
        yield _render_annotation("notice", prefix + file, line, f"{change} makes stale: {join_listing(cells, most=4)}")


def _render_annotation(level: str, file: str, line: int, message: str, column: int = 0) -> str:
    name = _escape_command(file).replace(":", "%3A").replace(",", "%2C")
    place = ",".join(f"{key}={value}" for key, value in (("file", name), ("line", line), ("col", column)) if value)
    return f"::{level}{place and ' '}{place}::{_escape_command(message)}"


def _escape_command(text: str) -> str:
    """Escape a text, so that nothing in a spec or a file name becomes a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def render_impact(impact: Impact) -> dict[str, Any]:
    return render_document(
        "pr",
        base=impact.base,
        head=impact.head,
        verdict=describe_verdict(impact),
        work=impact.work,
        errors=impact.errors,
        **_render_work_part(impact.due),
        due_before=_render_work_part(impact.due_before),
        withheld=impact.withheld or None,
        cells=[_render_cell_part(cell) for cell in impact.cells],
        remarks=[
            {"level": r.level, "file": r.file, "line": r.line, "message": r.message, "fix": r.fix}
            for r in impact.remarks
        ],
    )


def _render_work_part(due: DueWork) -> dict[str, Any]:
    return {"counts": due.counts, "seconds": due.seconds, "steps_of_unknown_length": due.unknown}


def _render_cell_part(cell: CellEffect) -> dict[str, Any]:
    causes = [
        {
            "name": c.name,
            "before": convert_setting(c.name, c.before),
            "after": convert_setting(c.name, c.after),
            "file": c.origin.file,
            "line": c.origin.line,
            "on_base": c in cell.causes_before,
        }
        for c in (*cell.causes, *cell.causes_before)
    ]
    return {
        "cell": cell.cell,
        "effect": cell.effect,
        "due": cell.due,
        "due_before": cell.due_before,
        "seconds": cell.seconds,
        "causes": causes,
    }
