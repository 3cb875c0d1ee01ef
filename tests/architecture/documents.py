"""The documents as the tests read them: the README and what ships in ``reconciler/docs``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import ROOT

README = ROOT / "README.md"
DOCS = ROOT / "reconciler/docs"
DOCUMENTS = (README, *sorted(DOCS.glob("*.md")))
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(text: str, language: str | None = None) -> list[str]:
    """The fenced blocks of a document, of one language if it is named."""
    return [body for kind, body in _BLOCK.findall(text) if language in (None, kind)]


def without_blocks(text: str) -> str:
    return _BLOCK.sub("", text)


def section(path: Path, heading: str) -> str:
    """What is below a heading of the second level."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", read(path), re.MULTILINE | re.DOTALL)
    assert found, f"{path.name} has no section ## {heading}"
    return found[1].strip()


def anchors(path: Path) -> set[str]:
    """As GitHub makes them of headings: lower case, punctuation dropped, blanks as hyphens."""
    headings = re.findall(r"^#+ (.+)$", without_blocks(read(path)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def transcript(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a ``console`` block, and the lines of output that are shown below it."""
    shown: list[str] = []
    command = ""
    for line in block.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line[2:], []
        else:
            shown.append(line)
    if command:
        yield command, shown
