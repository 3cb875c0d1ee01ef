"""Several passes on one machine: timed runs take turns, and who is killed blocks no one."""

from __future__ import annotations

import subprocess
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.passes.repository import SPEC, Repository, make_repository
from tests.warm.commands import start_command

SERVER = "Server: {target_qps: 200, target_latency: 9 s, min_query_count: 600}"  # three seconds


def begin(repository: Repository) -> subprocess.Popen[str]:
    return start_command(["apply"], repository.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def timing(repository: Repository) -> bool:
    requests = repository.paths.attempts.glob("*/request.json")
    return any('"performance"' in path.read_text() for path in requests)


def timed(repository: Repository) -> tuple[datetime, datetime]:
    (record,) = repository.records_of("Run:open/box/tiny/Server/performance").values()
    start = datetime.fromisoformat(record.started)
    return start, start + timedelta(seconds=record.seconds)


def test_timed_runs_of_several_passes_take_turns_also_when_one_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("mlperf_loadgen")
    first, second, third = (make_repository(tmp_path / name) for name in ("first", "second", "third"))
    for repository in (first, second, third):
        repository.edit(SPEC, "Offline: {target_qps: 100, min_query_count: 100}", SERVER)
        repository.reconcile(only=("Dataset", "Model"))
    killed = begin(first)
    give_up = time.monotonic() + 60
    while not timing(first):
        assert time.monotonic() < give_up
        time.sleep(0.02)
    others = [begin(second), begin(third)]
    time.sleep(1.0)
    killed.kill()
    killed.communicate(timeout=60)
    said = [process.communicate(timeout=120)[0] for process in others]
    assert [process.returncode for process in others] == [0, 0], "".join(said)
    assert any("waiting for exclusive use of this machine (held by process" in text for text in said)
    (_, end), (start, _) = sorted([timed(second), timed(third)])
    assert end <= start
    assert first.reconcile().after.plan.in_sync
    assert not first.damage()
