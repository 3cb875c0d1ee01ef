"""`reconcile audit` on a recorded repository: what is proven, and that one changed byte contradicts one claim."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.unit.check.made import set_log

from .conftest import CELL, Reconcile, edit, git
from .test_import import logs

__all__ = ["logs"]


def claims(reconcile: Reconcile, *arguments: str) -> tuple[int, dict[tuple[str, str], str]]:
    code, out, _ = reconcile("audit", "--json", *arguments)
    return code, {(claim["where"], claim["what"]): claim["proof"] for claim in json.loads(out)["claims"]}


def commit(root: Path, message: str) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)


def test_audit_says_which_cells_are_rehearsals(recorded: Path, reconcile: Reconcile) -> None:
    _, out, _ = reconcile("audit")
    assert next(line for line in out.splitlines() if line.startswith(CELL)).endswith("  rehearsal, synthetic")
    assert json.loads(reconcile("audit", "--json")[1])["marks"] == {CELL: ["rehearsal", "synthetic"]}


def test_audit_of_a_plain_clone_proves_performance_and_tree_and_attests_accuracy(
    recorded: Path, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "clone", "--quiet", str(recorded), "clone")
    monkeypatch.chdir(tmp_path / "clone")
    code, found = claims(reconcile)
    assert code == 0
    assert found.pop((CELL, "accuracy")) == "attested"
    assert set(found.values()) == {"proven"}
    assert {(CELL, "performance: metric"), (CELL, "performance: validity"), ("submission", "rendered tree")} <= set(
        found
    )


def test_audit_when_a_byte_of_a_log_is_flipped_contradicts_exactly_that_claim(
    recorded: Path, reconcile: Reconcile
) -> None:
    _, before = claims(reconcile)
    log = next(p for p in (recorded / "state/logs").iterdir() if b"Samples per second" in p.read_bytes())
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    commit(recorded, "Flip one byte")
    code, after = claims(reconcile)
    assert code == 2
    assert [name for name, proof in after.items() if proof == "contradicted"] == [
        (CELL, "performance: mlperf_log_summary.txt")
    ]
    assert {name: proof for name, proof in after.items() if proof != "contradicted"} == {
        name: proof for name, proof in before.items() if name != (CELL, "performance: mlperf_log_summary.txt")
    }


def test_audit_when_a_log_is_gone_says_missing(recorded: Path, reconcile: Reconcile) -> None:
    log = next(p for p in (recorded / "state/logs").iterdir() if b"Samples per second" in p.read_bytes())
    log.unlink()
    commit(recorded, "Lose a log")
    code, found = claims(reconcile)
    assert (code, found[CELL, "performance: mlperf_log_summary.txt"]) == (2, "missing")


def test_audit_when_a_record_claims_another_result_is_contradicted(recorded: Path, reconcile: Reconcile) -> None:
    record = next(p for p in (recorded / "state/records/Run").iterdir() if '"validity": "VALID"' in p.read_text())
    text = record.read_text()
    record.write_text(text.replace('"unit": "samples/s"', '"unit": "queries/s"'))
    commit(recorded, "Improve the result")
    code, found = claims(reconcile)
    assert (code, found[record.relative_to(recorded).as_posix(), "record"]) == (2, "contradicted")


def test_audit_of_an_older_commit_judges_it_by_its_own_spec(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    commit(recorded, "Ask for more")
    assert claims(reconcile, "--at", "HEAD~1")[0] == 0
    code, found = claims(reconcile, "--at", "HEAD")
    assert (code, found[CELL, "result"]) == (2, "missing")


def test_audit_when_a_record_is_not_what_the_spec_of_its_commit_asks_for(recorded: Path, reconcile: Reconcile) -> None:
    code, out, _ = reconcile("audit", "--at", "HEAD~1")
    assert code == 2
    assert f"{CELL}: 1 missing" in out


@pytest.fixture
def imported(declared: Path, logs: dict[str, Path], reconcile: Reconcile) -> Path:
    """A repository whose runs were made elsewhere, and what no one knows of them is not declared."""
    for mode in ("accuracy", "performance"):
        assert reconcile("import", str(logs[mode]), "--cell", "offline")[0] == 0
    (declared / ".gitignore").write_text(".reconcile/\n")
    git(declared, "init", "--quiet", "--initial-branch=main")
    commit(declared, "Import runs of a colleague's")
    return declared


def test_audit_of_imported_runs_derives_them_from_their_logs(imported: Path, reconcile: Reconcile) -> None:
    code, found = claims(reconcile)
    assert code == 2
    lost = [what for (_, what), proof in found.items() if proof in ("missing", "contradicted")]
    assert lost == ["performance: made from", "accuracy: made from", "score: made from"]
    proven = {"performance: metric", "performance: validity", "performance: settings", "accuracy: settings"}
    assert all(found[CELL, what] == "proven" for what in proven)
    said = [f"--declare={name}=known" for name in ("code", "dataset", "engine", "machine")]
    assert reconcile("import", "--cell", CELL, *said)[0] == 0
    commit(imported, "Declare the rest")
    code, found = claims(reconcile)
    attested = {what for (_, what), proof in found.items() if proof == "attested"}
    assert (code, attested) == (0, {"accuracy", *lost})


def test_audit_of_an_adopted_test_judges_it_by_its_logs(
    recorded: Path, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that is published is its own reference: the same score is a pass, half of it is none."""
    tree = tmp_path / "sent"
    assert reconcile()[0] == 0
    shutil.copytree(recorded / ".reconcile/tree", tree)
    test = tree / "open/Tester/results/box/digits/Offline/TEST01"
    shutil.copytree(test.parent / "performance", test / "performance")
    (test / "verify_performance.txt").write_text("TEST PASS\n")
    (test / "verify_accuracy.txt").write_text("TEST PASS\n")
    for name, proof, rate in (("same", "attested", None), ("slower", "contradicted", 2.0)):
        if rate:
            set_log(test / "performance/run_1", "result_samples_per_second", rate)
        root = tmp_path / name
        root.mkdir()
        git(root, "init", "--quiet", "--initial-branch=main")
        (root / ".gitignore").write_text(".reconcile/\n")
        monkeypatch.chdir(root)
        assert reconcile("adopt", str(tree), "--rehearsal")[0] == 0
        commit(root, "Adopt a tree")
        _, found = claims(reconcile)
        assert (found[CELL, "TEST01: inputs"], found[CELL, "TEST01 verdict"]) == ("proven", proof)
