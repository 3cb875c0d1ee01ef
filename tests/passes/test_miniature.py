"""A harness that clears, places and leaves its own audit.config, and writes into its own code."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.resource.records import Ended, Record
from tests.passes.miniature import with_miniature
from tests.passes.repository import Repository
from tests.shared import need

need("mlperf_loadgen")
CELL = "open/box/tiny/Offline"


def only(repository: Repository, address: str) -> Record:
    (found,) = repository.records_of(address).values()
    assert found.ended is Ended.DONE, found.outcome
    return found


def test_every_run_of_it_is_made_once(tmp_path: Path) -> None:
    repository = with_miniature(tmp_path, "TEST01")
    first = repository.reconcile()
    print([(str(o.step.change.address), o.status, o.message) for o in first.outcomes])
    for address in (f"Run:{CELL}/performance", f"Run:{CELL}/accuracy", f"ComplianceTest:{CELL}/TEST01"):
        assert only(repository, address)
    verdict = only(repository, f"Verdict:{CELL}/TEST01")
    assert verdict.values["passed"] is True, verdict.values
    assert not (tmp_path / "theirs/audit.config").exists()
    again = repository.reconcile()
    assert not again.outcomes
