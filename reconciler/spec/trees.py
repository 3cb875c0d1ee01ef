"""Places where the submission tree may not be rendered: those of a repository's own files, which the tree would mix
with."""

from __future__ import annotations

from pathlib import Path

from reconciler.storage.files import RepositoryPaths

_FIX = "name a folder of its own, such as `tree: submission`, or leave it out for .reconcile/tree"


def find_misplaced_tree(written: str, root: Path) -> tuple[str, str] | None:
    """Find what is wrong with a tree at ``written``, and the fix; None when nothing is."""
    top, tree = root.resolve(), (root / written).resolve()
    if tree == RepositoryPaths(top).tree:
        return None
    if tree == top:
        return "the tree would be the repository itself", _FIX
    if top.is_relative_to(tree):
        return f"the tree would hold the whole repository: {tree} is a folder above it", _FIX
    if ".git" in tree.parts:
        return "the tree would be inside .git, which belongs to git", _FIX
    for name in ("state", "specs", ".git", ".reconcile"):
        folder = (top / name).resolve()
        if tree == folder:
            return f"the tree would be {name}/, which holds what the repository is made of", _FIX
        if tree.is_relative_to(folder) or folder.is_relative_to(tree):
            how = "be inside" if tree.is_relative_to(folder) else "hold"
            return f"the tree would {how} {name}/, which holds what the repository is made of", _FIX
    return None
