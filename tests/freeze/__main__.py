"""Write or compare everything that a restructuring must leave alone: ``python -m tests.freeze {write,compare} FOLDER``.

``write`` stores, as one JSON file per subject, the keys and the plan of every spec in ``specs/`` (all benchmarks of all
rounds), the outputs of commands and the rendered tree of the repository that version 0.1.0 made, and with ``--trees
FOLDER`` the findings of `check` and `verify-tree` over each published tree in that folder. ``compare`` does the same
again and prints what differs; exit 1 where anything does. Sentences may be reworded: of a text with spaces only its
numbers count. It takes minutes and is not part of the suite.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from reconciler.storage.files import hash_bytes

HERE = Path(__file__).parent
MADE = HERE.parent / "passes" / "made_by_0_1" / "repository"
# Of this machine or this moment, and no part of any promise.
VOLATILE = frozenset({"root", "tool", "pid", "now", "seconds_total", "waited"})
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_CELL = "closed/edge/tiny/Offline"
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("status", "--all"),
    ("plan", "--all"),
    ("audit",),
    ("check",),
    ("show", _CELL),
    ("why", _CELL),
    ("history", _CELL),
    ("rounds",),
    ("benchmarks",),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.freeze", description=__doc__)
    parser.add_argument("action", choices=("write", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trees", type=Path, help="folder of published submission trees, one folder a round")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    differing = 0
    for name, value in capture(given.trees):
        text = json.dumps(value, indent=1, sort_keys=False, ensure_ascii=False) + "\n"
        path = given.folder / f"{name}.json"
        if given.action == "write":
            path.write_text(text, encoding="utf-8")
            print(f"{name}: {len(text):,} characters", flush=True)
            continue
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
        lines = list(difflib.unified_diff(before.splitlines(), text.splitlines(), "before", "now", lineterm="", n=2))
        differing += bool(lines)
        print(f"{name}: {'differs' if lines else 'the same'}", *lines[:60], sep="\n  ", flush=True)
    return int(differing > 0)


def capture(trees: Path | None) -> Iterator[tuple[str, Any]]:
    """Name and value of each subject."""
    with tempfile.TemporaryDirectory() as scratch:
        for spec in sorted((HERE / "specs").glob("*.yaml")):
            yield f"plan-{spec.stem}", _plan_spec(Path(scratch) / spec.stem, spec)
        checkout = Path(scratch) / "checkout"
        _git(Path.cwd(), "clone", "--quiet", "--shared", ".", str(checkout))
        for spec in sorted((checkout / "specs").glob("*.yaml")):
            yield f"plan-{spec.stem}", _read_plan(checkout, f"specs/{spec.name}")
        yield from _capture_repository(Path(scratch) / "repository")
    for tree in sorted(path for path in trees.iterdir() if path.is_dir()) if trees else ():
        for command in ("verify-tree", "check"):
            yield f"{command}-{tree.name}", _read_json(Path.cwd(), command, str(tree), "--json", environment=os.environ)


def _plan_spec(root: Path, spec: Path) -> Any:
    """The saved plan of a spec with nothing recorded: the key of every resource."""
    (root / "specs").mkdir(parents=True)
    shutil.copy(spec, root / "specs")
    for name in ("calibration.md", "harness/run.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("1\n")
    _git(root, "init", "--quiet")
    return _read_plan(root)


def _read_plan(root: Path, *specs: str) -> Any:
    return _read_json(root, "plan", *specs, "--output", "-", environment=_plain_environment())


def _capture_repository(root: Path) -> Iterator[tuple[str, Any]]:
    shutil.copytree(MADE, root)
    _git(root, "init", "--quiet")
    _git(root, "add", "--all")
    _git(root, "commit", "--quiet", "--message", "Made by 0.1.0")
    _run(root, environment=_plain_environment())  # renders the tree, and has nothing else to do
    for words in _COMMANDS:
        document = _read_json(root, *words, "--json", environment=_plain_environment())
        yield f"made-by-0-1-{words[0]}", document
    tree = root / ".reconcile" / "tree"
    yield (
        "made-by-0-1-tree",
        {
            path.relative_to(tree).as_posix(): hash_bytes(path.read_bytes())
            for path in sorted(tree.rglob("*"))
            if path.is_file()
        },
    )


def _plain_environment() -> dict[str, str]:
    names = {f"GIT_{who}_{part}" for who in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    person = {name: "tester@example.com" if name.endswith("EMAIL") else "A Tester" for name in names}
    date = {f"GIT_{who}_DATE": "2026-11-25T00:00:00Z" for who in ("AUTHOR", "COMMITTER")}
    return {**os.environ, **person, **date, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def _git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, check=True, env=_plain_environment(), stdin=subprocess.DEVNULL)


def _run(root: Path, *words: str, environment: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "reconciler.cli.main", *words]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def _read_json(root: Path, *words: str, environment: Any) -> Any:
    """Exit code and document of a command; its errors where it prints no document."""
    done = _run(root, *words, environment=environment)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        document = {"stdout": done.stdout, "stderr": done.stderr}
    return {"exit": done.returncode, "document": strip_prose(document, lambda text: text.replace(str(root), "ROOT"))}


def strip_prose(value: Any, replace: Callable[[str], str] = lambda text: text) -> Any:
    """The document without its sentences: of a text with spaces, its numbers."""
    if isinstance(value, dict):
        return {replace(key): strip_prose(each, replace) for key, each in value.items() if key not in VOLATILE}
    if isinstance(value, list):
        return [strip_prose(each, replace) for each in value]
    if not isinstance(value, str):
        return value
    text = replace(value)
    return {"numbers": sorted(_NUMBER.findall(text))} if " " in text else text


if __name__ == "__main__":
    raise SystemExit(main())
