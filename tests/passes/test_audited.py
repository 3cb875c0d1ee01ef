"""What an audit proves of a cell with compliance tests, in a clone that has nothing but the commit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.diff.claims import Proof
from reconciler.history.audit import audit
from reconciler.history.runs import ORIGINAL, REMOVED_RUN
from reconciler.history.snapshot import read_snapshot
from reconciler.loadgen.log_files import ACCURACY_LOG, RESULT_SUMMARY, SUMMARY, TRUNCATED, VERIFY_PERFORMANCE
from reconciler.record.codec import decode
from reconciler.record.store import keep, write_record
from reconciler.resource.records import Record
from reconciler.storage import git
from tests.passes.endpoints import with_endpoints
from tests.passes.repository import SPEC, Repository, make_whole
from tests.passes.test_compliance import CELL, VARYING, make
from tests.shared import make_once, need

need("mlperf_loadgen")

Claims = dict[tuple[str, str], tuple[Proof, str]]


def committed(repository: Repository) -> Repository:
    repository.write(".gitignore", ".reconcile/\nbenchmarks/__pycache__/\n")
    repository.commit()
    return repository


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return make_once(tmp_path_factory, "audited-history", _record)


def _record(folder: Path) -> Repository:
    return committed(make_whole(folder, partial(make, more=", compliance: {TEST04: {attempts: 3}}")))


@pytest.fixture
def clone(recorded: Repository, tmp_path: Path) -> Repository:
    """Nothing but what git has."""
    recorded.git("clone", "--quiet", str(recorded.root), str(tmp_path / "clone"))
    return Repository(tmp_path / "clone")


def claims(repository: Repository, *, history: bool = False) -> Claims:
    """``history``: with what only an earlier commit denies."""
    found = audit(repository.root, read_snapshot(repository.root, git.resolve(repository.root, "HEAD")))
    assert len(set(found.claims)) == len(found.claims), "a claim is said twice"
    said = [claim for claim in found.claims if history or not claim.what.endswith(ORIGINAL)]
    return {(claim.where, claim.what): (claim.proof, claim.detail) for claim in said}


def of(found: Claims, *proofs: Proof) -> set[str]:
    return {what for (_, what), (proof, _) in found.items() if proof in proofs}


def denied(found: Claims) -> set[str]:
    """Contradictions, less those of facts: a record that was made from an edited one still states the true digests."""
    return {what for what in of(found, Proof.CONTRADICTED) if ": facts." not in what}


def test_records_of_a_benchmark_that_has_another_name_since_are_proven(clone: Repository) -> None:
    """Its runs and tests are those that the spec asks for, by their keys: nothing was measured again."""
    text = (clone.root / SPEC).read_text(encoding="utf-8")
    clone.write(SPEC, text.replace("tiny:\n", "mine:\n"))
    clone.commit()
    found = claims(clone)
    assert {where for where, _ in found} == {"closed/box/mine/Offline", "submission"}
    assert of(found, Proof.MISSING, Proof.CONTRADICTED) == set()
    assert {"performance: metric", "performance: inputs", "TEST01: settings", "TEST01 verdict"} <= of(
        found, Proof.PROVEN
    )


def log_of(repository: Repository, address: str, name: str) -> Path:
    return repository.log_of(address, name)


def test_performance_verdicts_and_tree_are_proven_and_accuracy_is_attested(clone: Repository) -> None:
    found = claims(clone)
    assert of(found, Proof.ATTESTED) == {"accuracy"}
    assert of(found, Proof.MISSING, Proof.CONTRADICTED) == set()
    proven = {"performance: metric", "TEST01 verdict", "TEST04 verdict", "TEST01: settings", "rendered tree"}
    made = {
        *("performance", "accuracy", "score"),
        *(f"{test}{part}" for test in ("TEST01", "TEST04") for part in ("", " verdict")),
    }
    assert proven | {f"{name}: inputs" for name in made} <= of(found, Proof.PROVEN)
    assert found[CELL, "TEST01 verdict"] == (Proof.PROVEN, "TEST PASS, from its logs")


@pytest.mark.parametrize("kind", ["Dataset", "Model"])
def test_what_a_run_was_made_from_is_missing_where_its_record_was_deleted(clone: Repository, kind: str) -> None:
    records = [(path, decode(path.read_bytes(), str(path))) for path in clone.paths.records.glob("*/*.json")]
    deleted = [path for path, record in records if record.address.kind == kind]
    assert deleted
    for path in deleted:
        path.unlink()
    clone.commit()
    found = claims(clone)
    proof, detail = found[CELL, "performance: made from"]
    assert proof is Proof.MISSING
    assert detail.startswith("the record of its ")


def test_an_engine_whose_record_is_not_there_is_missing(clone: Repository) -> None:
    engine = "Engine/aaaaaaaaaaaa-bbbbbbbbbbbbbbbbbbbb"
    forged(clone, PERFORMANCE, lambda record: replace(record, upstream={**record.upstream, "engine": engine}))
    clone.commit()
    proof, detail = claims(clone)[CELL, "performance: made from"]
    assert (proof, engine in detail) == (Proof.MISSING, True)


def test_bars_that_the_score_does_not_meet_are_contradicted(clone: Repository) -> None:
    def other(record: Record) -> Record:
        return replace(record, values={**record.values, "accuracy_met": not record.values["accuracy_met"]})

    rewritten(clone, f"Score:{CELL}", other)
    clone.commit()
    proof, detail = claims(clone)[CELL, "accuracy"]
    assert proof is Proof.CONTRADICTED
    assert "says otherwise" in detail


LIES = {
    "another sample count": ('"effective_performance_issue_same", "value": false', "false", "true", "expected 0"),
    "ten times the rate": (r'"result_samples_per_second", "value": [\d.e+]+', r"[\d.e+]+$", "9999999", "samples in"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_log_that_was_forged_with_its_record_contradicts_itself(clone: Repository, lie: str) -> None:
    """The record is re-written with care, so that its digests and names fit; only LoadGen's own numbers do not."""
    line, old, new, why = LIES[lie]

    def forge(text: str) -> str:
        changed, count = re.subn(line, lambda found: re.sub(old, new, found[0]), text, count=1)
        assert count == 1
        return changed

    rewritten(clone, f"Run:{CELL}/performance", lambda record: edited(clone, record, "mlperf_log_detail.txt", forge))
    clone.commit()
    proof, detail = claims(clone)[CELL, "performance: settings"]
    assert proof is Proof.CONTRADICTED
    assert why in detail


