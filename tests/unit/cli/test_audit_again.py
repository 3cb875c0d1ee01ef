"""`reconcile audit --rescore` and `--rerun`: accuracy and performance proven by doing it again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from harness.benchmark_catalog import BENCHMARKS
from reconciler.desired.detail import Detail
from reconciler.diff.change import Action, Change, InputChange, Reason, Work
from reconciler.diff.claims import AuditReport, Claim, Proof
from reconciler.execute.outcome import Outcome, Status
from reconciler.history import rerun
from reconciler.history.rerun import rescore_runs
from reconciler.history.runs import ORIGINAL
from reconciler.history.snapshot import read_snapshot
from reconciler.observed.state import Obstacle
from reconciler.plan.plan import Plan, Step
from reconciler.reconcile.planning import PlanResult
from reconciler.reconcile.run import PassReport
from reconciler.record.codec import decode
from reconciler.record.store import find_object, keep, write_record
from reconciler.resource.inputs import Origin, Role
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.queues import QUEUES
from reconciler.resource.records import Record, RecordedFact
from reconciler.resource.settings import SCORE_COMMAND, CellSettings
from reconciler.rules.compliance.scores import Slack
from reconciler.storage.files import Lock, RepositoryPaths
from tests.shared import copy_folder

from .conftest import CELL, Reconcile, commit, edit, enter_copy, find_record, git, measure

Claims = dict[tuple[str, str], tuple[str, str]]
SCORE = f"Score:{CELL}"
NOT_AGAIN, HERE = "cannot be scored again:", ", here it is"


def claims(reconcile: Reconcile, *arguments: str) -> tuple[int, Claims]:
    code, out, error = reconcile("audit", "--json", *arguments)
    assert out, error
    return code, {(c["where"], c["what"]): (c["proof"], c["detail"]) for c in json.loads(out)["claims"]}


def test_rescore_proves_the_accuracy_that_an_audit_only_attests(recorded: Path, reconcile: Reconcile) -> None:
    _, before = claims(reconcile)
    code, after = claims(reconcile, "--rescore")
    assert code == 0
    assert before.pop((CELL, "accuracy"))[0] == "attested"
    proof, detail = after.pop((CELL, "accuracy"))
    assert (proof, "byte for byte" in detail) == ("proven", True)
    assert after == before
    assert {p.name for p in (recorded / ".reconcile").iterdir()} <= {
        *(".gitignore", "attempts", "index", "locks", "log", "objects", "tree", "caches")
    }


def forged(root: Path, tmp_path: Path) -> None:
    """A score that was raised everywhere that git shows: record, accuracy.txt and digests agree."""
    path, record = find_record(root, SCORE)
    old = next(a for a in record.artifacts if a.name == "accuracy.txt")
    text = (root / "state/logs" / old.sha256).read_text()
    measured = record.values["bars"][0]["measured"]
    good, total = (int(found) for found in re.findall(r"(?:good|total)=(\d+)", text))
    raised = f"{100 * (good + 5) / total:.3f}"
    assert measured in text
    better = tmp_path / "accuracy.txt"
    better.write_text(text.replace(measured, raised).replace(f"good={good}", f"good={good + 5}"))
    artifact = keep(RepositoryPaths(root), better, "accuracy.txt", in_git=True)
    values = json.loads(json.dumps(dict(record.values)).replace(measured, raised))
    artifacts = tuple(artifact if a.name == "accuracy.txt" else a for a in record.artifacts)
    path.unlink()
    write_record(RepositoryPaths(root), replace(record, values=values, artifacts=artifacts))
    commit(root, "Improve the score")


def test_rescore_proves_a_score_in_other_words(recorded: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    path, record = find_record(recorded, SCORE)
    old = next(a for a in record.artifacts if a.name == "accuracy.txt")
    other = tmp_path / "accuracy.txt"
    other.write_text((recorded / "state/logs" / old.sha256).read_text() + "\n")
    artifact = keep(RepositoryPaths(recorded), other, "accuracy.txt", in_git=True)
    path.unlink()
    artifacts = tuple(artifact if a is old else a for a in record.artifacts)
    write_record(RepositoryPaths(recorded), replace(record, artifacts=artifacts))
    commit(recorded, "End the file with an empty line")
    proof, detail = claims(reconcile, "--rescore")[1][CELL, "accuracy"]
    assert (proof, detail.endswith(": the same score, in other words")) == ("proven", True)


def test_rescore_names_a_score_that_was_made_up(recorded: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    honest = find_record(recorded, SCORE)[1].values["metric"]["value"]
    forged(recorded, tmp_path)
    code, found = claims(reconcile)
    assert (code, found[CELL, "accuracy"][0]) == (2, "attested")
    assert found[CELL, f"Score: {ORIGINAL}"][0] == "contradicted"  # by the commit before
    code, found = claims(reconcile, "--rescore")
    proof, detail = found[CELL, "accuracy"]
    assert (code, proof) == (2, "contradicted")
    assert f"scored again it is {honest} acc" in detail
    assert "scorer here is not the one" not in detail


def test_rescore_takes_the_place_of_what_is_said_of_accuracy_alone(recorded: Path) -> None:
    """What else is attested of a cell stays as it is, and so does what is said of others."""
    reported = (
        Claim(CELL, "accuracy", Proof.ATTESTED, "as the scorer wrote it"),
        Claim("open/box/other/Offline", "accuracy", Proof.ATTESTED, "as the scorer wrote it"),
        Claim(CELL, "accuracy", Proof.MISSING, "no log"),
        Claim(CELL, "model: made from", Proof.ATTESTED, "as declared by a person"),
    )
    at = read_snapshot(recorded, git(recorded, "rev-parse", "HEAD"))
    found = rescore_runs(RepositoryPaths(recorded), at, AuditReport(at.commit, reported)).claims
    assert found[:2] == (reported[2], reported[3])
    assert found[3:] == (reported[1],)
    assert (found[2].where, found[2].what, found[2].proof) == (CELL, "accuracy", Proof.PROVEN)


def test_a_repeated_score_is_compared_by_its_figures(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which scorer it was only explains a difference."""
    record = find_record(recorded, SCORE)[1]
    (bar,) = record.values["bars"]
    measured, code = bar["measured"], RecordedFact("0" * 64, Role.EVIDENCE)
    lower = with_values(record, bars=[{**bar, "measured": "1"}])
    elsewhere = {"harness.code": code}
    reported = f"recorded {measured} acc, scored again it is"
    cases = [
        (record, "proven", f"{measured} acc, scored again from mlperf_log_accuracy.json: accuracy.txt byte for byte"),
        (replace(record, facts={**record.facts, **elsewhere}), "proven", None),
        (lower, "contradicted", f"{reported} 1 acc"),
        (
            replace(lower, facts={**record.facts, **elsewhere}),
            "contradicted",
            f"{reported} 1 acc; the installed scorer differs from the recorded one",
        ),
        (with_values(record, metric={"value": "1", "unit": "%"}), "contradicted", f"{reported} {measured} acc"),
        (replace(record, problem="no memory"), "missing", f"{NOT_AGAIN} no memory"),
        (replace(record, problem="no memory", fix="buy"), "missing", f"{NOT_AGAIN} no memory (buy)"),
    ]
    at = read_snapshot(recorded, git(recorded, "rev-parse", "HEAD"))
    monkeypatch.setattr(rerun, "run_child", lambda *_: None)
    for again, proof, detail in cases:
        monkeypatch.setattr(rerun, "build_record", lambda _, again=again: (again, None))
        (claim,) = rescore_runs(RepositoryPaths(recorded), at, AuditReport(at.commit, ())).claims
        assert (claim.proof.value, claim.detail) == (proof, detail or claim.detail)


