"""What is written of a submission for later passes, and the words in which its state is told."""

from __future__ import annotations

import json
from pathlib import Path

from reconciler.execute.executors.executor import Handle, read_handle, write_handle


def test_a_later_pass_finds_a_submission_by_its_executor_and_its_name(tmp_path: Path) -> None:
    handle = Handle("slurm", tmp_path, "reconcile-2026-1")
    assert read_handle(tmp_path) is None
    write_handle(handle)
    assert json.loads((tmp_path / "handle.json").read_text()) == {"executor": "slurm", "name": "reconcile-2026-1"}
    assert read_handle(tmp_path) == handle
    for text in ("{", "[]", '{"executor": "slurm"}', "7"):
        (tmp_path / "handle.json").write_text(text)
        assert read_handle(tmp_path) is None