def test_one_byte_of_one_log_contradicts_exactly_its_claim(clone: Repository) -> None:
    clone.flip(log_of(clone, f"ComplianceTest:{CELL}/TEST04", SUMMARY))
    clone.commit()
    found = claims(clone)
    assert denied(found) == {f"TEST04: {SUMMARY}"}
    proof, detail = found[CELL, "TEST04 verdict"]
    assert (proof, detail.endswith(f"the audit run's {SUMMARY}")) == (Proof.MISSING, True)


def test_one_byte_in_any_log_is_seen_also_of_superseded_runs(recorded: Repository, tmp_path: Path) -> None:
    repository = recorded.copy(tmp_path / "copy")
    old = {path.name for path in (repository.root / "state/logs").iterdir()}
    repository.edit(SPEC, "target_qps: 400, min_query_count: 320", "target_qps: 390, min_query_count: 320")
    repository.reconcile()
    repository.commit()
    assert of(claims(repository), Proof.CONTRADICTED) == set()
    logs = [path for path in (repository.root / "state/logs").iterdir() if not path.name.startswith(".")]
    named = {a.sha256 for record in repository.records().values() for a in record.artifacts if a.place == "logs"}
    assert old & named == {path.name for path in logs} & old, "superseded runs keep their logs"
    for path in logs:
        path.write_bytes(path.read_bytes() + b" ")
    repository.commit()
    details = " ".join(detail for proof, detail in claims(repository).values() if proof is Proof.CONTRADICTED)
    assert {path.name for path in logs if path.name[:12] not in details} == set()


def test_without_the_whole_answers_their_comparison_is_attested(clone: Repository) -> None:
    log_of(clone, f"ComplianceTest:{CELL}/TEST01", ACCURACY_LOG).unlink()
    clone.commit()
    proof, detail = claims(clone)[CELL, "TEST01 verdict"]
    assert proof is Proof.ATTESTED
    assert "audit run" in detail


def rewritten(repository: Repository, address: str, change: Callable[[Record], Record]) -> str:
    """Forge a record with care: its file has the name that its bytes ask for. Gives its id."""
    (path,) = repository.record_paths(address)
    record = change(decode(path.read_bytes(), str(path)))
    path.unlink()
    return write_record(repository.paths, record)


def edited(repository: Repository, record: Record, name: str, change: Callable[[str], str]) -> Record:
    """The record with another text under the name of one of its logs."""
    (old,) = [a for a in record.artifacts if a.name == name]
    text = change((repository.paths.logs / old.sha256).read_text())
    repository.write("edited", text)
    new = keep(repository.paths, repository.root / "edited", name, in_git=True)
    return replace(record, artifacts=tuple(new if a is old else a for a in record.artifacts))