@pytest.mark.parametrize("scored", [False, True], ids=["no scorer", "scorer of the user's own"])
def test_a_benchmark_that_is_elsewhere_is_scored_again_where_the_spec_has_a_scorer(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, scored: bool
) -> None:
    record = find_record(recorded, SCORE)[1]
    at = read_snapshot(recorded, git(recorded, "rev-parse", "HEAD"))
    monkeypatch.setattr(rerun, "BENCHMARKS", {"digits": BENCHMARKS["digits"]._replace(elsewhere=True)})
    monkeypatch.setattr(rerun, "run_child", lambda *_: None)
    monkeypatch.setattr(rerun, "build_record", lambda _: (record, None))

    def detail(address: Address) -> Detail:
        found = at.desired.detail(address)
        values = {**found.settings.values, **({SCORE_COMMAND: ("score",)} if scored else {})}
        return replace(found, settings=CellSettings(values))

    reported = (Claim(CELL, "accuracy", Proof.ATTESTED, "as the scorer wrote it"),)
    elsewhere = replace(at, desired=replace(at.desired, detail=detail))
    (claim,) = rescore_runs(RepositoryPaths(recorded), elsewhere, AuditReport(at.commit, reported)).claims
    assert claim.proof is (Proof.PROVEN if scored else Proof.ATTESTED)


