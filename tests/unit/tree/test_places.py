"""Which layout a submitter's folder has."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.tree.reading.places import LEGACY, V6, find_roots


@pytest.mark.parametrize(
    ("folders", "layout"),
    [
        (("measurements", "compliance", "code"), LEGACY),
        (("code",), LEGACY),
        (("measurements", "src"), LEGACY),
        (("src",), V6),
        ((), V6),
        (("code", "src"), V6),  # tools that write either layout leave the older folder behind
    ],
)
def test_layout_by_the_folders_of_a_submitter(tmp_path: Path, folders: tuple[str, ...], layout: str) -> None:
    for name in ("results", *folders):
        (tmp_path / "closed/Acme" / name).mkdir(parents=True)
    (root,) = find_roots(tmp_path)
    assert [place.layout for place in root.submitters] == [layout]


def test_code_under_both_names_through_a_link_is_the_newer_layout(tmp_path: Path) -> None:
    for name in ("results", "code"):
        (tmp_path / "closed/Acme" / name).mkdir(parents=True)
    (tmp_path / "closed/Acme/src").symlink_to("code")
    (root,) = find_roots(tmp_path)
    assert root.submitters[0].layout == V6
