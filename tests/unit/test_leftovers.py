"""What killed writes left in folders of the user's."""

from __future__ import annotations

import os
from pathlib import Path

from reconciler.files import try_flock
from reconciler.leftovers import sweep_beside


def test_only_what_writes_of_this_file_left_goes(tmp_path: Path) -> None:
    ours = [tmp_path / f".sent[1].tar.gz{more}.x1y2.partial" for more in ("", ".MANIFEST.json", ".sha256")]
    others = [
        tmp_path / name for name in (".other.partial", ".sent[1].tar.gz.x1y2", "sent[1].tar.gz", ".sent1.partial")
    ]
    for path in [*ours, *others]:
        path.write_text("half")
    sweep_beside(tmp_path / "sent[1].tar.gz")
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_what_is_being_written_stays(tmp_path: Path) -> None:
    path = tmp_path / ".packed.tar.gz.x1y2.partial"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    assert try_flock(descriptor)
    sweep_beside(tmp_path / "packed.tar.gz")
    assert path.exists()
    os.close(descriptor)
    sweep_beside(tmp_path / "packed.tar.gz")
    assert not path.exists()
