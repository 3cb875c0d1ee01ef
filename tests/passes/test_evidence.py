"""Runs that rules of before refused: a trace that takes LoadGen long to write, a clock that was set, what they left."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.diff.conditions import summarise_cells
from reconciler.execute.outcome import Status
from reconciler.loadgen.log import parse_detail
from reconciler.loadgen.log_files import DETAIL
from reconciler.reconcile.planning import PlanResult
from reconciler.reconcile.worker import take_up_refused
from reconciler.record import judgements
from reconciler.record.codec import decode
from reconciler.record.store import keep, write_record
from reconciler.resource.conditions import CellStatus, ConditionStatus
from reconciler.resource.records import Ended
from tests.passes.repository import HERE, SPEC, Repository
from tests.passes.tracing import make_tracing
from tests.shared import need

REFUSED = HERE / "refused/repository"
CELL = "open/box/tiny/SingleStream"
RUN = f"Run:{CELL}/performance"


def standing(seen: PlanResult) -> CellStatus:
    cells = summarise_cells(seen.desired, seen.recorded, seen.observed, seen.difference)
    return next(cell for cell in cells if str(cell.cell) == CELL)


@pytest.fixture
def refused(tmp_path: Path) -> Repository:
    """As a version left it that refused the performance run, whose logs are in the store alone."""
    repository = Repository(tmp_path / "repository")
    shutil.copytree(REFUSED, repository.root)
    for path in sorted((repository.root / "objects").iterdir()):
        stored = repository.object_path(path.name)
        stored.parent.mkdir(parents=True, exist_ok=True)
        path.replace(stored)
    return repository


def test_a_run_that_an_older_version_refused_is_taken_up_without_a_run(refused: Repository) -> None:
    ((before, failed),) = refused.records_of(RUN).items()
    assert (failed.ended, failed.problem_class) == (Ended.FAILED, "contradiction")
    report = refused.reconcile()
    assert [o for o in report.outcomes if o.record is not None] == []
    assert standing(report.after).ready is ConditionStatus.TRUE
    assert report.after.plan.in_sync
    after = {i: r for i, r in refused.records_of(RUN).items() if i != before}
    ((identity, record),) = after.items()
    assert (record.ended, record.supersedes, record.started) == (Ended.DONE, before, failed.started)
    assert record.values["validity"] == "VALID"
    logged = parse_detail(refused.log_of(RUN, DETAIL).read_bytes())
    assert Decimal(record.values["metric"]["value"]) * 1_000_000 == logged.get("early_stopping_latency_ss")
    assert (refused.root / ".reconcile/tree").is_dir()
    assert refused.leftovers() == []
    assert refused.reconcile().outcomes == ()
    assert set(refused.records_of(RUN)) == {before, identity}


def test_what_is_not_here_as_it_was_is_not_taken_up(refused: Repository) -> None:
    (failed,) = refused.records_of(RUN).values()
    (log,) = [a.sha256 for a in failed.artifacts if a.name == DETAIL]
    path = refused.object_path(log)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b'"VALID"', b'"VALIE"'))
    report = refused.reconcile(only=("Score",))  # no run is made here
    assert set(refused.records_of(RUN)) == {f"Run/{p.stem}" for p in (REFUSED / "state/records/Run").glob("c3*")}
    assert standing(report.after).ready is not ConditionStatus.TRUE


def test_a_run_that_is_asked_for_again_is_made(refused: Repository) -> None:
    seen = refused.look(rerun=("mode=performance",))
    assert list(take_up_refused(refused.paths, seen, lambda _: pytest.fail("it was forced"))) == []


def test_newer_rules_judge_what_is_kept_alone(refused: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that was edited, with a record that names it, as if today's rule had been missing when it was made."""
    refused.reconcile()
    (identity,) = [i for i, record in refused.records_of(RUN).items() if record.ended is Ended.DONE]
    forge(refused, identity)
    found = refused.look()
    assert {f.kind for f in found.plan.findings} == {"LogContradicted"}
    assert standing(found).ready is ConditionStatus.FALSE
    assert found.plan.steps == () or {str(s.change.how) for s in found.plan.steps} == {"render"}

    index = refused.paths.index / "judgements.msgpack"
    kept = index.read_bytes()
    monkeypatch.setattr(judgements, "JUDGED_BY", judgements.JUDGED_BY + 1)
    judged = []
    whole = judgements.judge_record
    monkeypatch.setattr(judgements, "judge_record", lambda p, i, m=None: judged.append(i) or whole(p, i, m))
    assert refused.look().plan.findings == found.plan.findings
    assert len(judged) == len(set(judged)) == 3  # both runs, and the score
    assert index.read_bytes() != kept
    refused.look()
    assert len(judged) == 3  # and never again by the same rules


