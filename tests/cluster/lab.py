"""What the tests of any queue share: a repository whose systems are in its hands, and passes over it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeGuard

from reconciler.execute.outcome import Event, StepProgress
from reconciler.reconcile import PassReport
from reconciler.resource.records import Record
from tests.passes.repository import SPEC, Repository, make_repository

CHECKOUT = Path(__file__).parents[2]
_CELLS = """\
          Offline: {target_qps: 100, min_query_count: 100}
          SingleStream: {target_latency: 10 ms, min_query_count: 100}
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


def make_lab(root: Path, systems: Mapping[str, str], *, seconds: float = 0.0) -> Repository:
    """``systems``: name → its executor. ``seconds``: how long a performance run of SingleStream lasts at
    least; one of Offline a quarter of that."""
    repository = make_repository(root)
    text = (root / SPEC).read_text(encoding="utf-8")
    head, _, rest = text.partition("    box:\n")
    benchmarks = rest[rest.index("  benchmarks:") : rest.index("  divisions:")]
    declared = "".join(
        _SYSTEM.replace("NAME", name).replace("EXECUTOR", executor) for name, executor in systems.items()
    )
    cells = "".join(f"      {name}:\n        tiny:\n{_CELLS}" for name in systems)
    code = (root / "benchmarks/tiny.py").read_text(encoding="utf-8")
    repository.write("benchmarks/tiny.py", f"{code}{_SLOW.format(seconds / 100)}")
    repository.write(SPEC, f"{head}{declared}{benchmarks}  divisions:\n    open:\n{cells}")
    return repository


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it did not come to that"
        time.sleep(0.1)


def start_pass(repository: Repository, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "reconciler.cli.main", *words]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    with (repository.root / "said").open("ab") as out:
        return subprocess.Popen(command, cwd=repository.root, env=environment, stdout=out, stderr=out)


def runs_of(repository: Repository) -> list[Record]:
    return [record for record in repository.records().values() if "machine.job" in record.facts]


def said(report: PassReport) -> str:
    return "\n".join(f"{outcome.step.change.address}: {outcome.message}" for outcome in report.outcomes)


def is_timed_run(event: Event, scenario: str) -> TypeGuard[StepProgress]:
    """Whether it tells that a performance run of the scenario answers queries."""
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
