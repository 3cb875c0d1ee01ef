"""Boxes behind ssh are machines of their own: their steps go on side by side, those of one box never overlap."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.execute.outcome import Event, Outcome, StepProgress, StepStarted
from reconciler.plan.plan import Step
from reconciler.reconcile.planning import Options
from reconciler.reconcile.run import run_pass
from tests.launchers import Cluster, installed
from tests.passes.repository import SPEC, Repository, make_repository
from tests.shared import need

need("mlperf_loadgen")
_CELL = "        tiny:\n          Offline: {target_qps: 100, min_query_count: 100}\n"
# Long enough for another box to begin in the meantime.
_SLOW = """

def postprocess(outputs):
    import time
    time.sleep(0.03)
    return outputs[0].argmax(axis=1)
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with installed(tmp_path / "cluster") as found:
        monkeypatch.setenv("PATH", f"{found.bin}:{os.environ['PATH']}")
        yield found


def make_boxes(root: Path) -> Repository:
    repository = make_repository(root)
    text = (root / SPEC).read_text(encoding="utf-8")
    head, _, rest = text.partition("    box:\n")
    benchmarks = rest[rest.index("  benchmarks:") : rest.index("  divisions:")]
    systems = "".join(
        f"    box{number}:\n      category: edge\n      status: available\n      launcher: [ssh, n{number}]\n"
        for number in range(2)
    )
    cells = "".join(f"      box{number}:\n{_CELL}" for number in range(2))
    repository.write(SPEC, f"{head}{systems}{benchmarks}  divisions:\n    open:\n{cells}")
    code = (root / "benchmarks/tiny.py").read_text(encoding="utf-8")
    repository.write("benchmarks/tiny.py", f"{code}{_SLOW}")
    return repository


class Overlaps:
    """Which runs were under way at a time, by their boxes."""

    def __init__(self) -> None:
        self.now: list[str] = []
        self.seen: set[tuple[str, ...]] = set()
        self.outcomes: list[Outcome] = []

    def report(self, event: Event) -> None:
        if isinstance(event, StepStarted) and event.step.change.address.kind == "Run":
            self.now.append(box_of(event.step))
            self.seen.add(tuple(sorted(self.now)))
        if isinstance(event, Outcome):
            self.outcomes.append(event)
            if event.step.change.address.kind == "Run":
                self.now.remove(box_of(event.step))


def box_of(step: Step) -> str:
    assert step.change.address.cell is not None
    return step.change.address.cell.system


def test_boxes_work_at_the_same_time_and_each_at_one_step(tmp_path: Path, cluster: Cluster) -> None:
    repository, overlaps = make_boxes(tmp_path / "lab"), Overlaps()
    report = run_pass(repository.paths, Options(), report=overlaps.report)
    assert report.after.plan.in_sync, [outcome.message for outcome in report.outcomes]
    assert ("box0", "box1") in overlaps.seen
    assert not {seen for seen in overlaps.seen if len(set(seen)) < len(seen)}
    assert max(repository.done().values()) == 1
    assert repository.leftovers() == []
    assert report.own_seconds >= 0
    assert repository.reconcile().outcomes == ()


def test_one_job_at_a_time_where_that_is_asked_for(tmp_path: Path, cluster: Cluster) -> None:
    repository, overlaps = make_boxes(tmp_path / "lab"), Overlaps()
    report = run_pass(repository.paths, Options(jobs=1), report=overlaps.report)
    assert report.after.plan.in_sync
    assert max(map(len, overlaps.seen)) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_the_end_of_a_pass_ends_all_steps(tmp_path: Path, cluster: Cluster, error: type[BaseException]) -> None:
    repository = make_boxes(tmp_path / "lab")
    running: set[str] = set()

    def note(event: Event) -> None:
        if isinstance(event, StepProgress) and event.progress.stage == "running":
            running.add(box_of(event.step))

    def check(step: Step, _: bool) -> None:
        if running == {"box0", "box1"}:
            raise error("enough")

    with pytest.raises(error, match="enough"):
        run_pass(repository.paths, Options(), report=note, check=check)
    assert all(Path(left, "result.json").is_file() for left in repository.leftovers())  # one that had just ended
    assert repository.reconcile().after.plan.in_sync
    assert max(repository.done().values()) == 1
