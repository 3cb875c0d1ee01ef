"""Published code of submitters as a submission of ours, where ``PUBLISHED`` names a folder with checkouts of it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conftest import console

PUBLISHED = os.environ.get("PUBLISHED", "")
NEEDS_PUBLISHED = pytest.mark.skipif(not PUBLISHED, reason="PUBLISHED names no folder of checkouts")


def submit(root: Path, code: Path, adapter: str, *named: str, below: str, change: Callable[[str], str]) -> Path:
    """Make a committed submission that runs the code. ``named``: of its round, system and benchmarks. ``below``: what
    its harness declares in addition. ``change``: of the text of its spec."""
    submission = root / "acme"
    said = console(root, "init", str(submission), "--harness", adapter, "--code", str(code), *named)
    assert said.code == 0, said.err
    spec = submission / "specs/acme.yaml"
    text = spec.read_text().replace("# rehearsal: true", "rehearsal: true #")
    assert f"code: {code}}}" in text
    spec.write_text(change(text.replace(f"code: {code}}}", below)))
    for words in (("add", "-A"), ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "spec")):
        subprocess.run(["git", *words], cwd=submission, check=True)
    return submission


def append_cheat(engine: Path, added: str) -> None:
    engine.write_text(f"{engine.read_text()}{added}")


def assert_cheat_is_found(submission: Path, cell: str, shown: str) -> None:
    said = console(submission, cell).out
    assert "0 of 1 cell ready" in said, said
    assert re.search(shown, said), said
