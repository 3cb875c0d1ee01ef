"""`reconcile audit --rescore` and `--rerun`: accuracy and performance proven by doing it again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.files import Places
from reconciler.record.codec import decode
from reconciler.record.store import keep, object_path, write_record
from reconciler.resource.records import Record

from .conftest import CELL, Reconcile, edit, git

Claims = dict[tuple[str, str], tuple[str, str]]


def claims(reconcile: Reconcile, *arguments: str) -> tuple[int, Claims]:
    code, out, _ = reconcile("audit", "--json", *arguments)
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
        *(".gitignore", "attempts", "index", "locks", "objects", "tree", "caches")
    }


def forged(root: Path, tmp_path: Path) -> None:
    """A score that was raised everywhere that git shows: record, accuracy.txt and digests agree."""
    path, record = record_of(root, "Score")
    old = next(a for a in record.artifacts if a.name == "accuracy.txt")
    text = (root / "state/logs" / old.sha256).read_text()
    measured = record.values["bars"][0]["measured"]
    raised = f"{float(measured) + 0.5:.3f}"
    assert measured in text
    better = tmp_path / "accuracy.txt"
    better.write_text(text.replace(measured, raised))
    artifact = keep(Places(root), better, "accuracy.txt", in_git=True)
    values = json.loads(json.dumps(dict(record.values)).replace(measured, raised))
    artifacts = tuple(artifact if a.name == "accuracy.txt" else a for a in record.artifacts)
    path.unlink()
    write_record(Places(root), replace(record, values=values, artifacts=artifacts))
    commit(root, "Improve the score")


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
    path = object_path(Places(recorded), log.sha256)
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


def test_rescore_of_an_older_commit_uses_its_own_benchmark_and_spec(recorded: Path, reconcile: Reconcile) -> None:
    """A benchmark of the user's own, whose scorer was changed since."""
    source = Path(__file__).parents[2] / "passes/benchmarks"
    code = recorded / "benchmarks/tiny.py"
    code.parent.mkdir()
    code.write_bytes((source / "tiny.py").read_bytes())
    edit(recorded, "code: digits", "code: benchmarks/tiny.py")
    assert reconcile()[0] == 0
    commit(recorded, "Use our own benchmark")
    with code.open("a") as stream:
        stream.write("\n\ndef score(log, dataset, output):\n    raise OSError('broken since')\n")
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    commit(recorded, "Break the scorer")
    status, found = claims(reconcile, "--rescore", "--at", "HEAD~1")
    assert (status, found[CELL, "accuracy"][0]) == (0, "proven")
    assert claims(reconcile, "--rescore", "--at", "HEAD")[0] == 2