def test_a_score_of_a_run_that_names_no_log_or_is_gone_cannot_be_made_again(recorded: Path) -> None:
    identity = find_record(recorded, SCORE)[1].upstream["run"]
    at = read_snapshot(recorded, git(recorded, "rev-parse", "HEAD"))
    run = at.records[identity]
    kept = tuple(a for a in run.artifacts if a.name != "mlperf_log_accuracy.json")
    whole = dict(at.records)
    gone = {name: record for name, record in whole.items() if name != identity}
    for records in ({**whole, identity: replace(run, artifacts=kept)}, gone):
        without = replace(at, committed=replace(at.committed, records=cast(Any, records)))
        (claim,) = rescore_runs(RepositoryPaths(recorded), without, AuditReport(at.commit, ())).claims
        why = "its record has no mlperf_log_accuracy.json"
        assert (claim.proof, claim.detail) == (Proof.MISSING, f"{NOT_AGAIN} {why}")


@pytest.mark.parametrize("damage", ["missing", "flipped"])
def test_rescore_without_the_very_log_says_what_to_pull(recorded: Path, reconcile: Reconcile, damage: str) -> None:
    runs = [decode(p.read_bytes(), p.name) for p in (recorded / "state/records/Run").glob("*.json")]
    log = next(a for r in runs for a in r.artifacts if a.name == "mlperf_log_accuracy.json")
    path = find_object(RepositoryPaths(recorded), log.sha256)
    data = bytearray(path.read_bytes())
    path.unlink()
    if damage == "flipped":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    code, found = claims(reconcile, "--rescore")
    proof, detail = found[CELL, "accuracy"]
    assert (code, proof) == (2, "missing")
    assert "run mlperf_log_accuracy.json" in detail
    assert "reconcile pull" in detail


