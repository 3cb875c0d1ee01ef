"""What is collected: files that no record names, and lost attempts; never what was measured and is not recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs

from reconciler.errors import RecordError
from reconciler.record.codec import encode
from reconciler.record.gc import collect
from reconciler.record.index import locate_record
from reconciler.record.store import keep, write_record
from reconciler.resource.records import Artifact, Record
from reconciler.storage.files import RepositoryPaths, TrialPaths
from tests.unit.record.test_index import record


@pytest.fixture
def paths(tmp_path: Path) -> RepositoryPaths:
    return RepositoryPaths(tmp_path / "repository")


def store(paths: RepositoryPaths, text: str) -> Artifact:
    source = paths.root.parent / "source"
    source.write_text(text)
    return keep(paths, source, "engine")


def naming(artifact: Artifact, number: int = 1) -> Record:
    return structs.replace(record(number), artifacts=(artifact,))


def stored(paths: RepositoryPaths) -> set[str]:
    return {path.name for path in paths.objects.glob("*/*")}


def begin_attempt(paths: RepositoryPaths, name: str, *, finished: bool) -> Path:
    folder = paths.attempts / name
    folder.mkdir(parents=True)
    (folder / "request.json").write_text("{}")
    if finished:
        (folder / "result.json").write_text("{}")
    return folder


def test_gc_keeps_a_finished_attempt_that_is_not_recorded_yet(paths: RepositoryPaths) -> None:
    """The next pass records it: hours of a run would be lost with it."""
    finished = begin_attempt(paths, "finished", finished=True)
    lost = begin_attempt(paths, "lost", finished=False)
    report = collect(paths, [])
    assert (report.attempts, finished.is_dir(), lost.exists()) == (1, True, False)
    assert sorted(path.name for path in finished.iterdir()) == ["request.json", "result.json"]


def test_gc_removes_what_no_record_names(paths: RepositoryPaths) -> None:
    named, elsewhere, audited, unnamed = (store(paths, text) for text in ("a", "bb", "ccc", "dddd"))
    write_record(paths, naming(named))
    paths.audits.mkdir(parents=True)
    (paths.audits / "again.json").write_text(json.dumps({"record": json.loads(encode(naming(audited, 2)))}))
    report = collect(paths, [encode(naming(elsewhere, 3))])
    assert stored(paths) == {named.sha256, elsewhere.sha256, audited.sha256}
    assert (report.objects, report.bytes) == (1, 4)
    assert [Path(path).name for path in report.paths] == [unnamed.sha256]


def test_gc_removes_trials_only_where_it_is_asked_to(paths: RepositoryPaths) -> None:
    tried = store(paths, "a")
    write_record(TrialPaths(paths.root), naming(tried))
    collect(paths, [])
    assert stored(paths) == {tried.sha256}
    collect(paths, [], trials=True)
    assert stored(paths) == set()


def test_gc_that_only_looks_removes_nothing(paths: RepositoryPaths) -> None:
    unnamed = store(paths, "a")
    lost = begin_attempt(paths, "lost", finished=False)
    report = collect(paths, [], dry_run=True)
    assert (report.objects, report.attempts) == (1, 1)
    assert (stored(paths), lost.is_dir()) == ({unnamed.sha256}, True)


def test_gc_removes_nothing_where_a_record_is_damaged(paths: RepositoryPaths) -> None:
    unnamed = store(paths, "a")
    path = locate_record(paths, write_record(paths, record(1)))
    path.write_text("{")
    with pytest.raises(RecordError, match="nothing was removed"):
        collect(paths, [])
    assert stored(paths) == {unnamed.sha256}


def test_gc_removes_nothing_where_a_report_of_an_audit_is_damaged(paths: RepositoryPaths) -> None:
    unnamed = store(paths, "a")
    paths.audits.mkdir(parents=True)
    (paths.audits / "again.json").write_text('{"record": 1')
    with pytest.raises(RecordError, match=r"again\.json: not a readable report"):
        collect(paths, [])
    assert stored(paths) == {unnamed.sha256}


def begin_trial(paths: RepositoryPaths, name: str) -> Path:
    return begin_attempt(TrialPaths(paths.root), name, finished=False)


def test_trials_go_whole_and_only_their_runs_are_counted(paths: RepositoryPaths) -> None:
    trial_paths = TrialPaths(paths.root)
    for number in range(5):  # of which one is of each kind
        write_record(trial_paths, record(number))
    begin_trial(paths, "lost")
    (trial_paths.trials / "notes").mkdir()
    kept = collect(paths, [])
    assert (kept.trials, kept.attempts, (trial_paths.trials / "notes").is_dir()) == (0, 1, True)
    runs = len(list((trial_paths.records / "Run").glob("*.json"))) if (trial_paths.records / "Run").exists() else 0
    gone = collect(paths, [], trials=True)
    assert (gone.trials, trial_paths.trials.exists()) == (runs, False)
    again = collect(paths, [], trials=True)
    assert (again.trials, again.attempts, again.objects) == (0, 0, 0)


def test_a_trial_that_a_queue_may_still_carry_out_stays_while_the_others_go(paths: RepositoryPaths) -> None:
    trial_paths = TrialPaths(paths.root)
    spared, other = begin_trial(paths, "spared"), begin_trial(paths, "other")
    finished = begin_attempt(trial_paths, "finished", finished=True)
    own = begin_attempt(paths, "own", finished=False)
    write_record(trial_paths, record(1))
    report = collect(paths, [], spared=[spared, own], trials=True)
    assert (report.attempts, sorted(path.name for path in trial_paths.trials.iterdir())) == (1, ["attempts"])
    assert [path.is_dir() for path in (spared, own, other, finished)] == [True, True, False, False]
    collect(paths, [], spared=[own], trials=True)
    assert (trial_paths.trials.exists(), own.is_dir()) == (False, True)


def test_gc_removes_nothing_where_a_record_cannot_be_opened(paths: RepositoryPaths) -> None:
    unnamed = store(paths, "a")
    folder = paths.records / "Run" / "x-0.json"
    folder.mkdir(parents=True)
    with pytest.raises(RecordError) as caught:
        collect(paths, [])
    assert caught.value.message.startswith(f"nothing was removed: {folder}: ")
    assert caught.value.fix == "run `reconcile` first: it repairs records"
    assert stored(paths) == {unnamed.sha256}