def forge(repository: Repository, identity: str) -> None:
    path = repository.paths.records / f"{identity}.json"
    record = decode(path.read_bytes(), identity)
    log = next(a for a in record.artifacts if a.name == DETAIL)
    text = (repository.paths.logs / log.sha256).read_text()
    better = re.sub(r'("key": "result_qps_without_loadgen_overhead", "value": )([\d.e+]+)', r"\g<1>1e9", text)
    scratch = repository.root / "forged.txt"
    scratch.write_text(better)
    new = keep(repository.paths, scratch, DETAIL, in_git=True)
    scratch.unlink()
    path.unlink()
    write_record(repository.paths, replace(record, artifacts=tuple(new if a is log else a for a in record.artifacts)))


def test_a_large_log_that_is_elsewhere_leaves_its_findings_open(refused: Repository) -> None:
    refused.reconcile()
    for artifact in {a for r in refused.records_of(RUN).values() for a in r.artifacts if a.name == DETAIL}:
        for path in (refused.object_path(artifact.sha256), refused.paths.logs / artifact.sha256):
            path.unlink(missing_ok=True)
    (refused.paths.index / "judgements.msgpack").unlink()
    found = refused.look()
    assert found.plan.findings == ()
    assert any("not judged" in note for note in standing(found).notes)


def test_a_trace_may_take_loadgen_as_long_as_it_needs(tmp_path: Path) -> None:
    """LoadGen hears of the end of its trace six seconds after that of the run; old rules allowed five."""
    need("mlperf_loadgen")
    settings = "target_latency: 1 ms, min_query_count: 2000"
    repository = make_tracing(tmp_path / "repository", sys.executable, delay=6, settings=settings)
    report = repository.reconcile(busy=True)
    assert {o.status for o in report.outcomes} == {Status.DONE}
    log = parse_detail(repository.log_of(RUN, DETAIL).read_bytes())
    assert log.started is not None
    assert log.ended is not None
    assert log.index.ended_at is not None
    assert float(log.index.ended_at) / 1000 > (log.ended - log.started).total_seconds() + 5
    assert standing(report.after).ready is ConditionStatus.TRUE
    assert standing(report.after).notes == ()


@pytest.mark.slow
def test_eleven_minutes_of_a_million_queries_with_loadgens_own_log_settings_end_ready(tmp_path: Path) -> None:
    need("mlperf_loadgen")
    settings = "target_latency: 500 us, min_query_count: 1000001, min_duration: 660 s"
    repository = make_tracing(tmp_path / "repository", sys.executable, each=0.0005, settings=settings)
    report = repository.reconcile(busy=True)
    assert [o.message for o in report.outcomes if o.status is not Status.DONE] == []
    log = parse_detail(repository.log_of(RUN, DETAIL).read_bytes())
    assert log.get("result_query_count") > 1_000_000
    assert standing(report.after).ready is ConditionStatus.TRUE
    assert repository.reconcile().outcomes == ()


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or shutil.which("gcc") is None,
    reason="the clock of one process is set by a library for glibc, which gcc makes",
)
def test_a_clock_that_is_set_by_a_year_in_the_middle_of_a_run_is_a_note(tmp_path: Path) -> None:
    need("mlperf_loadgen")
    library = tmp_path / "stepped.so"
    source = HERE / "stepped_clock.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    settings = "target_latency: 500 us, min_query_count: 5000, min_duration: 5 s"
    repository = make_tracing(tmp_path / "repository", sys.executable, each=0.0005, settings=settings)
    environment = {"LD_PRELOAD": str(library), "STEP_AFTER": "3.5", "STEP_BY": str(365 * 86400)}
    repository.write(
        "ours/stepped.py",
        "import os, sys\n"
        f"if sys.argv[2] == 'performance':\n    os.environ.update({environment!r})\n"
        "os.execv(sys.executable, [sys.executable, 'run.py', *sys.argv[1:]])\n",
    )
    repository.edit(SPEC, "run.py,", "stepped.py,")
    report = repository.reconcile(busy=True)
    assert [o.message for o in report.outcomes if o.status is not Status.DONE] == []
    log = parse_detail(repository.log_of(RUN, DETAIL).read_bytes())
    assert log.started is not None
    assert log.ended is not None
    assert (log.ended - log.started).days == 365
    assert standing(report.after).ready is ConditionStatus.TRUE
    assert [note.split(": ")[1] for note in standing(report.after).notes] == ["run.duration"]
