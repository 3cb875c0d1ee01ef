"""What is written of a submission for later passes, and the words in which its state is told."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from reconciler.errors import StorageError
from reconciler.execute.executors import executor
from reconciler.execute.executors.executor import Handle, Progressing, State, read_handle, write_handle
from reconciler.execute.outcome import Status


def test_a_later_pass_finds_a_submission_by_its_executor_and_its_name(tmp_path: Path) -> None:
    handle = Handle("slurm", tmp_path, "reconcile-2026-1")
    assert read_handle(tmp_path) is None
    write_handle(handle)
    assert json.loads((tmp_path / "handle.json").read_text()) == {"executor": "slurm", "name": "reconcile-2026-1"}
    assert read_handle(tmp_path) == handle
    for text in ("{", "[]", '{"executor": "slurm"}', "7"):
        (tmp_path / "handle.json").write_text(text)
        assert read_handle(tmp_path) is None


def test_a_disk_that_cannot_be_read_says_nothing_of_a_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(executor, "read_json", fail)
    with pytest.raises(StorageError):
        read_handle(tmp_path)


def test_states_are_told_in_these_words() -> None:
    """To people and to other programs, which read them in JSON."""
    assert {state.value: Progressing(state).goes_on for state in State} == {
        "queued": True,
        "running": True,
        "ended": False,
        "lost": False,
    }
    assert [status.value for status in Status] == ["Done", "Blocked", "Retry", "Failed"]
