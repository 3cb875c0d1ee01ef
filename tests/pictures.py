"""The README's pictures, of a real pass of the quick start: ``python -m tests.pictures [FOLDER]``.

After the pass two lines of the spec are edited. ``plan.svg`` is what `plan` then prints on a terminal, ``page.png`` and
``page-dark.png`` are the page of the same repository in Chromium. They are written to reconciler/docs/pictures.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from reconciler.cli.main import main
from reconciler.storage.packaged_files import read_shipped
from tests.architecture.source import ROOT
from tests.browser.conftest import find_browser
from tests.goldens.terminal import print_in_colour

PICTURES = ROOT / "reconciler/docs/pictures"
COLUMNS, SCREEN = 110, {"width": 1120, "height": 480}
SPEC = "specs/quickstart.yaml"
EDITS = {"target_qps: 200 ": "target_qps: 250 ", "engine: {batch_size: 32}": "engine: {batch_size: 64}"}
_FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)  # of a server elsewhere, which no picture may ask


def draw(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "quickstart"
        make_pass(root)
        for before, after in EDITS.items():
            edit(root, before, after)
        draw_terminal(root, folder / "plan.svg")
        run_reconcile(root, "page", "--export", str(Path(scratch) / "page"))
        draw_page(Path(scratch) / "page", folder)


def make_pass(root: Path) -> None:
    """Make a repository with the quick start's spec and the records of one pass, committed."""
    run_reconcile(root.parent, "init", str(root))
    (root / f"specs/{root.name}.yaml").write_bytes(read_shipped(SPEC))
    run_git(root, "add", "--all")
    run_git(root, "commit", "--quiet", "--message", "Declare the quick start")
    run_reconcile(root, "--busy", "--commit", "--quiet")


def edit(root: Path, before: str, after: str) -> None:
    path = root / f"specs/{root.name}.yaml"
    text = path.read_text(encoding="utf-8")
    if text.count(before) != 1:
        raise ValueError(f"{before!r} is {text.count(before)} times in {path}")
    path.write_text(text.replace(before, after), encoding="utf-8")
    run_git(root, "commit", "--quiet", "--all", "--message", "Ask for more")


def draw_terminal(root: Path, target: Path) -> None:
    printed = print_in_colour(root, ["plan"], COLUMNS)
    screen = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    screen.print(Text.assemble(("$ reconcile plan\n", "bold"), Text.from_ansi(printed.rstrip("\n"))))
    target.write_text(_FONT.sub("", screen.export_svg(title="reconcile plan", unique_id="plan")), encoding="utf-8")


def draw_page(export: Path, folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        for scheme, name in (("light", "page.png"), ("dark", "page-dark.png")):
            tab = browser.new_page(viewport=SCREEN, color_scheme=scheme)
            tab.goto(f"{export.as_uri()}/index.html")
            tab.wait_for_load_state("networkidle")
            tab.screenshot(path=folder / name)
        browser.close()


def run_reconcile(root: Path, *words: str) -> None:
    if code := main(["-C", str(root), *words]):
        sys.exit(f"reconcile {' '.join(words)} exited with {code}")


def run_git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(root), *words], check=True)


if __name__ == "__main__":
    os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    os.environ |= {
        f"GIT_{role}_{of}": said
        for role in ("AUTHOR", "COMMITTER")
        for of, said in (("NAME", "Example"), ("EMAIL", "example@example.org"))
    }
    os.environ.pop("NO_COLOR", None)
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES)
