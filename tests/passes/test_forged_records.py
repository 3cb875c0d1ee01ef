"""Records of a committed quick start, edited with care: digests, names and all that refers to them fit again. `audit`
and `pr` contradict each, and name the file and the field."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.diff.claims import Claim, Proof
from reconciler.history import records
from reconciler.history.audit import audit
from reconciler.history.pull_request import find_forgeries
from reconciler.history.runs import ORIGINAL
from reconciler.history.snapshot import read_snapshot
from reconciler.loadgen.log_files import DETAIL
from reconciler.record.codec import decode
from reconciler.record.store import keep, write_record
from reconciler.resource.inputs import Role
from reconciler.resource.records import CODE_ARCHIVE, Artifact, Ended, Record, RecordedFact, RecordedInput
from reconciler.storage import git
from reconciler.storage.code_archive import LEFT_OUT, pack_code, unpack_code
from tests.passes.repository import Repository
from tests.passes.test_audited import forged
from tests.shared import make_once, need

need("mlperf_loadgen", "onnxruntime", "onnx")

CELL = "open/this-machine/digits/Offline"
PERFORMANCE, ACCURACY = f"Run:{CELL}/performance", f"Run:{CELL}/accuracy"
ENGINE, MODEL, DATASET, SCORE = f"Engine:{CELL}", "Model:digits", "Dataset:digits", f"Score:{CELL}"
SPEC = Path(__file__).parents[2] / "specs/quickstart.yaml"
HISTORY = f": {ORIGINAL}"
Edit = Callable[[Record], Record]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return make_once(tmp_path_factory, "quick-start-history", _make)


def _make(folder: Path) -> Repository:
    """One cell of the quick start, after a short training, in commits of the order in which they came."""
    repository = Repository(folder / "repository")
    repository.write(".gitignore", ".reconcile/\n")
    repository.write("specs/quickstart.yaml", SPEC.read_text(encoding="utf-8"))
    repository.edit("specs/quickstart.yaml", "      model:\n", "      model:\n        settings: {epochs: 1}\n")
    repository.commit()
    repository.reconcile(select=("scenario=Offline",))
    repository.commit()
    return repository


@pytest.fixture
def clone(made: Repository, tmp_path: Path) -> Repository:
    made.git("clone", "--quiet", str(made.root), str(tmp_path / "clone"))
    return Repository(tmp_path / "clone")


def list_contradicted(repository: Repository, *, history: bool = False) -> list[Claim]:
    """``history``: with what only an earlier commit denies."""
    found = audit(repository.root, read_snapshot(repository.root, git.resolve(repository.root, "HEAD")))
    denied = [claim for claim in found.claims if claim.proof is Proof.CONTRADICTED]
    return [claim for claim in denied if history or not claim.what.endswith(HISTORY)]


def list_errors(repository: Repository, base: str = "HEAD~1", *, history: bool = False) -> list[str]:
    at = read_snapshot(repository.root, git.resolve(repository.root, "HEAD"))
    found = find_forgeries(repository.root, git.resolve(repository.root, base), at)
    errors = [f"{remark.file} {remark.message}" for remark in found if remark.level == "error"]
    return [text for text in errors if history or f"{HISTORY}: " not in text]


def ask(name: str, value: object) -> Edit:
    return lambda r: replace(r, inputs={**r.inputs, name: RecordedInput(value, r.inputs[name].origin)})


def state(name: str, value: object) -> Edit:
    return lambda r: replace(r, facts={**r.facts, name: RecordedFact(value, r.facts[name].role)})


def say(name: str, value: object) -> Edit:
    return lambda r: replace(r, values={**r.values, name: value})


def swap_artifact(record: Record) -> Record:
    """The engine of another, wherever its own record lists it."""
    other = "ab" * 32
    kept = tuple(a._replace(sha256=other) if a.name == "model.onnx" else a for a in record.artifacts)
    return replace(record, artifacts=kept, values={**record.values, "files": {a.name: a.sha256 for a in kept}})


def change_margin(record: Record) -> Record:
    margins: list[dict[str, Any]] = [dict(margin) for margin in record.values["margins"]]
    margins[0]["measured"] = "123456"
    return replace(record, values={**record.values, "margins": margins})


def date_back(record: Record) -> Record:
    return date(record, -30)


def date(record: Record, days: int) -> Record:
    """With the attempt that made it."""
    began = datetime.fromisoformat(record.started) + timedelta(days=days)
    return replace(
        record,
        started=f"{began:%Y-%m-%dT%H:%M:%S.%f}Z",
        attempt=f"{began:%Y%m%dT%H%M%S.%f}-{record.attempt.rpartition('-')[2]}",
    )


# What is edited, in which records, and the field that the contradiction names.
EDITS: dict[str, tuple[tuple[str, ...], Edit, str]] = {
    "the precision of an engine, under its old key": ((ENGINE,), ask("engine.precision", "int8"), "engine.precision"),
    "the source of a dataset, under its old key": ((DATASET,), ask("benchmark.code", "x revision 9"), "benchmark.code"),
    "the key of its dataset in a model": ((MODEL,), ask("dataset", "ab" * 32), "inputs.dataset"),
    "other bytes of an engine than its runs state": ((ENGINE,), swap_artifact, "engine.model.onnx"),
    "other bytes of an engine in both runs": ((PERFORMANCE, ACCURACY), state("engine.model.onnx", "ab" * 32), "engine"),
    "another digest of the engine in both runs": ((PERFORMANCE, ACCURACY), state("engine.digest", "ab" * 32), "digest"),
    "other answers than were scored": ((SCORE,), state("run.mlperf_log_accuracy.json", "ab" * 32), "accuracy.json"),
    "another list of files in an engine": ((ENGINE,), say("files", {"model.onnx": "ab" * 32}), "values.files"),
    "another precision that an engine states": (
        (ENGINE,),
        lambda r: replace(r, values={**r.values, "engine": {**r.values["engine"], "precision": "int8"}}),
        "values.engine.precision",
    ),
    "an invented harness": ((PERFORMANCE, ACCURACY), state("harness.code", "ab" * 32), "harness.code"),
    "edited margins": ((PERFORMANCE,), change_margin, "values.margins"),
    "no margins": ((PERFORMANCE,), say("margins", []), "values.margins"),
    "a reason that its log does not give": ((PERFORMANCE,), say("reasons", ["slow"]), "values.reasons"),
    "another suggestion": (
        (PERFORMANCE,),
        say("suggestion", {"setting": "target_qps", "value": "1", "unit": "", "why": ""}),
        "values.suggestion",
    ),
    "a result inferred for another scenario": (
        (PERFORMANCE,),
        say("inferred", {"Server": {"value": "9", "unit": "queries/s"}}),
        "values.inferred",
    ),
    "what a bar of the accuracy was compared with": (
        (SCORE,),
        lambda r: replace(r, values={**r.values, "bars": [{**r.values["bars"][0], "measured": "99.9"}]}),
        "values.bars",
    ),
    "evidence that is called a note": (
        (PERFORMANCE, ACCURACY),
        lambda r: replace(r, facts={**r.facts, "engine.model.onnx": RecordedFact(_engine_of(r), Role.NOTE)}),
        "facts.engine.model.onnx",
    ),
    "no bytes of the engine at all": (
        (PERFORMANCE, ACCURACY),
        lambda r: replace(r, facts={n: f for n, f in r.facts.items() if not n.startswith("engine.")}),
        "facts.engine",
    ),
    "a dataset that is marked, and its runs are not": (
        (DATASET,),
        lambda r: replace(r, marks=(*r.marks, "synthetic")),
        "marks",
    ),
    "a run of another scenario's address": (
        (ACCURACY,),
        lambda r: replace(r, address=r.address.parse(ACCURACY.replace("Offline", "Server")), shared=(r.address,)),
        "address",
    ),
    "an engine that failed": (
        (ENGINE,),
        lambda r: replace(r, ended=Ended.FAILED, problem="it crashed", problem_class="crash"),
        "upstream.engine",
    ),
    "another revision of what makes a key": ((MODEL,), lambda r: replace(r, revision=2), "key"),
    "a run that a cell of another scenario shares": (
        (ACCURACY,),
        lambda r: replace(r, shared=(r.address.parse(ACCURACY.replace("Offline", "Server")),)),
        "shared",
    ),
    "a run that names no engine, whose bytes it states": (
        (ACCURACY,),
        lambda r: replace(r, upstream={role: i for role, i in r.upstream.items() if role != "engine"}),
        "upstream.engine",
    ),
    "the code of the harness, called a note": (
        (PERFORMANCE, ACCURACY),
        lambda r: replace(r, facts={**r.facts, "harness.code": RecordedFact(r.facts["harness.code"].value, Role.NOTE)}),
        "facts.harness.code",
    ),
    "a run that was dated back, after its attempt": (
        (PERFORMANCE,),
        lambda r: replace(r, started="2020-01-01T00:00:00.000000Z"),
        "started",
    ),
    "a run that was dated back, with its attempt": ((PERFORMANCE, ACCURACY), date_back, "started"),
}


def _engine_of(record: Record) -> object:
    return record.facts["engine.model.onnx"].value


def forge(repository: Repository, addresses: Iterable[str], edit: Edit) -> None:
    for address in addresses:
        forged(repository, address, edit)
    repository.commit()


def test_an_honest_repository_is_contradicted_by_nothing(clone: Repository) -> None:
    found = audit(clone.root, read_snapshot(clone.root, git.resolve(clone.root, "HEAD")))
    assert list_contradicted(clone, history=True) == []
    of_cell = {c.what: c.proof for c in found.claims if c.where == CELL}
    for what in ("made from", "performance: harness.code", "performance: derived values"):
        assert of_cell[what] is Proof.PROVEN
    assert Proof.MISSING not in of_cell.values()
    assert list_errors(clone, history=True) == []


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_record_is_contradicted_with_its_field(clone: Repository, name: str) -> None:
    addresses, edit, field = EDITS[name]
    forge(clone, addresses, edit)
    found = list_contradicted(clone)
    assert any(field in f"{claim.what} {claim.detail}" for claim in found), found
    assert any(field in text for text in list_errors(clone)), list_errors(clone)


@pytest.mark.parametrize("kind", ["another program", "an edited file", "an edited file, nothing left out", "none"])
def test_other_code_than_ran_is_contradicted(clone: Repository, kind: str) -> None:
    def exchange(record: Record) -> Record:
        (old,) = [a for a in record.artifacts if a.name == CODE_ARCHIVE]
        files = unpack_code((clone.paths.logs / old.sha256).read_bytes())
        if kind == "another program":
            files = {"run.py": b"print(1)\n"}
        else:
            files["harness/verbs/run.py"] += b"# faster\n"
        if kind.endswith("nothing left out"):
            del files[f"harness/{LEFT_OUT}"]
        data = b"no archive" if kind == "none" else pack_code(files)
        (clone.root / "new").write_bytes(data)
        new: Artifact = keep(clone.paths, clone.root / "new", CODE_ARCHIVE, in_git=True)
        return replace(record, artifacts=tuple(new if a is old else a for a in record.artifacts))

    forge(clone, (PERFORMANCE,), exchange)
    assert "performance: harness.code" in {claim.what for claim in list_contradicted(clone)}


def _exchange_code(repository: Repository, record: Record, change: Callable[[dict[str, bytes]], object]) -> Record:
    (old,) = [a for a in record.artifacts if a.name == CODE_ARCHIVE]
    files = unpack_code((repository.paths.logs / old.sha256).read_bytes())
    change(files)
    path = repository.root / ".reconcile/new"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pack_code(files))
    new: Artifact = keep(repository.paths, path, CODE_ARCHIVE, in_git=True)
    return replace(record, artifacts=tuple(new if a is old else a for a in record.artifacts))


@pytest.mark.parametrize("edited", [True, False])
def test_code_of_another_version_is_whole(clone: Repository, monkeypatch: pytest.MonkeyPatch, edited: bool) -> None:
    """An earlier version listed no digests of what it left out. The program that audits is none of both."""

    def shorten(files: dict[str, bytes]) -> None:
        del files[f"harness/{LEFT_OUT}"]
        if edited:
            files["harness/verbs/run.py"] += b"# faster\n"

    (path,) = clone.record_paths(PERFORMANCE)
    honest = decode(path.read_bytes(), str(path))
    write_record(clone.paths, replace(_exchange_code(clone, honest, shorten), started="2099-01-01T00:00:00.000000Z"))
    clone.commit()
    monkeypatch.setattr(records, "digest_own_harness", dict)
    found = audit(clone.root, read_snapshot(clone.root, git.resolve(clone.root, "HEAD")))
    (proof,) = [claim.proof for claim in found.claims if claim.what == "performance: harness.code"]
    assert proof is (Proof.CONTRADICTED if edited else Proof.PROVEN)


# Nothing else in the commit contradicts these: only the commit that brought the record as it was.
BY_HISTORY: dict[str, tuple[str, Edit, str]] = {
    "the machine": (PERFORMANCE, state("machine.kernel", "9.9"), "facts.machine.kernel"),
    "how long it took": (PERFORMANCE, lambda r: replace(r, seconds=r.seconds + 1), "seconds"),
    "the spec that asked for it": (PERFORMANCE, lambda r: replace(r, spec={"specs/other.yaml": "ab" * 20}), "spec"),
    "that its spec was committed": (PERFORMANCE, lambda r: replace(r, dirty=not r.dirty), "dirty"),
    "the program that made it": (PERFORMANCE, lambda r: replace(r, tool="mlperf-reconciler 9.9.9"), "tool"),
    "where an input came from": (
        PERFORMANCE,
        lambda r: replace(r, inputs={n: replace(i, origin="") for n, i in r.inputs.items()}),
        "inputs.",
    ),
    "the evidence of a dataset": (DATASET, lambda r: replace(r, seconds=99), "seconds"),
}


@pytest.mark.parametrize("name", BY_HISTORY)
def test_a_rewritten_record_is_contradicted_by_the_commit_that_brought_it(clone: Repository, name: str) -> None:
    address, edit, field = BY_HISTORY[name]
    forge(clone, (address,), edit)
    found = [claim for claim in list_contradicted(clone, history=True) if claim.what.endswith(HISTORY)]
    assert len(found) == 1  # and none for those that name it
    assert field in found[0].detail
    assert [text for text in list_errors(clone, history=True) if HISTORY in text and field in text]
    clone.git("revert", "--no-edit", "HEAD")
    assert list_contradicted(clone, history=True) == []


def test_records_that_were_dated_anew_with_their_logs_are_contradicted_by_the_run_of_before(clone: Repository) -> None:
    """All of a month later, so that each fits the others, and no commit is before its parent."""
    for address in (DATASET, MODEL, ENGINE, PERFORMANCE, ACCURACY, SCORE):
        forged(clone, address, lambda record: _date_log(clone, date(record, 30), 30))
    _commit_dated(clone, f"{datetime.now(UTC) + timedelta(days=31):%Y-%m-%dT%H:%M:%S}+00:00")
    found = {claim.what for claim in list_contradicted(clone, history=True)}
    assert f"Run performance{HISTORY}" in found
    assert [text for text in list_errors(clone, history=True) if f"Run performance{HISTORY}" in text]


def test_a_record_that_no_cell_rests_on_is_contradicted_too(clone: Repository) -> None:
    """A later spec may ask for its key."""
    (path,) = clone.record_paths(ENGINE)
    record = decode(path.read_bytes(), str(path))
    identity = write_record(
        clone.paths, ask("engine.precision", "int8")(replace(record, started="2030-01-01T00:00:00Z"))
    )
    clone.commit()
    found = [claim for claim in list_contradicted(clone) if claim.what == "inputs.engine.precision"]
    assert [claim.where for claim in found] == [f"state/records/{identity}.json"]
    assert any(identity in text and "engine.precision" in text for text in list_errors(clone))


def test_a_run_without_its_code_is_attested(clone: Repository) -> None:
    forge(
        clone, (PERFORMANCE,), lambda r: replace(r, artifacts=tuple(a for a in r.artifacts if a.name != CODE_ARCHIVE))
    )
    found = audit(clone.root, read_snapshot(clone.root, git.resolve(clone.root, "HEAD")))
    assert [c.proof for c in found.claims if c.what == "performance: harness.code"] == [Proof.ATTESTED]


def _commit_dated(repository: Repository, when: str) -> None:
    repository.git("add", "--all")
    dated = os.environ | {"GIT_COMMITTER_DATE": when, "GIT_AUTHOR_DATE": when}
    command = ["git", "commit", "--quiet", "--allow-empty", "--message", "State"]
    subprocess.run(command, cwd=repository.root, env=dated, check=True)


def _date_log_back(repository: Repository, record: Record) -> Record:
    return _date_log(repository, record, -30)


def _date_log(repository: Repository, record: Record, days: int) -> Record:
    """Where it has one."""
    old = next((a for a in record.artifacts if a.name == DETAIL), None)
    if old is None:
        return record

    def month(match: re.Match[str]) -> str:
        when = datetime.strptime(match[2], "%m-%d-%Y %H:%M:%S").replace(tzinfo=UTC) + timedelta(days=days)
        return f"{match[1]}{when:%m-%d-%Y %H:%M:%S}"

    text = (repository.paths.logs / old.sha256).read_text(encoding="utf-8")
    changed = re.sub(r'("power_\w+", "value": ")([\d-]+ [\d:]+)', month, text)
    assert changed != text
    repository.write(".reconcile/edited", changed)
    new = keep(repository.paths, repository.root / ".reconcile/edited", DETAIL, in_git=True)
    return replace(record, artifacts=tuple(new if a is old else a for a in record.artifacts))


def test_a_log_that_began_before_its_attempt_on_one_machine_is_contradicted(clone: Repository) -> None:
    forge(clone, (PERFORMANCE,), lambda record: _date_log_back(clone, record))
    found = {claim.what: claim.proof for claim in list_contradicted(clone)}
    assert "performance: when it began" in found


def test_records_logs_and_commit_that_were_dated_before_the_parent_are_contradicted(clone: Repository) -> None:
    """All of them a month back: each fits the others, and only the history does not."""

    clone.git("reset", "--quiet", "--soft", "HEAD~1")  # no one has seen the honest ones
    for address in (DATASET, MODEL, ENGINE, PERFORMANCE, ACCURACY, SCORE):
        forged(clone, address, lambda record: _date_log_back(clone, date_back(record)))
    _commit_dated(clone, f"{datetime.now(UTC) - timedelta(days=29):%Y-%m-%dT%H:%M:%S}+00:00")
    found = [claim.what for claim in list_contradicted(clone)]
    assert [what for what in found if what.startswith("commit ") and what.endswith("when it was made")]
    assert any("commit " in text and "parent" in text for text in list_errors(clone))


@pytest.mark.parametrize(("hours", "proofs"), [(-12, {Proof.MISSING}), (-0.5, set()), (5, set())])
def test_a_commit_of_another_time_zone_is_a_question(clone: Repository, hours: float, proofs: set[Proof]) -> None:
    (path,) = clone.record_paths(ENGINE)
    record = decode(path.read_bytes(), str(path))
    write_record(clone.paths, replace(record, tool="another"))
    parent = subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=clone.root, text=True)
    _commit_dated(clone, f"@{int(parent) + int(hours * 3600)} +0000")
    found = audit(clone.root, read_snapshot(clone.root, git.resolve(clone.root, "HEAD")))
    assert {claim.proof for claim in found.claims if claim.what.startswith("commit ")} == proofs


def test_merged_labs_and_rebased_commits_are_accused_of_nothing(clone: Repository, tmp_path: Path) -> None:
    """A colleague's results, merged; and the own ones put onto what came in between."""
    other = Repository(tmp_path / "other")
    clone.git("clone", "--quiet", str(clone.root), str(other.root))
    other.write("notes.txt", "of another lab\n")
    other.commit()
    clone.reconcile(select=("scenario=MultiStream",))
    clone.commit()
    clone.git("fetch", "--quiet", str(other.root), "HEAD")
    clone.git("rebase", "--quiet", "FETCH_HEAD")
    other.reconcile(select=("scenario=MultiStream",))
    other.commit()
    clone.git("fetch", "--quiet", str(other.root), "HEAD")
    clone.git("merge", "--quiet", "--no-edit", "FETCH_HEAD")
    assert list_contradicted(clone) == []
    assert list_errors(clone) == []
    shutil.rmtree(other.root)
