"""One cell in full: its resolved settings, and each resource with key, record and files."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.render.documents import convert_plain_value, convert_setting
from reconciler.render.table import render_table
from reconciler.resource.inputs import Value
from reconciler.resource.kinds import Address, Cell
from reconciler.resource.quantities import show_count, show_size
from reconciler.resource.wording import show_value
from reconciler.storage.files import RECORDS

_PLAIN_WORD = re.compile(r"[\w@%+=:,./{}-]+")  # as in a shell, except that a placeholder needs no quotes
_DIGEST = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")


class ShownFile(Struct, frozen=True):
    """``path``: relative to the repository for files inside it; ``bytes``: as recorded."""

    name: str
    bytes: int
    path: str
    present: bool


class Shown(Struct, frozen=True):
    """A resource: the record that satisfies it, its action in a pass, its files, and the IDs of its other records."""

    address: Address
    key: str
    record: str
    state: str
    files: tuple[ShownFile, ...] = ()
    others: tuple[str, ...] = ()


_FEW = 12  # files of code that are listed by name


class ShownCode(Struct, frozen=True):
    """A folder or file of a command's code: the files that enter the keys of its runs, and the others, each with the
    reason."""

    location: str
    counts: tuple[str, ...]
    left_out: Mapping[str, str]


class Showing(Struct, frozen=True):
    """``overridden``: name of a setting → the values that it overrides, the nearest first; ``commands``: the words of
    each resource's harness command."""

    cell: Cell
    settings: Mapping[str, Value]
    resources: tuple[Shown, ...]
    overridden: Mapping[str, tuple[Value, ...]] = {}
    commands: Mapping[Address, tuple[str, ...]] = {}


def render_code_text(
    cell: Cell, parts: Sequence[ShownCode], paint: Paint = show_plain, *, show_all: bool = False
) -> str:
    """Count files by folder, unless there are few or ``show_all`` is set. Left-out files are always counted, since a
    build leaves many."""
    lines = [paint(str(cell), Tone.HEADING)]
    lines += [] if parts else ["  no command: the harness of this project runs it"]
    for part in parts:
        lines += ["", f"{paint(part.location, Tone.HEADING)}  {show_count(len(part.counts), 'file')} of code"]
        if show_all or len(part.counts) <= _FEW:
            lines += [f"  {name}" for name in part.counts]
        else:
            counted = Counter(f"{name.partition('/')[0]}/" if "/" in name else "./" for name in part.counts)
            listed = [(name, show_count(count, "file")) for name, count in sorted(counted.items())]
            lines += [*render_table(listed, 2, width=paint.width), "  `--all` lists each of them"]
        folders = Counter((name.partition("/")[0] + "/" * ("/" in name), why) for name, why in part.left_out.items())
        if folders:
            lines.append(f"  {paint('not code', Tone.DOUBT)}")
            rows = [(name, show_count(count, "file"), why) for (name, why), count in sorted(folders.items())]
            lines += render_table(rows, 4, width=paint.width)
    return "\n".join(lines)


def render_showing_text(showing: Showing, paint: Paint = show_plain) -> str:
    lines = [paint(str(showing.cell), Tone.HEADING)]
    rows = []
    for name, value in showing.settings.items():
        over = [f"{show_value(name, each.value)} ({each.origin})" for each in showing.overridden.get(name, ())]
        rows.append((name, show_value(name, value.value), str(value.origin), f"over {', '.join(over)}" if over else ""))
    lines += render_table(rows, 2, width=paint.width)
    for resource in showing.resources:
        tone = Tone.GOOD if resource.state == "in sync" else Tone.DOUBT
        lines += ["", f"{paint(resource.address.label, Tone.HEADING)}  {paint(resource.state, tone)}"]
        lines.append(f"  key     {resource.key}")
        if command := showing.commands.get(resource.address):
            words = " ".join(word if _PLAIN_WORD.fullmatch(word) else shlex.quote(word) for word in command)
            lines += render_table([("command", words)], 2, width=paint.width)
        if resource.record:
            lines.append(f"  record  {RECORDS}/{resource.record}.json")
        if resource.others:
            lines.append(f"  and {show_count(len(resource.others), 'other record')}, the newest {resource.others[-1]}")
        lines += render_table(
            [render_file_row(file, paint) for file in resource.files], 2, width=paint.width, is_last_loose=True
        )
    return "\n".join(lines)


def render_file_row(file: ShownFile, paint: Paint) -> tuple[str, ...]:
    """Shorten the digest if columns are few."""
    path = file.path if paint.width is None else _DIGEST.sub(r"\1…", file.path)
    return file.name, show_size(file.bytes), path + ("" if file.present else "  (not here)")


def render_showing_part(showing: Showing) -> dict[str, Any]:
    settings = {name: _render_value(name, value) for name, value in showing.settings.items()}
    for name, over in showing.overridden.items():
        if over and name in settings:
            settings[name]["overrides"] = [_render_value(name, each) for each in over]
    return {"cell": str(showing.cell), "settings": settings, "resources": convert_plain_value(showing.resources)}


def _render_value(name: str, value: Value) -> dict[str, Any]:
    return {"value": convert_setting(name, value.value), "origin": str(value.origin)}
