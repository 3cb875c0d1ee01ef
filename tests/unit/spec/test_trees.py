"""Where the submission tree may be rendered: never into what the repository is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.spec.writing import VALID, load_texts, problems_in


def with_tree(tree: str) -> str:
    return VALID.replace("  submitter: ACME\n", f"  submitter: ACME\n  tree: {tree}\n")


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (".", "is the repository itself"),
        ("a/..", "is the repository itself"),
        ("..", "contains the repository"),
        ("/", "contains the repository"),
        ("state", "be state/"),
        ("state/tree", "be inside state/"),
        ("a/../state/records", "be inside state/"),
        ("linked/tree", "be inside state/"),
        ("specs/tree", "be inside specs/"),
        (".git/tree", "is inside .git"),
        ("/srv/other/.git/tree", "is inside .git"),
        (".reconcile", "be .reconcile/"),
        (".reconcile/objects", "be inside .reconcile/"),
        (".reconcile/tree/deeper", "be inside .reconcile/"),
    ],
)
def test_a_tree_that_would_mix_with_the_repository_is_refused(tree: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "linked").symlink_to("state")
    (problem,) = problems_in(tmp_path, main=with_tree(tree))
    assert (problem.file, problem.line, problem.column, problem.path) == ("main.yaml", 7, 9, "spec.tree")
    assert said in problem.message
    assert "tree: submission" in problem.fix


def test_a_tree_that_would_hold_a_part_of_the_repository_is_refused(tmp_path: Path) -> None:
    root, kept = tmp_path / "repository", tmp_path / "kept"
    (kept / "state").mkdir(parents=True)
    root.mkdir()
    (root / "state").symlink_to(kept / "state")
    (problem,) = problems_in(root, main=with_tree(str(kept)))
    assert "the tree would contain state/" in problem.message


@pytest.mark.parametrize("tree", [".reconcile/tree", "submission", "../submission", "stately", "/srv/submission"])
def test_any_other_folder_is_taken(tree: str, tmp_path: Path) -> None:
    assert load_texts(tmp_path, main=with_tree(tree)).settings["tree"].value == tree
