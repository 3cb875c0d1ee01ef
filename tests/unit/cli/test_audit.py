"""`reconcile audit` on a recorded repository: rehearsals, lost logs, older commits, imported and adopted runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.unit.check.made import set_log

from .conftest import CELL, Reconcile, commit, edit, git
from .test_import import logs

__all__ = ["logs"]


def claims(reconcile: Reconcile, *arguments: str) -> tuple[int, dict[tuple[str, str], str]]:
    code, out, _ = reconcile("audit", "--json", *arguments)
    return code, {(claim["where"], claim["what"]): claim["proof"] for claim in json.loads(out)["claims"]}


def test_audit_says_which_cells_are_rehearsals(recorded: Path, reconcile: Reconcile) -> None:
    _, out, _ = reconcile("audit")
    assert next(line for line in out.splitlines() if line.startswith(CELL)).endswith("  rehearsal, synthetic")
    assert reconcile.report("audit")["marks"] == {CELL: ["rehearsal", "synthetic"]}


def test_audit_when_a_log_is_gone_says_missing(recorded: Path, reconcile: Reconcile) -> None:
    log = next(p for p in (recorded / "state/logs").iterdir() if b"Samples per second" in p.read_bytes())
    log.unlink()
    commit(recorded, "Lose a log")
    code, found = claims(reconcile)
    assert (code, found[CELL, "performance: mlperf_log_summary.txt"]) == (2, "missing")


def test_audit_of_an_older_commit_judges_it_by_its_own_spec(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 1100", "Ask for more")
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
