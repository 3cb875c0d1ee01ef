"""Prepared datasets in the scratch space: made once for all repositories, believed by their digests."""

from __future__ import annotations

import errno
import json
import logging
import os
import threading
from pathlib import Path

import pytest

from harness.contract import Benchmark, RehearseRequest, Result
from reconciler.execute import perform
from reconciler.execute.attempt import Attempt, Intent, create
from reconciler.execute.perform import offer_prepared, take_prepared
from reconciler.reconcile.run import PassReport
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import hash_file, remove
from tests.passes.repository import Repository
from tests.shared import need
from tests.unit.cli.conftest import git

need("cv2", "onnxruntime")

SPEC = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {name: acme}
spec:
  round: v4.1
  submitter: ACME
  rehearsal: true
  systems: {box: {category: datacenter, status: available}}
  benchmarks: {resnet50: {engine: {backend: "null"}}}
  divisions: {closed: {box: {resnet50: {Offline: {target_qps: 10}}}}}
"""


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from harness.verbs.rehearse import execute

    root = tmp_path / "scratch"
    (root / "data").mkdir(parents=True)
    (root / "models").mkdir()
    asked = RehearseRequest(
        benchmark=Benchmark(name="resnet50"),
        output=str(tmp_path / "made"),
        counter=str(tmp_path / "c"),
        count=3,
        seed=1,
    )
    assert execute(asked, lambda _: None).done
    (tmp_path / "made/data").rename(root / "data/imagenet")
    (tmp_path / "made/models").rename(root / "models/ResNet50")
    monkeypatch.setenv("MLPERF_SCRATCH_PATH", str(root))
    return root


def make_clone(root: Path) -> Repository:
    repository = Repository(root)
    repository.write("specs/one.yaml", SPEC)
    git(root, "init", "--quiet")
    return repository


def prepare(repository: Repository) -> PassReport:
    report = repository.reconcile(only=("Dataset",))
    assert [str(outcome.status) for outcome in report.outcomes] == ["Done"], report.outcomes
    return report


def was_taken(report: PassReport) -> bool:
    (outcome,) = report.outcomes
    assert outcome.record is not None
    assert outcome.record.address.kind is Kind.DATASET
    return bool(outcome.record.values.get("taken_from_scratch"))


def find_entry(scratch: Path) -> Path:
    (entry,) = (scratch / "preprocessed_data/mlperf-reconciler").iterdir()
    return entry


def test_another_clone_takes_what_the_first_prepared(tmp_path: Path, scratch: Path) -> None:
    first, second = make_clone(tmp_path / "first"), make_clone(tmp_path / "second")
    one, other = prepare(first), prepare(second)
    assert (was_taken(one), was_taken(other)) == (False, True)
    records = [report.outcomes[0].record for report in (one, other)]
    assert records[0] is not None
    assert records[1] is not None
    assert records[0].artifacts == records[1].artifacts
    assert records[1].marks == records[0].marks  # generated data stay marked, anyone who takes them
    assert "synthetic" in records[1].marks
    assert find_entry(scratch).name == records[0].key
    assert second.reconcile(only=("Dataset",)).outcomes == ()


def test_an_entry_that_names_files_elsewhere_brings_none(tmp_path: Path, scratch: Path) -> None:
    prepare(make_clone(tmp_path / "first"))
    result = find_entry(scratch) / "result.json"
    document = json.loads(result.read_text())
    document["values"]["files"]["../../escaped"] = "0" * 64
    result.write_text(json.dumps(document))
    assert not was_taken(prepare(make_clone(tmp_path / "second")))
    assert not list(tmp_path.rglob("escaped"))


def test_two_passes_at_once_both_end_with_one_entry(tmp_path: Path, scratch: Path) -> None:
    clones = [make_clone(tmp_path / name) for name in ("first", "second")]
    reports: list[PassReport] = []
    threads = [threading.Thread(target=lambda c=c: reports.append(prepare(c))) for c in clones]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reports) == 2
    assert find_entry(scratch).is_dir()


def begin(root: Path, kind: Kind = Kind.DATASET, scratch: str = "scratch", **settings: object) -> Attempt:
    """With an output of two files and their manifest."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    places = {"dataset.prepared": str(root / scratch)} if scratch else {}
    address = Address(kind, "net" if kind is Kind.DATASET else "open/box/net/Offline/accuracy")
    number = len(list(root.glob("attempt*")))
    intent = Intent(f"attempt{number}", address, "k" * 64, 1, "2026", {}, CellSettings(named), places)
    attempt = create(root, intent)
    for name in ("a", "below/b", "manifest.json"):
        (attempt.output / name).parent.mkdir(exist_ok=True)
        (attempt.output / name).write_text(name)
    return attempt


