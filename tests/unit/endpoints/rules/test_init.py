"""`reconcile init` of a round whose results are curves."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.errors import ReconcilerError
from reconciler.reconcile.new_repository import SubmissionRequest, make_repository


def test_init_refuses_a_benchmark_without_scenarios_and_writes_nothing(tmp_path: Path) -> None:
    request = SubmissionRequest(
        round_name="endpoints-v1.0",
        division="closed",
        category="datacenter",
        benchmarks=("gpt-oss-120b",),
        system=None,
        harness="",
        code="",
    )
    with pytest.raises(ReconcilerError, match="no scenarios"):
        make_repository(tmp_path, "acme", "Acme", request)
    assert not list(tmp_path.iterdir())
