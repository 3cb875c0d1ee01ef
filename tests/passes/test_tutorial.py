"""The tutorial, typed as written: every command, and the output that is shown of it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.architecture.documents import DOCS, blocks, read, transcript
from tests.shared import need
from tests.warm.program import program

need("mlperf_loadgen", "onnxruntime", "sklearn")
_LEFT_OUT = "…"
_DURATION = re.compile(r"(?:# (?:h|min|s|ms|µs) ?)+(?=\W|$)")


@pytest.mark.timeout(600)
def test_the_tutorial_when_typed_shows_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with program(tmp_path) as found:
        monkeypatch.setenv("PATH", f"{found}{os.pathsep}{os.environ['PATH']}")
        type_tutorial(tmp_path)


def type_tutorial(tmp_path: Path) -> None:
    folder = tmp_path
    for block in blocks(read(DOCS / "tutorial.md"), "console"):
        for command, shown in transcript(block):
            result = subprocess.run(
                ["bash", "-c", f"{command} 2>&1; code=$?; pwd >'{tmp_path}/folder'; exit $code"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=200,
            )
            folder = Path((tmp_path / "folder").read_text(encoding="utf-8").strip())
            assert result.returncode == 0 or shown, f"$ {command}\n{result.stdout}"
            missing = _not_found(shown, result.stdout.splitlines())
            assert not missing, f"$ {command}\n{result.stdout}\nshown, but not printed:\n" + "\n".join(missing)


def test_shown_lines_when_they_differ_in_words_are_missed() -> None:
    printed = ["Plan: 1 to replace. About 9.9 s on box.", "", "In sync: 3 resources"]
    assert not _not_found(["Plan: 12 to replace. About 1 min 2 s on box.", "", "In sync: 4 resources"], printed)
    assert not _not_found([_LEFT_OUT, "In sync: 4 resources"], printed)
    assert _not_found(["In sync: 4 resources"], printed)
    assert _not_found(["Plan: 1 to render. About 9.9 s on box.", _LEFT_OUT], printed)
    assert _not_found(["Plan: 1 to replace. About 9.9 s on box."], printed)


def _not_found(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """Return the first run of shown lines that was not printed after the one before it. The document
    shows lines as a terminal of 80 columns folds them, so words are compared."""
    if not shown:
        return []
    remaining = _words(printed)
    parts = _parts(shown)
    for number, part in enumerate(parts):
        wanted = _words(part)
        starts = range(len(remaining) - len(wanted) + 1)
        at = next((start for start in starts if remaining[start : start + len(wanted)] == wanted), None)
        if at is None or (number == 0 and at > 0):
            return list(part)
        remaining = remaining[at + len(wanted) :]
    return [] if not parts[-1] or not any(remaining) else ["(nothing more)"]


def _parts(shown: Sequence[str]) -> list[list[str]]:
    """Split where lines are left out; an empty part at either end leaves that end open."""
    parts: list[list[str]] = [[]]
    for line in shown:
        if line == _LEFT_OUT:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _words(lines: Sequence[str]) -> list[str]:
    """What lines say on any machine: figures, durations, digests and the gaps of a table vary."""
    text = re.sub(r"\b[0-9a-f]{7,64}\b", "#", " ".join(" ".join(lines).split()))
    text = re.sub(r"\d[\d,.:]*\d|\d", "#", text)
    return _DURATION.sub("# s", text).split()
