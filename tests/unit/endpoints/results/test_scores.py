"""Runs of the endpoints harness score themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.execute.test_perform import perform_score


def test_a_run_that_scores_itself_needs_no_scorer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert perform_score("endpoints", tmp_path, monkeypatch) == (False, True)
