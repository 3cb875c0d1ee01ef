"""Trees whose logs are as LoadGen wrote them: nothing in them is lengthened, so that nothing contradicts itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared import make_once
from tests.unit.check.conftest import logs
from tests.unit.check.made import copy_tree, make_tree

__all__ = ["logs"]


@pytest.fixture(scope="session")
def consistent(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    return make_once(
        tmp_path_factory, "consistent-tree", lambda folder: make_tree(folder / "tree", logs, lengthened=False)
    )


@pytest.fixture
def tree(consistent: Path, tmp_path: Path) -> Path:
    """To be changed."""
    return copy_tree(consistent, tmp_path / "tree")
