"""What is said of a tree whose files, one after the other, are missing or empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.tree.check.engine import check_tree
from reconciler.tree.verify.engine import verify_tree
from tests.said import hold, read_sections
from tests.unit.tree.check.conftest import clean_trees, logs, tree_of
from tests.unit.tree.power_sessions import add_session
from tests.unit.tree.telling import tell

__all__ = ["clean_trees", "logs", "tree_of"]

SAID = Path(__file__).with_name("said_of_each_file.txt")
CHANGES: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
}
CELL = "results/sys1/resnet/"
EXAMINED = ("systems/", f"{CELL}SingleStream/", f"{CELL}Offline/performance/")


@pytest.mark.parametrize("change", CHANGES)
def test_each_file(change: str, tree_of: Callable[[str], Path]) -> None:
    root = tree_of("closed")
    add_session(root)
    before, top = set(_tell(root)), root / "closed/Acme"
    lines: list[str] = []
    for name in sorted(path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file()):
        if name.startswith(EXAMINED):
            path = top / name
            data = path.read_bytes()
            path.unlink()
            CHANGES[change](path)
            lines += [f"{name}:", *(f"    {line}" for line in _tell(root) if line not in before)]
            path.write_bytes(data)
    assert set(_tell(root)) == before
    hold(SAID, change, lines)


def _tell(root: Path) -> Iterator[str]:
    for look, name in ((check_tree, "check"), (verify_tree, "verify-tree")):
        for finding in look(root, round_name="v6.1").findings:
            yield f"{name}: {tell(finding, root)}"


def test_every_text_is_of_a_change() -> None:
    assert list(read_sections(SAID)) == list(CHANGES)
