"""A pass after the clock was put back, or next to records of a machine whose clock runs ahead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from reconciler.record.store import write_record
from tests.passes.repository import Repository
from tests.passes.standin import with_command
from tests.shared import need

need("mlperf_loadgen")
CELL = "open/box/tiny/Offline"


def put_ahead(repository: Repository, address: str) -> str:
    """As if the clock had shown tomorrow when that was recorded. Gives the new record's id."""
    ((identity, record),) = repository.records_of(address).items()
    (repository.paths.records / f"{identity}.json").unlink()
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    return write_record(repository.paths, replace(record, started=tomorrow.strftime("%Y-%m-%dT%H:%M:%S.%fZ")))


def test_a_run_after_the_clock_was_put_back_is_the_newest_and_its_own_logs_count(tmp_path: Path) -> None:
    repository = with_command(tmp_path)
    repository.reconcile()
    before = put_ahead(repository, f"Run:{CELL}/performance")
    report = repository.reconcile(rerun=("mode=performance",))
    assert [o.message for o in report.outcomes if o.record is not None and o.record.problem] == []
    runs = repository.records_of(f"Run:{CELL}/performance")
    (after,) = set(runs) - {before}
    assert runs[after].started > runs[before].started
    (chosen,) = [c for cell, c in report.after.difference.chosen.items() if str(cell) == CELL]
    assert chosen.performance == after
    assert repository.reconcile().outcomes == ()