def test_rescore_in_a_clone_that_pulled(
    recorded: Path, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reconcile("push", "--to", f"file://{tmp_path}/store")[0] == 0
    git(tmp_path, "clone", "--quiet", str(recorded), "clone")
    monkeypatch.chdir(tmp_path / "clone")
    assert claims(reconcile, "--rescore")[1][CELL, "accuracy"][0] == "missing"
    assert reconcile("pull", "--from", f"file://{tmp_path}/store")[0] == 0
    assert claims(reconcile, "--rescore")[1][CELL, "accuracy"][0] == "proven"


SCORER = """

def score(log, dataset, output):
    from pathlib import Path
    from harness.benchmarks.accuracy import write_top1

    exec(Path("MISHAP").read_text())
    return write_top1(log, np.dtype("int32"), np.load(dataset / "labels.npy"), output)
"""


def test_rescore_of_an_older_commit_uses_its_own_spec(recorded: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    """A benchmark of the user's own, whose scorer was changed since, or fails here for another reason."""
    mishap = tmp_path / "mishap.py"
    mishap.write_text("")
    source = Path(__file__).parents[2] / "passes/benchmarks"
    code = recorded / "benchmarks/tiny.py"
    code.parent.mkdir()
    code.write_text((source / "tiny.py").read_text() + SCORER.replace("MISHAP", str(mishap)))
    edit(recorded, "code: digits", "code: benchmarks/tiny.py\n      performance_sample_count: 16")
    assert reconcile()[0] == 0
    commit(recorded, "Use our own benchmark")
    with code.open("a") as stream:
        stream.write("\n\ndef score(log, dataset, output):\n    raise OSError('broken since')\n")
    edit(recorded, "target_qps: 1000", "target_qps: 1100", "Break the scorer")
    status, found = claims(reconcile, "--rescore", "--at", "HEAD~1")
    assert (status, found[CELL, "accuracy"][0]) == (0, "proven")
    assert claims(reconcile, "--rescore", "--at", "HEAD")[0] == 2
    lost = "judge_of_texts"
    for text, why in (
        ("from harness.errors import HarnessError\nraise HarnessError('no labels', 'input')", "no labels"),
        ("import judge_of_texts", f"cannot import {lost}: No module named '{lost}' (install {lost})"),
    ):
        mishap.write_text(text)  # what fails has a fix, or none
        found = claims(reconcile, "--rescore", "--at", "HEAD~1")[1]
        assert found[CELL, "accuracy"] == ("missing", f"{NOT_AGAIN} {why}")


# -- measured again -------------------------------------------------------------------------------------------------

SERVER = "Server: {target_qps: 1000, target_latency: 5 s, min_duration: 0, min_query_count: 700}"
SERVED = "open/box/digits/Server"
REPEATED = (SERVED, "performance: repeated")


@pytest.fixture(scope="module")
def served_once(recorded_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    root = copy_folder(recorded_once, tmp_path_factory.mktemp("served") / "repository")
    edit(root, "category: edge", "category: datacenter")
    edit(root, "Offline: {target_qps: 1000, min_duration: 0, min_query_count: 512}", SERVER, "Serve")
    return measure(root)


@pytest.fixture
def served(served_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of it may differ by 90 %: how busy the machine of the tests is must decide nothing."""
    monkeypatch.setattr(rerun, "find_slack", lambda *_: Slack(usual=90))
    return enter_copy(served_once, tmp_path, monkeypatch)


def reports(root: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted((root / "state/audits").glob("*.json"))]


def tracked(root: Path) -> str:
    return git(root, "status", "--porcelain", "--untracked-files=all")


def test_rerun_bears_out_a_result_and_leaves_it_as_it_is(served: Path, reconcile: Reconcile) -> None:
    before = sorted(p.name for p in (served / "state/records").rglob("*"))
    status = reconcile("status")[1]
    code, found = claims(reconcile, "--rerun", "scenario=Server")
    proof, detail = found[REPEATED]
    assert (code, proof) == (0, "proven"), detail
    assert sorted(p.name for p in (served / "state/records").rglob("*")) == before
    assert reconcile("status")[1] == status
    assert reconcile("plan")[0] == 0
    (report,) = reports(served)
    assert report["proof"] == "proven"
    assert tracked(served).startswith("?? state/audits/")
    assert len(tracked(served).splitlines()) == 1
    record = report["record"]
    assert isinstance(record, dict)
    assert record["address"] == f"Run:{SERVED}/performance"
    assert "Nothing to remove" in reconcile("gc")[1]
    for _, sha256, _, _ in record["artifacts"]:
        assert find_object(RepositoryPaths(served), sha256).is_file()
    assert not list((served / ".reconcile").glob("re[rs]*"))
    (served / "state/audits" / next(iter((served / "state/audits").iterdir())).name).unlink()
    assert "Removed" in reconcile("gc")[1]


def served_record(root: Path) -> Record:
    return find_record(root, f"Run:{SERVED}/performance")[1]


def repeat(root: Path, monkeypatch: pytest.MonkeyPatch, *outcomes: Any) -> tuple[Claim, list[dict[str, object]]]:
    """What is said of the published result, and kept, where the pass that repeats it ends so."""
    monkeypatch.setattr(rerun, "run_pass", lambda *_, **__: SimpleNamespace(outcomes=outcomes))
    at = read_snapshot(root, git(root, "rev-parse", "HEAD"))
    found = rerun.repeat_runs(
        RepositoryPaths(root), at, AuditReport(at.commit, ()), ("digits",), lambda _: None, busy=True
    )
    (claim,) = found.audit.claims
    assert (claim.where, claim.what) == REPEATED
    return claim, reports(root)


def ended(record: Record, status: Status = Status.DONE, message: str = "", fix: str = "") -> Outcome:
    step = cast(Step, SimpleNamespace(change=SimpleNamespace(address=record.address)))
    return Outcome(step, status, message, fix, record)


def with_values(record: Record, **values: object) -> Record:
    return replace(record, values={**record.values, **values})


def with_evidence(record: Record, *names: str) -> Record:
    more = {name: RecordedFact("another", Role.EVIDENCE) for name in names}
    return replace(record, facts={**record.facts, **more})


@pytest.mark.parametrize(
    ("change", "proof", "bounded"),
    [
        pytest.param(lambda r: r, "proven", True, id="same"),
        pytest.param(lambda r: with_evidence(r, "loadgen.version"), "proven", True, id="another LoadGen"),
        pytest.param(lambda r: with_evidence(r, "engine.digest"), "proven", True, id="another engine"),
        pytest.param(
            lambda r: with_values(r, metric={**r.values["metric"], "value": "1"}), "contradicted", True, id="slower"
        ),
        pytest.param(lambda r: with_values(r, validity="INVALID"), "contradicted", False, id="INVALID"),
        pytest.param(lambda r: with_values(r, metric=None), "contradicted", False, id="no metric"),
        pytest.param(lambda r: with_evidence(r, "model.digest", "engine.digest"), "missing", False, id="another model"),
    ],
)
def test_a_repeat_is_judged_by_its_own_record(
    served: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Record], Record], proof: str, bounded: bool
) -> None:
    again = change(served_record(served))
    claim, (kept,) = repeat(served, monkeypatch, ended(again))
    assert claim.proof.value == proof
    assert (kept["proof"], kept["detail"], "bound" in kept) == (proof, claim.detail, bounded)


@pytest.mark.parametrize(
    ("status", "message", "fix", "said"),
    [
        (Status.FAILED, "no memory", "free some", "no memory; free some"),
        (Status.FAILED, "no memory", "", "no memory"),
        (None, "", "", "the pass did not run it"),
    ],
    ids=["failed", "failed without a fix", "nothing"],
)
def test_a_repeat_that_was_not_made_says_why_and_leaves_no_report(
    served: Path, monkeypatch: pytest.MonkeyPatch, status: Status | None, message: str, fix: str, said: str
) -> None:
    other = replace(served_record(served), address=Address(Kind.MODEL, "digits"))
    outcomes = [ended(other)] if status is None else [ended(served_record(served), status, message, fix)]
    claim, kept = repeat(served, monkeypatch, *outcomes)
    assert (claim.proof, claim.detail, kept) == (Proof.MISSING, f"not repeated: {said}", [])


def test_what_cannot_be_repeated_here_says_why_and_runs_nothing(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = read_snapshot(served, git(served, "rev-parse", "HEAD"))
    (cell,) = [c for c, chosen in at.difference.chosen.items() if chosen.performance]

    def see(obstacle: Obstacle | None, *steps: Step) -> PlanResult:
        systems = {cell.system: obstacle}
        return cast(
            PlanResult, SimpleNamespace(observed=SimpleNamespace(systems=systems), plan=Plan("", "", "", steps))
        )

    run = Change(Address(Kind.RUN, f"{cell}/performance"), "", Action.REPLACE, Reason.EVIDENCE_DIFFERS)
    inputs = (InputChange("a", 1, 2, Origin("x")), InputChange("b", None, "c", Origin("x")))
    cases: list[tuple[PlanResult, str]] = [
        (see(Obstacle("another machine is declared", "go there")), "another machine is declared"),
        (see(None, Step(run, explained=inputs)), "Run performance would be another: a 1 → 2 and b None → c"),
        (see(None, Step(run)), "Run performance would be another: EvidenceDiffers"),
        (see(None, Step(replace(run, how=Work.RENDER), blocked="no room", fix="make some")), "no room; make some"),
        (see(None, Step(replace(run, how=Work.RENDER), blocked="no room")), "no room"),
    ]
    left = served / ".reconcile/mlperf-reconciler.rerun-left"
    (left / "checkout").mkdir(parents=True)
    for seen, why in cases:
        monkeypatch.setattr(rerun, "compute_plan", lambda *_, seen=seen: seen)
        claim, kept = repeat(served, monkeypatch)
        assert (claim.proof, claim.detail, kept) == (Proof.MISSING, f"not repeated: {why}", [])
    assert not left.exists()
    system = at.desired.submission.systems[cell.system]
    queued = replace(system, values={**system.values, f"executor.{next(iter(QUEUES))}": True})
    submission = replace(at.desired.submission, systems={cell.system: queued})
    monkeypatch.setattr(rerun, "compute_plan", None)
    why = "its run is a job of a queue: repeat it there with `reconcile --rerun`"
    other = replace(at, desired=replace(at.desired, submission=submission))
    audited = AuditReport(at.commit, ())
    found = rerun.repeat_runs(RepositoryPaths(served), other, audited, ("digits",), lambda _: None, busy=True)
    assert [(claim.proof, claim.detail) for claim in found.audit.claims] == [(Proof.MISSING, f"not repeated: {why}")]
    assert found.kept == ()


def test_a_repeat_needs_the_published_log_in_the_commit(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = served_record(served)
    (log,) = [a for a in record.artifacts if a.name == "mlperf_log_detail.txt"]
    (served / "state/logs" / log.sha256).unlink()
    commit(served, "Lose a log")
    claim, _ = repeat(served, monkeypatch, ended(record))
    why = "mlperf_log_detail.txt of the published run is not in this commit"
    assert (claim.proof, claim.detail) == (Proof.MISSING, f"repeated, but not comparable: {why}")


NAMES = [f"GPU {letter}" for letter in "ABCDEFGH"]


@pytest.mark.parametrize(
    ("names", "driver", "unlike"),
    [
        (NAMES[::-1], "1", ""),
        ([*NAMES, *NAMES], "1", ""),
        (NAMES, "2", f"gpu.driver was 1{HERE} 2"),
        (NAMES[:2], "1", f"gpu.name was {', '.join(NAMES)}{HERE} GPU A, GPU B"),
        ([], "", f"gpu.name was {', '.join(NAMES)}{HERE} none; gpu.driver was 1{HERE} none"),
    ],
    ids=["other order", "more of each", "other driver", "fewer", "none"],
)
def test_a_repeat_needs_the_gpus_of_the_record_in_any_order(
    served: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], driver: str, unlike: str
) -> None:
    path, record = find_record(served, f"Run:{SERVED}/performance")
    gpus = {"gpu.name": RecordedFact(NAMES, Role.NOTE), "gpu.driver": RecordedFact("1", Role.NOTE)}
    path.unlink()
    write_record(RepositoryPaths(served), replace(record, facts={**record.facts, **gpus}))
    commit(served, "Measure with GPUs")
    probed = rerun.probe_nodes
    found = [{"name": name, "driver": driver} for name in names]
    monkeypatch.setattr(rerun, "probe_nodes", lambda *a: [{**node, "accelerators": found} for node in probed(*a)])
    claim, _ = repeat(served, monkeypatch, ended(record, Status.FAILED, "not made"))
    said = f"this machine differs from the record's: {unlike}" if unlike else "not made"
    assert claim.detail == f"not repeated: {said}"


def changed(root: Path, before: str, after: str) -> None:
    """The published record with other text, under the name that fits it."""
    path, _ = find_record(root, f"Run:{SERVED}/performance")
    text = path.read_text()
    assert before in text
    path.unlink()
    write_record(RepositoryPaths(root), decode(text.replace(before, after).encode(), path.name))
    commit(root, "Change a record")


def test_rerun_contradicts_a_result_that_the_system_does_not_reach(served: Path, reconcile: Reconcile) -> None:
    metric = served_record(served).values["metric"]
    changed(served, f'"value": "{metric["value"]}"', f'"value": "{float(metric["value"]) * 100:.3f}"')
    code, found = claims(reconcile, "--rerun", "digits")
    proof, detail = found[REPEATED]
    assert (code, proof) == (2, "contradicted"), detail
    assert "at least" in detail
    assert reports(served)[0]["proof"] == "contradicted"


def test_rerun_on_another_machine_is_refused_with_what_differs(served: Path, reconcile: Reconcile) -> None:
    others = {"machine.cpu": "Abacus 9000", "machine.architecture": "abacus"}
    here = {name: served_record(served).facts[name].value for name in others}
    for name, other in others.items():
        changed(served, f'"value": "{here[name]}"', f'"value": "{other}"')
    code, found = claims(reconcile, "--rerun", "digits")
    proof, detail = found[REPEATED]
    assert (code, proof) == (2, "missing")
    for name, other in others.items():
        assert f"{name} was {other}{HERE} {here[name]}" in detail
    assert not (served / "state/audits").exists()


def test_rerun_of_an_older_commit_measures_what_it_asked(served: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    """And renders nothing, not even where the spec names a folder for the tree."""
    edit(served, "  rehearsal: true\n", f"  rehearsal: true\n  tree: {tmp_path}/tree\n")
    edit(served, "target_qps: 1000", "target_qps: 500")
    assert reconcile()[0] == 0
    commit(served, "Ask for less")
    before = {p: p.read_bytes() for p in (tmp_path / "tree").rglob("*") if p.is_file()}
    assert before
    code, found = claims(reconcile, "--rerun", "digits", "--at", "HEAD~1")
    assert (code, found[REPEATED][0]) == (0, "proven")
    record = reports(served)[0]["record"]
    assert isinstance(record, dict)
    assert record["inputs"]["target_qps"]["value"] == "1000"
    assert {p: p.read_bytes() for p in (tmp_path / "tree").rglob("*") if p.is_file()} == before
    assert reconcile("plan")[0] == 0


def test_rerun_of_nothing_published_names_what_there_is(served: Path, reconcile: Reconcile) -> None:
    assert f"published at this commit: {SERVED}" in reconcile.refuse("audit", "--rerun", "scenario=Offline")


def test_rerun_waits_for_no_other_pass(served: Path, reconcile: Reconcile) -> None:
    with Lock(RepositoryPaths(served).pass_lock, purpose="pass over this repository").acquire():
        code, _, error = reconcile("audit", "--rerun", "digits")
    assert (code, "cannot start: a pass over this repository is running" in error) == (1, True)


def test_rerun_with_other_code_names_the_program_that_made_the_record(
    served: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine with another version of the harness."""
    record = served_record(served)
    probed = rerun.probe_nodes

    def other_code(*arguments: Any) -> tuple[Any, ...]:
        return tuple({**node, "harness.code": "0" * 64} for node in probed(*arguments))

    monkeypatch.setattr(rerun, "probe_nodes", other_code)
    status, found = claims(reconcile, "--rerun", "digits")
    proof, detail = found[REPEATED]
    assert (status, proof) == (2, "missing")
    code = str(record.facts["harness.code"].value)
    assert f"harness.code was {code[:12]}{HERE} {'0' * 12}; the record was made by {record.tool}" in detail


def test_rerun_with_an_engine_that_was_built_again_says_so(
    served: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the objects of the commit are not, and no build gives the same bytes. It is the same measurement."""
    measured = rerun.run_pass

    def built_again(*arguments: Any, **options: Any) -> PassReport:
        report = measured(*arguments, **options)
        return replace(report, outcomes=tuple(map(with_other_engine, report.outcomes)))

    def with_other_engine(outcome: Outcome) -> Outcome:
        if outcome.record is None:
            return outcome
        other = replace(outcome.record.facts["engine.digest"], value="0" * 64)
        return replace(outcome, record=replace(outcome.record, facts={**outcome.record.facts, "engine.digest": other}))

    monkeypatch.setattr(rerun, "run_pass", built_again)
    status, found = claims(reconcile, "--rerun", "digits")
    proof, detail = found[REPEATED]
    assert (status, proof) == (0, "proven"), detail
    assert detail.endswith("; the engine was built again; `reconcile pull` first to repeat with the same one")
