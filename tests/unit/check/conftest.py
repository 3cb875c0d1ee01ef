"""One tree made once a session, copied for each test that changes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reconciler.check.engine import check_tree
from reconciler.cli.shared.tree_options import open_archive
from reconciler.tree.findings import TreeReport
from tests.kept_logs import unpack
from tests.shared import make_once
from tests.unit.check.made import copy_tree, make_tree


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_once(tmp_path_factory, "kept-tree", partial(unpack, "tree"))


@pytest.fixture(scope="session")
def clean_trees(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A clean tree of a division, not to be changed."""
    made: dict[str, Path] = {}

    def get(division: str) -> Path:
        if division not in made:
            made[division] = make_once(
                tmp_path_factory, f"{division}-tree", lambda folder: make_tree(folder / "tree", logs, division=division)
            )
        return made[division]

    return get


@pytest.fixture
def tree_of(clean_trees: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a division's clean tree, to be changed."""
    return lambda division: copy_tree(clean_trees(division), tmp_path / "tree")


@pytest.fixture
def tree(tree_of: Callable[[str], Path]) -> Path:
    return tree_of("closed")


def checked(root: Path) -> TreeReport:
    return check_tree(root, round_name="v6.1", original=open_archive(root.with_suffix(".originals")))