def end(attempt: Attempt, **more: object) -> None:
    digests = {name: hash_file(attempt.output / name) for name in ("a", "below/b")}
    Result(**{"done": True, "seconds": 1.0, "values": {"files": digests}, **more}).write(attempt.result)  # type: ignore[arg-type]


def test_what_one_left_another_takes_as_it_is(tmp_path: Path) -> None:
    first, second = begin(tmp_path), begin(tmp_path)
    entry = tmp_path / "scratch" / "entry"
    assert not take_prepared(second, entry)
    offer_prepared(first, entry)
    assert not entry.exists()  # it has not ended
    end(first)
    offer_prepared(first, entry)
    assert sorted(path.name for path in entry.parent.iterdir()) == ["entry"]
    remove(second.output)
    second.output.mkdir()
    assert take_prepared(second, entry)
    found = {p.relative_to(second.output).as_posix(): p.read_text() for p in second.output.rglob("*") if p.is_file()}
    assert found == {name: name for name in ("a", "below/b", "manifest.json")}
    one, other = Result.read(first.result), Result.read(second.result)
    assert other.values == {**one.values, "taken_from_scratch": True}
    assert "taken_from_scratch" not in Result.read(entry / "result.json").values


@pytest.mark.parametrize("more", [{"done": False, "problem": "no"}, {"values": {}}], ids=["failed", "no files"])
def test_what_failed_or_names_no_files_is_left_to_no_one(more: dict[str, object], tmp_path: Path) -> None:
    attempt, entry = begin(tmp_path), tmp_path / "scratch" / "entry"
    end(attempt, **more)
    offer_prepared(attempt, entry)
    assert not (tmp_path / "scratch").exists()


def test_the_entry_of_the_first_stays(tmp_path: Path) -> None:
    first, second = begin(tmp_path), begin(tmp_path)
    entry = tmp_path / "scratch" / "entry"
    (second.output / "a").write_text("of another time")
    for attempt in (first, second):
        end(attempt)
        offer_prepared(attempt, entry)
    assert (entry / "files/a").read_text() == "a"
    assert [path.name for path in entry.parent.iterdir()] == ["entry"]


@pytest.mark.parametrize("damage", ["edited", "missing", "more", "no manifest"])
def test_an_entry_that_is_not_what_it_was_goes(damage: str, tmp_path: Path) -> None:
    first, second = begin(tmp_path), begin(tmp_path)
    entry = tmp_path / "scratch" / "entry"
    end(first)
    offer_prepared(first, entry)
    match damage:
        case "edited":
            (entry / "files/a").unlink()
            (entry / "files/a").write_text("b")
        case "missing":
            (entry / "files/below/b").unlink()
        case "more":
            (entry / "files/c").touch()
        case _:
            (entry / "files/manifest.json").unlink()
    assert not take_prepared(second, entry)
    assert not entry.exists()
    assert not second.result.exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"done": true}'])
def test_an_entry_whose_result_cannot_be_read_is_none(text: str, tmp_path: Path) -> None:
    first, second = begin(tmp_path), begin(tmp_path)
    entry = tmp_path / "scratch" / "entry"
    end(first)
    offer_prepared(first, entry)
    (entry / "result.json").unlink()
    (entry / "result.json").write_text(text)
    assert not take_prepared(second, entry)
    assert not second.result.exists()


def test_where_the_scratch_space_fails_half_way_nothing_of_it_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempt, entry = begin(tmp_path), tmp_path / "scratch" / "entry"
    end(attempt)
    link = perform.link

    def fill(source: Path, target: Path) -> None:
        if target.name == "manifest.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        link(source, target)

    monkeypatch.setattr(perform, "link", fill)
    caplog.set_level(logging.INFO)
    offer_prepared(attempt, entry)
    assert list((tmp_path / "scratch").iterdir()) == []
    assert [record.message for record in caplog.records] == ["a prepared dataset was not stored in the scratch space"]
