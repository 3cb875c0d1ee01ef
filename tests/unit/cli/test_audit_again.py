"""`reconcile audit --rescore` and `--rerun`: accuracy and performance proven by doing it again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.execute.outcome import Outcome
from reconciler.files import Lock, RepositoryPaths
from reconciler.history import rerun
from reconciler.reconcile import PassReport
from reconciler.record.codec import decode
from reconciler.record.store import find_object, keep, write_record
from reconciler.resource.records import Record
from tests.acceptance.conftest import console

from .conftest import CELL, Reconcile, edit, git
from .held import hold_outputs

Claims = dict[tuple[str, str], tuple[str, str]]

SAID = Path(__file__).with_name("said_in_audit_again.txt")


@pytest.fixture
def reconcile(reconcile: Reconcile, request: pytest.FixtureRequest) -> Iterator[Reconcile]:
    yield from hold_outputs(reconcile, request, SAID)


def claims(reconcile: Reconcile, *arguments: str) -> tuple[int, Claims]:
    code, out, error = reconcile("audit", "--json", *arguments)
    assert out, error
    return code, {(c["where"], c["what"]): (c["proof"], c["detail"]) for c in json.loads(out)["claims"]}


def commit(root: Path, message: str) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)


def record_of(root: Path, kind: str) -> tuple[Path, Record]:
    (path,) = (root / "state/records" / kind).glob("*.json")
    return path, decode(path.read_bytes(), path.name)


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
    path, record = record_of(root, "Score")
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


def test_rescore_proves_a_score_that_was_written_in_other_words(
    recorded: Path, tmp_path: Path, reconcile: Reconcile
) -> None:
    path, record = record_of(recorded, "Score")
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
    honest = record_of(recorded, "Score")[1].values["metric"]["value"]
    forged(recorded, tmp_path)
    code, found = claims(reconcile)
    assert (code, found[CELL, "accuracy"][0]) == (0, "attested")
    code, found = claims(reconcile, "--rescore")
    proof, detail = found[CELL, "accuracy"]
    assert (code, proof) == (2, "contradicted")
    assert f"scored again it is {honest} acc" in detail
    assert "scorer here is not the one" not in detail


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


def test_rescore_of_an_older_commit_uses_its_own_benchmark_and_spec(
    recorded: Path, tmp_path: Path, reconcile: Reconcile
) -> None:
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
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    commit(recorded, "Break the scorer")
    status, found = claims(reconcile, "--rescore", "--at", "HEAD~1")
    assert (status, found[CELL, "accuracy"][0]) == (0, "proven")
    assert claims(reconcile, "--rescore", "--at", "HEAD")[0] == 2
    for text, why in (
        ("from harness.errors import HarnessError\nraise HarnessError('no labels', 'input')", "no labels"),
        (
            "import judge_of_texts",
            "cannot import judge_of_texts: No module named 'judge_of_texts' (install judge_of_texts)",
        ),
    ):
        mishap.write_text(text)  # what fails has a fix, or none
        found = claims(reconcile, "--rescore", "--at", "HEAD~1")[1]
        assert found[CELL, "accuracy"] == ("missing", f"cannot be scored again: {why}")


# -- measured again -------------------------------------------------------------------------------------------------

# A Server run reaches the rate that it is asked for, however busy the machine of the tests is.
SERVER = "Server: {target_qps: 1000, target_latency: 5 s, min_duration: 0, min_query_count: 700}"
SERVED = "open/box/digits/Server"
REPEATED = (SERVED, "performance: repeated")


@pytest.fixture(scope="module")
def served_once(recorded_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    root = tmp_path_factory.mktemp("served") / "repository"
    shutil.copytree(recorded_once, root)
    edit(root, "category: edge", "category: datacenter")
    edit(root, "Offline: {target_qps: 1000, min_duration: 0, min_query_count: 512}", SERVER)
    commit(root, "Serve")
    ended = console(root, "--commit")
    assert ended.code == 0, ended
    return root


@pytest.fixture
def served(served_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "repository"
    shutil.copytree(served_once, root)
    monkeypatch.chdir(root)
    return root


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
    assert detail.endswith(" bears it out (10%, as TEST01 allows between two runs of a system)")
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


def changed(root: Path, before: str, after: str) -> None:
    """The published record with other text, under the name that fits it."""
    for path in (root / "state/records/Run").glob("*.json"):
        record = decode(path.read_bytes(), path.name)
        if str(record.address) == f"Run:{SERVED}/performance":
            text = path.read_text()
            assert before in text
            path.unlink()
            write_record(RepositoryPaths(root), decode(text.replace(before, after).encode(), path.name))
    commit(root, "Change a record")


def test_rerun_contradicts_a_result_that_the_system_does_not_reach(served: Path, reconcile: Reconcile) -> None:
    runs = [decode(p.read_bytes(), p.name) for p in (served / "state/records/Run").glob("*.json")]
    metric = next(r.values["metric"] for r in runs if str(r.address) == f"Run:{SERVED}/performance")
    changed(served, f'"value": "{metric["value"]}"', f'"value": "{float(metric["value"]) * 1.2:.3f}"')
    code, found = claims(reconcile, "--rerun", "digits")
    proof, detail = found[REPEATED]
    assert (code, proof) == (2, "contradicted"), detail
    assert "at least" in detail
    assert reports(served)[0]["proof"] == "contradicted"


def test_rerun_on_another_machine_is_refused_with_what_differs(served: Path, reconcile: Reconcile) -> None:
    others = {"machine.cpu": "Abacus 9000", "machine.architecture": "abacus"}
    here = {
        name: fact.value
        for p in (served / "state/records/Run").glob("*.json")
        for name, fact in decode(p.read_bytes(), p.name).facts.items()
        if name in others
    }
    for name, other in others.items():
        changed(served, f'"value": "{here[name]}"', f'"value": "{other}"')
    code, found = claims(reconcile, "--rerun", "digits")
    proof, detail = found[REPEATED]
    assert (code, proof) == (2, "missing")
    for name, other in others.items():
        assert f"{name} was {other}, here it is {here[name]}" in detail
    assert not (served / "state/audits").exists()


def test_rerun_of_an_older_commit_measures_what_that_commit_asked_for(
    served: Path, tmp_path: Path, reconcile: Reconcile
) -> None:
    """And renders nothing, not even where the spec names a folder for the tree."""
    edit(served, "  rehearsal: true\n", f"  rehearsal: true\n  tree: {tmp_path}/tree\n")
    edit(served, "target_qps: 1000", "target_qps: 500")
    assert reconcile()[0] == 0
    commit(served, "Ask for less")
    before = {p: p.read_bytes() for p in (tmp_path / "tree").rglob("*") if p.is_file()}
    assert before
    code, found = claims(reconcile, "--rerun", "digits", "--at", "HEAD~1")
    assert (code, found[REPEATED][0]) == (0, "proven")
    repeated = reports(served)[0]["repeated"]
    assert isinstance(repeated, float)
    assert repeated > 700  # of 1000 asked for, not of 500
    assert {p: p.read_bytes() for p in (tmp_path / "tree").rglob("*") if p.is_file()} == before
    assert reconcile("plan")[0] == 0


def test_rerun_of_nothing_published_names_what_there_is(served: Path, reconcile: Reconcile) -> None:
    code, _, error = reconcile("audit", "--rerun", "scenario=Offline")
    assert code == 1
    assert f"published at this commit: {SERVED}" in error


def test_rerun_waits_for_no_other_pass(served: Path, reconcile: Reconcile) -> None:
    with Lock(RepositoryPaths(served).pass_lock, purpose="pass over this repository").acquire():
        code, _, error = reconcile("audit", "--rerun", "digits")
    assert (code, "held by" in error) == (1, True)


def test_rerun_with_other_code_names_the_program_that_made_the_record(
    served: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine with another version of the harness."""
    record = next(
        r
        for p in (served / "state/records/Run").glob("*.json")
        if str((r := decode(p.read_bytes(), p.name)).address) == f"Run:{SERVED}/performance"
    )
    probed = rerun.probe_nodes

    def other_code(*arguments: Any) -> tuple[Any, ...]:
        return tuple({**node, "harness.code": "0" * 64} for node in probed(*arguments))

    monkeypatch.setattr(rerun, "probe_nodes", other_code)
    status, found = claims(reconcile, "--rerun", "digits")
    proof, detail = found[REPEATED]
    assert (status, proof) == (2, "missing")
    code = str(record.facts["harness.code"].value)
    assert f"harness.code was {code[:12]}, here it is {'0' * 12}; the record was made by {record.tool}" in detail


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
