"""What the tests of any queue share: a repository whose systems are in its hands, and passes over it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeGuard

from reconciler.execute.outcome import Event, StepProgress
from reconciler.reconcile.run import PassReport
from reconciler.resource.records import Ended, Record
from tests.passes.repository import SPEC, Repository, make_repository
from tests.processes import wait_for

CHECKOUT = Path(__file__).parents[2]
_CELLS = """\
          Offline: {target_qps: 100, min_query_count: 100}
          SingleStream: {target_latency: 10 ms, min_query_count: 100}
"""
# Early stopping proves the 99th percentile by 662 and 459 queries at the least.
_MORE_CELLS = """\
          MultiStream: {target_latency: 500 ms, min_query_count: 700}
          Server: {target_qps: 50, target_latency: 2 s, min_query_count: 500}
"""
_SYSTEM = """\
    NAME:
      category: edge
      status: available
      executor: EXECUTOR
"""
_SLOW = """

def postprocess(outputs):
    import time
    time.sleep({})
    return outputs[0].argmax(axis=1)
"""


def make_lab(
    root: Path, systems: Mapping[str, str], *, seconds: float = 0.0, store: Path | None = None, cells: int = 2
) -> Repository:
    """``systems``: name → its executor, and further lines. ``seconds``: how long a performance run of SingleStream
    lasts at least; one of Offline a quarter of that. ``store``: the folder of a declared store called lab. ``cells``
    of each system: 2 or 4."""
    repository = make_repository(root)
    text = (root / SPEC).read_text(encoding="utf-8")
    head, _, rest = text.partition("    box:\n")
    benchmarks = rest[rest.index("  benchmarks:") : rest.index("  divisions:")]
    declared = "".join(
        _SYSTEM.replace("NAME", name).replace("EXECUTOR", executor) for name, executor in systems.items()
    )
    wanted = _CELLS + (_MORE_CELLS if cells == 4 else "")
    entered = "".join(f"      {name}:\n        tiny:\n{wanted}" for name in systems)
    stores = f'  stores:\n    lab: {{url: "file://{store}"}}\n' if store is not None else ""
    add_waiting(repository, seconds / 100)
    repository.write(SPEC, f"{head}{declared}{benchmarks}{stores}  divisions:\n    open:\n{entered}")
    return repository


def add_waiting(repository: Repository, seconds: float) -> None:
    """To each batch of the small benchmark: a run lasts, and computes nothing in the meantime."""
    code = (repository.root / "benchmarks/tiny.py").read_text(encoding="utf-8")
    repository.write("benchmarks/tiny.py", f"{code}{_SLOW.format(seconds)}")


def start_pass(repository: Repository, *words: str, said: Path | None = None) -> subprocess.Popen[bytes]:
    """``said``: where what it prints goes; default: next to its repository's files."""
    command = [sys.executable, "-m", "reconciler.cli.main", *words]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    with (said or repository.root / "said").open("ab") as out:
        return subprocess.Popen(command, cwd=repository.root, env=environment, stdout=out, stderr=out)


def kill_pass(repository: Repository, began: Callable[[], object], seconds: float = 60.0) -> None:
    """Start a pass, and kill it once something has begun."""
    process = start_pass(repository, "--busy")
    wait_for(began, seconds)
    process.kill()
    process.wait()


def runs_of(repository: Repository) -> list[Record]:
    return [record for record in repository.records().values() if "machine.job" in record.facts]


def said(report: PassReport) -> str:
    return "\n".join(f"{outcome.step.change.address}: {outcome.message}" for outcome in report.outcomes)


def is_timed_run(event: Event, scenario: str) -> TypeGuard[StepProgress]:
    """Whether it reports that a performance run of the scenario answers queries."""
    return (
        isinstance(event, StepProgress)
        and event.progress.stage == "running"
        and event.step.change.address.label == "Run performance"
        and scenario in str(event.step.change.address)
    )


def assert_nothing_is_lost_or_repeated(repository: Repository) -> None:
    assert repository.look().plan.in_sync
    assert max(repository.done().values()) == 1
    assert repository.leftovers() == []


def assert_every_cell_is_valid(repository: Repository, cells: int) -> None:
    done = [record for record in runs_of(repository) if record.ended is Ended.DONE]
    reported = {str(record.address): record.values.get("validity") for record in done}
    timed = {address: validity for address, validity in reported.items() if address.endswith("performance")}
    assert set(timed.values()) == {"VALID"}, timed
    assert (len(timed), len(reported)) == (cells, 2 * cells)


def assert_jobs_of_a_killed_pass_are_found(
    repository: Repository, running: Callable[[], list[str]], count_jobs: Callable[[], int]
) -> None:
    """Of two systems."""
    before = count_jobs()
    kill_pass(repository, lambda: len(running()) >= 2)
    assert running(), "its jobs outlive it"
    report = repository.reconcile()
    assert report.after.plan.in_sync, said(report)
    assert_nothing_is_lost_or_repeated(repository)
    assert count_jobs() - before == len(runs_of(repository)) == 8


def assert_an_interrupted_pass_ends_its_jobs(
    repository: Repository, began: Callable[[], bool], ended: Callable[[], bool], seconds: float = 60.0
) -> None:
    """``ended``: within so many seconds after the pass."""
    process = start_pass(repository, "--busy")
    wait_for(began)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    wait_for(ended, seconds)
    assert repository.leftovers() == []
    assert all(record.ended is Ended.DONE for record in repository.records().values())


def assert_detached_jobs_go_on_and_are_recorded(repository: Repository) -> None:
    """Of one system."""
    left = repository.reconcile(detach=True)
    assert left.left == 4
    assert not left.after.plan.in_sync
    attached = repository.reconcile(attach=True)
    assert (attached.left, len(runs_of(repository))) == (0, 4), said(attached)
    assert repository.reconcile().after.plan.in_sync
    assert_nothing_is_lost_or_repeated(repository)
