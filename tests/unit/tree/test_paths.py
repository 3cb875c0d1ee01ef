"""Paths of folders that are searched are put together as text, to what Path makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.tree.reading.files import join_path


@pytest.mark.parametrize("path", [".", "..", "/", "//", "a", "/a/b", "../a"])
def test_a_name_in_a_folder_is_what_path_makes_of_it(path: str) -> None:
    assert join_path(path, "closed") == str(Path(path) / "closed")
