"""A folder that this user may not list: one finding that names it, nothing said of what it holds, the rest examined."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.check.engine import check_tree
from reconciler.errors import StorageError
from reconciler.render.findings import render_objections
from reconciler.tree.findings import TreeFinding, TreeReport
from reconciler.tree.reading.files import list_files
from reconciler.verify.engine import verify_tree
from tests.unit.verify.conftest import consistent, logs, tree

__all__ = ["consistent", "logs", "tree"]

Shut = Callable[[Path], None]
CELL = "results/sys1/resnet/Offline"
# Folder of the closed submitter → the cell that the finding is about.
FOLDERS = {
    "": "closed",
    "results": "closed",
    "results/sys1": "closed/sys1",
    "results/sys1/resnet": "closed/sys1/resnet",
    CELL: "closed/sys1/resnet/Offline",
    f"{CELL}/performance": "closed/sys1/resnet/Offline",
    f"{CELL}/performance/run_1": "closed/sys1/resnet/Offline",
    f"{CELL}/accuracy": "closed/sys1/resnet/Offline",
    f"{CELL}/TEST01": "closed/sys1/resnet/Offline",
    "systems": "closed",
    "src": "closed",
    "src/resnet": "closed",
    "documentation": "closed",
}


@pytest.fixture
def shut(monkeypatch: pytest.MonkeyPatch) -> Shut:
    """Refuses to list or enter a folder, as its mode would for any user but root."""
    real = {name: getattr(os, name) for name in ("scandir", "stat", "lstat", "open")}

    def close(folder: Path) -> None:
        def refuse(name: str) -> Callable[..., Any]:
            def call(path: Any, *arguments: Any, **named: Any) -> Any:
                if not isinstance(path, int):
                    place = Path(os.fsdecode(path)).absolute()
                    if folder in place.parents or (name == "scandir" and place == folder):
                        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
                return real[name](path, *arguments, **named)

            return call

        for name in real:
            monkeypatch.setattr(os, name, refuse(name))

    return close


def find(findings: tuple[TreeFinding, ...]) -> set[tuple[str, str, str, str]]:
    return {(f.rule.id, f.submitter, f.cell, str(f.complaint)) for f in findings}


@pytest.mark.parametrize("look", [check_tree, verify_tree])
@pytest.mark.parametrize("name", FOLDERS)
def test_closed_folder_is_one_finding(tree: Path, name: str, look: Callable[..., TreeReport], shut: Shut) -> None:
    submitter = tree / "closed/Acme"
    shutil.copytree(submitter, tree / "closed/Other")
    (tree / "closed/Other" / CELL / "user.conf").write_text("*.Offline.target_qps = 12345\n")
    folder = submitter / name if name else submitter
    assert folder.is_dir()
    before = look(tree, round_name="v6.1")
    shut(folder)
    after = look(tree, round_name="v6.1")
    reported = [f for f in after.findings if f.rule.id == "tree.readable"]
    if look is check_tree or name.startswith(("results",)) or not name:
        (found,) = reported
        shown = str(folder.relative_to(tree))
        assert (str(found.complaint.place), found.cell) == (shown, FOLDERS[name])
        assert "chmod" in found.complaint.fix
        assert found.submitter == "", "the reader's machine is not the submitter's fault"
    assert not [f for f in after.findings if f.rule.id == "internal.rule"]
    new = find(after.findings) - find(before.findings) - find(tuple(reported))
    assert not {text for _, whom, _, text in new if whom == "Acme"}, "nothing is known of what is missing there"
    others = {facts.cell for facts in after.facts if facts.submitter == "Other"}
    assert others == {facts.cell for facts in before.facts if facts.submitter == "Other"}
    if look is verify_tree:
        assert [f for f in after.findings if f.submitter == "Other" and "12345" in str(f.complaint)]
    assert not any(folder.name in text and "may not" in text for text in render_objections(after).values())


def test_top_that_is_closed_is_an_error(tree: Path, shut: Shut) -> None:
    shut(tree)
    for look in (check_tree, verify_tree):
        with pytest.raises(StorageError, match=r"cannot read .*EACCES"):
            look(tree)


def test_anyone_who_needs_all_of_a_tree_is_refused(tree: Path, shut: Shut) -> None:
    shut(tree / "closed")
    with pytest.raises(StorageError, match=r"cannot (read|use) .*EACCES"):
        list_files(tree / "closed")


def test_closed_folder_of_one_of_several_trees_is_of_its_cell(tree: Path, tmp_path: Path, shut: Shut) -> None:
    several = tmp_path / "several"
    for name in ("first", "second"):
        shutil.copytree(tree, several / name)
    shut(several / "second/closed/Acme" / CELL)
    (found,) = [f for f in check_tree(several, round_name="v6.1").findings if f.rule.id == "tree.readable"]
    assert (str(found.complaint.place), found.cell) == (f"second/closed/Acme/{CELL}", FOLDERS[CELL])
