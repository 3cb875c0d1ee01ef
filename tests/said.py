"""What each case of a table is told, word for word, in a text beside its tests: a heading for the case, lines beneath.

``{n}`` stands for a number or a digest that each measurement has of its own. ``RECONCILE_SAID=write pytest -n 0 TESTS``
writes the texts, and a second run, of other measurements, the ``{n}``. Read them before they are committed.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path

_HEADING = "== "
_OPEN = "{n}"
_MEASURED = re.compile(r"[0-9a-f]*\d[0-9a-fe+:-]*(?:[.,][0-9a-fe+:-]+)*")


def hold(path: Path, name: str, lines: Iterable[str]) -> None:
    """Whether a case is told what stands beneath its heading."""
    found, sections = [line.replace("\n", "\\n") for line in lines], read_sections(path)
    if os.environ.get("RECONCILE_SAID") == "write":
        held = sections.get(name, [])
        alike = len(held) == len(found)
        sections[name] = [_open(old, new) for old, new in zip(held, found, strict=True)] if alike else found
        texts = (f"{_HEADING}{name}\n" + "".join(f"{line}\n" for line in each) for name, each in sections.items())
        path.write_text("".join(texts), encoding="utf-8")
        return
    held = sections.pop(name)
    for number, (old, new) in enumerate(zip(held, found, strict=False)):
        if _fits(old, new):
            found[number] = old
    assert found == held, "\n".join(difflib.unified_diff(held, found, "held", "found", lineterm=""))


def read_sections(path: Path) -> dict[str, list[str]]:
    """The lines beneath each heading."""
    sections: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        if line.startswith(_HEADING):
            lines = sections[line.removeprefix(_HEADING)] = []
        else:
            lines.append(line)
    return sections


def _fits(held: str, found: str) -> bool:
    return bool(re.fullmatch(_MEASURED.pattern.join(map(re.escape, held.split(_OPEN))), found))


def _open(held: str, found: str) -> str:
    """The line with ``{n}`` where only measured values differ; else as it is now."""
    old, new = (re.split(f"({_MEASURED.pattern}|{re.escape(_OPEN)})", text) for text in (held, found))
    if old[::2] != new[::2]:
        return found
    return "".join(
        a if number % 2 == 0 or a == b else _OPEN for number, (a, b) in enumerate(zip(old, new, strict=True))
    )
