"""What a command created in the folder of its code."""

from __future__ import annotations

from pathlib import Path

from harness.verbs.code_folder import list_created, list_entries


def test_new_files_are_named_by_the_topmost_new_folder(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/run.py").write_text("1")
    before = list_entries(tmp_path)
    for name in (
        "out/a/b.json",
        "src/tuned.json",
        "build/logs/x",
        "src/__pycache__/run.pyc",
        "src/mlperf_log_trace.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "src/run.py").write_text("2")
    assert list_created(before, list_entries(tmp_path)) == ["out/", "src/tuned.json"]