def test_figures_that_the_logs_deny_are_contradicted(clone: Repository) -> None:
    def forged(record: Record) -> Record:
        return replace(record, values={**record.values, "figures": {"performance run": "1", "audit run": "1"}})

    rewritten(clone, f"Verdict:{CELL}/TEST04", forged)
    clone.commit()
    found = claims(clone)
    assert denied(found) == {"TEST04 verdict"}
    assert "recorded performance run: 1, the logs say" in found[CELL, "TEST04 verdict"][1]


def test_a_verdict_that_read_the_answers_in_the_scripts_own_way_is_proven_in_that_way(clone: Repository) -> None:
    def bytewise(record: Record) -> Record:
        figures = {**record.values["figures"], "accuracy.compared as": "byte, first element"}
        return replace(record, values={**record.values, "figures": figures})

    rewritten(clone, f"Verdict:{CELL}/TEST01", bytewise)
    clone.commit()
    assert claims(clone)[CELL, "TEST01 verdict"][0] is Proof.PROVEN


def test_a_pass_that_the_logs_deny_is_contradicted(clone: Repository) -> None:
    quicker = partial(re.sub, r"(?m)^Samples per second: .*$", "Samples per second: 4000000000000")
    test = rewritten(clone, f"ComplianceTest:{CELL}/TEST04", lambda record: edited(clone, record, SUMMARY, quicker))
    rewritten(
        clone, f"Verdict:{CELL}/TEST04", lambda record: replace(record, upstream={**record.upstream, "audit": test})
    )
    clone.commit()
    found = claims(clone)
    assert denied(found) == {
        "TEST04 verdict",
        "published files: compliance.passes",
        "published files: summary.contradicts",
    }


def test_a_verify_file_that_says_another_thing_is_contradicted(clone: Repository) -> None:
    def failing(text: str) -> str:
        return text.replace("TEST PASS", "TEST FAIL")

    rewritten(clone, f"Verdict:{CELL}/TEST04", lambda record: edited(clone, record, VERIFY_PERFORMANCE, failing))
    clone.commit()
    found = claims(clone)
    assert denied(found) == {"TEST04 verdict"}
    assert VERIFY_PERFORMANCE in found[CELL, "TEST04 verdict"][1]


def forged(repository: Repository, address: str, change: Callable[[Record], Record]) -> None:
    """Forge a record and all that names it, as somebody would who knows how records are named."""
    (path,) = repository.record_paths(address)
    old, new = f"{path.parent.name}/{path.stem}", rewritten(repository, address, change)

    def renamed(record: Record) -> Record:
        return replace(record, upstream={n: new if i == old else i for n, i in record.upstream.items()})

    for record in list(repository.records().values()):
        if old in record.upstream.values():
            forged(repository, str(record.address), renamed)


PERFORMANCE = f"Run:{CELL}/performance"


def test_facts_of_the_host_that_were_edited_are_contradicted_by_the_commit_that_brought_them(clone: Repository) -> None:
    """Nothing else has them: no log says on which machine it was made."""

    def elsewhere(record: Record) -> Record:
        facts = {n: replace(f, value="another") if n.startswith("machine.") else f for n, f in record.facts.items()}
        assert facts != record.facts
        return replace(record, facts=facts)

    forged(clone, PERFORMANCE, elsewhere)
    clone.commit()
    found = claims(clone, history=True)
    assert of(found, Proof.MISSING) == {REMOVED_RUN}
    assert of(found, Proof.CONTRADICTED) == {f"Run performance: {ORIGINAL}"}
    assert "facts.machine." in found[CELL, f"Run performance: {ORIGINAL}"][1]


@pytest.mark.parametrize(
    ("mode", "name", "change", "contradicted"),
    [
        ("performance", SUMMARY, (r"Mean latency \(ns\) *: \d+", r"\g<0>0"), {"summary.contradicts"}),
        ("performance", "user.conf", (r"target_qps = \d+", "target_qps = 9"), {"user-conf.contradicts"}),
        ("accuracy", TRUNCATED, ('"data" : "0', '"data" : "1'), {"accuracy.hash", "compliance.answers"}),
    ],
)
def test_a_file_that_the_logs_deny_is_contradicted(
    clone: Repository, mode: str, name: str, change: tuple[str, str], contradicted: set[str]
) -> None:
    forged(clone, f"Run:{CELL}/{mode}", lambda r: edited(clone, r, name, lambda text: re.sub(*change, text)))
    clone.commit()
    found = claims(clone)
    assert denied(found) == {f"published files: {rule}" for rule in contradicted}
    if name == SUMMARY:
        assert "Mean latency" in found[CELL, "published files: summary.contradicts"][1]


