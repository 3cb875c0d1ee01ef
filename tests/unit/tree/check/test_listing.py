"""The files of a folder of logs against a list."""

from __future__ import annotations

from pathlib import Path

from reconciler.check.listing import TOLERATED, list_missing, list_unlisted
from reconciler.tree.reading.cell import Folder
from tests.unit.tree.small_cells import say


def test_files_that_are_missing_or_unlisted_are_told_in_their_order(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path), "here")
    for name in ("b", "d", "a"):
        (tmp_path / name).touch()
    (tmp_path / "c").mkdir()
    assert say(list_missing(folder, ("d", "c", "a", "e"))) == [
        "here/c: missing; wanted c",
        "here/e: missing; wanted e",
    ]
    assert say(list_unlisted(folder, {"b"}, "b alone")) == [
        f"here/{name}: a file {name}; wanted b alone; to mend: remove it" for name in ("a", "d")
    ]
    gone = folder / "gone"
    assert say(list_missing(gone, ("x", "y"))) == ["here/gone: missing; wanted a folder with x, y"]
    assert say(list_unlisted(gone, (), "nothing")) == []


def test_what_may_be_beside_the_logs() -> None:
    assert {"mlperf_log_accuracy.json", "mlperf_log_trace.json", "results.json", ".gitkeep"} == TOLERATED
