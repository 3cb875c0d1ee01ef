"""Slices of GPUs as a spec declares them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.catalog import read_slices, write_slices
from tests.unit.spec.writing import HEADER, VALID, load_texts


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("{profile: 1g.10gb, count: 7}", "7x 1g.10gb"),
        ("{profile: 1g.10gb+me}", "1x 1g.10gb+me"),
        ("[{profile: 1g.10gb, count: 4}, {profile: 3g.40gb}]", "1x 3g.40gb, 4x 1g.10gb"),
    ],
)
def test_slices_of_gpus_are_read_in_one_order(tmp_path: Path, written: str, read: str) -> None:
    system = f"    box: {{hardware: {{accelerator: A100, count: 1, mig: {written}}}}}\n"
    declared = load_texts(tmp_path, main=VALID, second=f"{HEADER}spec:\n  systems:\n{system}")
    box = declared.systems["box"].settings
    assert box["hardware.mig"].value == read
    assert write_slices(read_slices(read)) == read