def test_a_verify_file_with_other_figures_is_contradicted(clone: Repository) -> None:
    def better(record: Record) -> Record:
        return edited(clone, record, VERIFY_PERFORMANCE, lambda text: re.sub(r"\d+\.\d+", "1.5", text))

    rewritten(clone, f"Verdict:{CELL}/TEST04", better)
    clone.commit()
    found = claims(clone)
    assert denied(found) == {"TEST04 verdict"}
    said = rf"{VERIFY_PERFORMANCE} says (1\.5, )+the logs say"  # figures without a point are left as they were
    assert re.search(said, found[CELL, "TEST04 verdict"][1])


def test_a_rehearsal_whose_record_no_longer_says_so_is_contradicted(clone: Repository) -> None:
    forged(clone, PERFORMANCE, lambda record: replace(record, marks=("synthetic",)))
    clone.commit()
    found = claims(clone)
    assert denied(found) == {"performance: marks", "Run performance: marks"}
    assert "rehearsal" in found[CELL, "performance: marks"][1]


def test_a_later_run_that_is_called_invalid_in_its_record_alone_is_contradicted(clone: Repository) -> None:
    """By the policy the latest valid run is published, so that a worse one would have to be."""
    (path,) = clone.record_paths(PERFORMANCE)
    record = decode(path.read_bytes(), str(path))
    later = "2100-01-01T00:00:00+00:00"
    write_record(clone.paths, replace(record, started=later, values={**record.values, "validity": "INVALID"}))
    clone.commit()
    found = claims(clone)
    name = f"unpublished performance of {later}: validity"
    assert denied(found) == {name}
    assert found[CELL, name][1] == "recorded INVALID, mlperf_log_detail.txt says VALID"
    passed_over = {what.partition(": ")[0] for _, what in found if what.startswith("unpublished ")}
    assert passed_over == {f"unpublished performance of {later}"}, "the published run is judged as such, and once"


def test_a_valid_run_that_was_removed_from_the_history_is_missed(clone: Repository) -> None:
    (path,) = clone.record_paths(PERFORMANCE)
    record = decode(path.read_bytes(), str(path))
    worse = write_record(clone.paths, replace(record, started="2100-01-01T00:00:00.000000Z"))
    clone.commit()
    (clone.paths.records / f"{worse}.json").unlink()
    clone.commit()
    found = claims(clone)
    assert of(found, Proof.MISSING, Proof.CONTRADICTED) == {REMOVED_RUN}
    assert worse in found[CELL, REMOVED_RUN][1]


def test_a_fallback_rests_on_what_the_scorer_wrote(tmp_path: Path) -> None:
    repository = make(tmp_path / "repository", VARYING, ", compliance: {TEST04: {attempts: 3}}")
    repository.reconcile()
    committed(repository)
    proof, detail = claims(repository)[CELL, "TEST01 verdict"]
    assert (proof, detail.startswith("TEST PASS, from its logs; ")) == (Proof.ATTESTED, True)


def test_a_tree_in_the_commit_is_compared_file_by_file(recorded: Repository, tmp_path: Path) -> None:
    repository = recorded.copy(tmp_path / "copy")
    repository.edit("specs/spec.yaml", "  rehearsal: true\n", "  rehearsal: true\n  tree: submission\n")
    repository.reconcile()
    repository.commit()
    found = claims(repository)
    assert of(found, Proof.CONTRADICTED, Proof.MISSING) == set()
    assert "in this commit byte for byte" in found["submission", "rendered tree"][1]
    folder = repository.root / "submission/closed/ACME/results/box/resnet/Offline"
    fields = json.loads((folder / "measurements.json").read_text())
    (folder / "measurements.json").write_text(json.dumps({**fields, "retraining": "Yes"}))
    (folder / "user.conf").unlink()
    (folder / "more.txt").write_text("more\n")
    repository.commit()
    found = claims(repository)
    name = "rendered tree: closed/ACME/results/box/resnet/Offline"
    assert denied(found) == {f"{name}/measurements.json", f"{name}/more.txt"}
    assert of(found, Proof.MISSING) == {f"{name}/user.conf"}


def test_results_of_the_endpoints_harness_are_judged_again(tmp_path: Path) -> None:
    repository = with_endpoints(tmp_path / "repository")
    repository.reconcile()
    committed(repository)
    found = claims(repository)
    assert of(found, Proof.CONTRADICTED, Proof.MISSING) == set()
    assert of(found, Proof.ATTESTED) == {"accuracy"}
    assert {"performance: metric", "performance: validity", "accuracy: settings"} <= of(found, Proof.PROVEN)
    cell = "open/box/llama3.1-8b/Offline"

    def faster(record: Record) -> Record:
        return edited(repository, record, RESULT_SUMMARY, partial(re.sub, r'"tps": ', '"tps": 9'))

    rewritten(repository, f"Run:{cell}/performance", faster)
    repository.commit()
    assert "performance: metric" in of(claims(repository), Proof.CONTRADICTED)
