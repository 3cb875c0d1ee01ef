"""check and verify-tree from the command line: exit codes, reports, the official checkers in child processes."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from reconciler.history.packaging import load_packed_submission
from reconciler.reconcile.planning import Options, compute_plan
from reconciler.storage.files import RepositoryPaths
from reconciler.tree.layout import CHECKER_LOG
from tests.unit.check.written import TOKENS, open_cell
from tests.unit.cli.conftest import Reconcile, commit, edit, git

CELL = "open/sys1/llama3.1-8b/Server"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "tree"
    open_cell(root, "llama3.1-8b", "Server", TOKENS)
    return root


def contradict(tree: Path) -> None:
    conf = next(tree.rglob("user.conf"))
    conf.write_text("*.Server.target_qps = 46\n<script>.x.y = 1\n")


def test_a_clean_tree_is_in_sync(tree: Path, reconcile: Reconcile) -> None:
    assert "nothing found" in reconcile.succeed("check", str(tree))
    reconcile.succeed("verify-tree", str(tree))


def test_a_finding_is_not_in_sync(tree: Path, reconcile: Reconcile) -> None:
    min(tree.rglob("README.md")).write_text("")
    next(path for path in tree.rglob("accuracy.txt") if "Server" in path.parts).unlink()
    document = reconcile.report("check", str(tree), ends=2)
    assert document["report"] == "check"
    assert not document["clean"]
    assert ("files.missing", CELL) in {(finding["rule"], finding["cell"]) for finding in document["findings"]}


def test_no_tree_is_an_error(tmp_path: Path, reconcile: Reconcile) -> None:
    assert "is not a submission tree" in reconcile.refuse("verify-tree", str(tmp_path))


def test_the_reports_of_verify_tree(tree: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    contradict(tree)
    out = [f"--csv={tmp_path / 'f.csv'}", f"--objections={tmp_path / 'o'}", f"--html={tmp_path / 'f.html'}"]
    code, shown, _ = reconcile("verify-tree", str(tree), *out, "--sort", "severity")
    assert code == 2
    assert "error: user.conf does not match the run (1 submitter, 1 cell, 1 finding)" in shown
    assert "settled by: the user.conf used for the published run" in shown
    assert "0.92 of the published target" in shown
    rows = list(csv.DictReader((tmp_path / "f.csv").read_text().splitlines()))
    assert rows[0]["rule"] == "user-conf.contradicts"
    assert rows[0]["line"] == "1"
    assert rows[0]["cause_id"] == "conf-of-another-run"
    objection = (tmp_path / "o/Acme.md").read_text()
    assert "## user.conf does not match the run" in objection
    assert "target\\_qps 46" in objection
    assert "It would be settled by the user.conf" in objection
    page = (tmp_path / "f.html").read_text()
    assert "<svg" in page
    assert "<script" not in page
    assert "Causes, worst first" in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_baseline_hides_what_is_known(tree: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    contradict(tree)
    baseline = tmp_path / "known.json"
    baseline.write_text(reconcile("verify-tree", str(tree), "--json")[1])
    assert "nothing found" in reconcile.succeed("verify-tree", str(tree), "--baseline", str(baseline))
    conf = next(tree.rglob("user.conf"))
    conf.write_text("*.Server.target_qps = 46\n*.Server.min_duration = 60000\n")
    (finding,) = reconcile.report("verify-tree", str(tree), "--baseline", str(baseline), ends=2)["findings"]
    assert finding["found"].partition(" (")[0] == "min_duration 60000"


@pytest.mark.parametrize("content", ["", "[]", '{"findings": [{}]}', "\x00"])
def test_anything_else_is_not_a_baseline(content: str, tree: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    (tmp_path / "b.json").write_text(content)
    assert reconcile("verify-tree", str(tree), "--baseline", str(tmp_path / "b.json"))[0] == 1


_CHECKER = """\
import logging, sys
logging.basicConfig(level=logging.INFO, format="[%(asctime)s %(filename)s:%(lineno)d %(levelname)s] %(message)s")
root = sys.argv[sys.argv.index("--input") + 1]
{body}
"""
_ERRORS = """\
logging.error("%s/open/Acme/results/sys1/llama3.1-8b/Server/performance is odd", root)
logging.error("NoResults %s/open/Acme/results/sys1/llama3.1-8b/Server", root)
logging.error("something of the whole tree")
logging.error("SUMMARY: submission has errors")
sys.exit(1)"""


def _checkout(folder: Path, newer: str, older: str) -> Path:
    package = folder / "tools/submission/submission_checker"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "main.py").write_text(_CHECKER.format(body=newer))
    (package.parent / "submission_checker_old.py").write_text(_CHECKER.format(body=older))
    git(folder, "init", "--quiet")
    commit(folder, "Checkers")
    return folder


def test_the_one_checker_of_older_rounds_is_run(tree: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    folder = tmp_path / "official/tools/submission"
    folder.mkdir(parents=True)
    (folder / "submission_checker.py").write_text(_CHECKER.format(body='print("SUMMARY: submission looks OK")'))
    (run,) = reconcile.report("check", str(tree), "--official", str(tmp_path / "official"), ends=0)["official"]
    assert run["verdict"] == "looks OK"


def test_the_official_checkers_words_are_mapped(tree: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    checkout = _checkout(tmp_path / "official", _ERRORS, 'print("SUMMARY: submission looks OK")')
    document = reconcile.report("check", str(tree), "--official", str(checkout), "--carry-log", ends=2)
    (finding,) = document["findings"]
    assert finding["cell"] == CELL
    assert finding["rule"] == "official.newer"
    newer, older = document["official"]
    assert newer["commit"] == older["commit"] == git(checkout, "rev-parse", "HEAD")
    assert newer["verdict"] == "has errors"
    assert newer["unmapped"] == ["something of the whole tree"]
    assert older["verdict"] == "looks OK"
    assert (tmp_path / "official-checks/newer_checker_log.txt").is_file()
    assert (tree / "open/Acme/results/submission_checker_log.txt").is_file()


def test_a_crash_is_reported_as_such(tree: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    (tree / "open/Acme/results/sys1/llama3.1-8b/notes").mkdir()
    (tree / "open/Acme/results/sys1/llama3.1-8b/notes/x.md").write_text("x")
    checkout = _checkout(
        tmp_path / "official", 'raise FileNotFoundError("notes")', 'print("SUMMARY: submission looks OK")'
    )
    newer = reconcile.report("check", str(tree), "--official", str(checkout), ends=2)["official"][0]
    assert newer["verdict"] == "crashed"
    assert newer["cause"].startswith("FileNotFoundError: notes; likely because of open/Acme")
    assert "benchmark.stray" in newer["cause"]


def test_a_checkout_without_checkers(tree: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    (tmp_path / "empty").mkdir()
    err = reconcile.refuse("check", str(tree), "--official", str(tmp_path / "empty"))
    assert "pass a checkout of the official inference repository" in err


def test_the_rendered_tree_is_checked_by_default(recorded: Path, reconcile: Reconcile) -> None:
    """A rehearsal's short run; each finding names the spec line of its cell."""
    document = reconcile.report("check", ends=2)
    of_cell = [finding for finding in document["findings"] if finding["cell"] == "open/box/digits/Offline"]
    assert "run.duration" in {finding["rule"] for finding in of_cell}
    assert all(finding["origin"].startswith("specs/one.yaml:") for finding in of_cell)
    named = (recorded / "specs/one.yaml").read_text().splitlines()
    for finding in document["findings"]:
        line = named[int(finding["origin"].rpartition(":")[2]) - 1] if finding["origin"] else ""
        if finding["rule"] == "run.duration":
            assert "min_duration" in line
        if finding["rule"] == "system.fields":
            assert "category" in line
    assert "accuracy.hash-of-log" not in {finding["rule"] for finding in of_cell}


def test_a_rendered_rehearsal_is_the_only_finding(recorded: Path, reconcile: Reconcile) -> None:
    found = reconcile.report("verify-tree", ".reconcile/tree", ends=2)["findings"]
    assert {(item["rule"], item["severity"]) for item in found} == {("measurements.rehearsal", "warning")}
    assert "**Rehearsal**" in next(Path(".reconcile/tree").rglob("Offline/README.md")).read_text()


def test_objections_to_one_submitter_hide_those_to_no_other(tree: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    contradict(tree)
    own = tree / "open/Acme"
    others = ["A b", "A|b", "A_b", "a_B", "\u8054\u60f3", "\u6d6a\u6f6e", "x" * 255]
    for name in others:
        shutil.copytree(own, tree / "open" / name)
    assert reconcile("verify-tree", str(tree), f"--objections={tmp_path}/drafts")[0] == 2
    texts = {path.name: path.read_text() for path in (tmp_path / "drafts").iterdir()}
    assert len({name.casefold() for name in texts}) == len(others) + 1
    assert {text.splitlines()[0].replace("\\", "") for text in texts.values()} == {f"# {n}" for n in ("Acme", *others)}
    assert texts["A_b.md"].startswith("# A\\_b\n")


def test_the_log_of_the_official_checker_is_published_from_where_the_spec_says(
    recorded: Path, tmp_path: Path, reconcile: Reconcile
) -> None:
    """Written by a check of the tree without it; committed, it is packed and audited like any document."""
    checker = tmp_path / "checkout/tools/submission/submission_checker/main.py"
    checker.parent.mkdir(parents=True)
    checker.write_text("import sys; print(f'INFO {sys.argv[2]}/open/Tester\\nSUMMARY: submission looks OK')\n")
    words = ("check", "--official", str(tmp_path / "checkout"), "--carry-log")
    assert reconcile(*words)[0] == 1
    edit(recorded, "  submitter: Tester\n", f"  submitter: Tester\n  documents: {{checker_log: {CHECKER_LOG}}}\n")
    assert reconcile("plan")[0] == 0
    assert reconcile(*words)[0] == 2
    written = (recorded / CHECKER_LOG).read_text()
    assert written.splitlines() == ["INFO open/Tester", "SUMMARY: submission looks OK"]
    published = recorded / f".reconcile/tree/open/Tester/results/{CHECKER_LOG}"
    assert (reconcile("plan")[0], published.exists()) == (2, False)
    assert (reconcile()[0], published.read_text()) == (0, written)
    commit(recorded, "Keep the log of the checker")
    assert reconcile("plan")[0] == 0
    packed = dict(load_packed_submission(compute_plan(RepositoryPaths(recorded), Options())).files)
    assert packed[f"open/Tester/results/{CHECKER_LOG}"] == written.encode()
    claims = reconcile.report("audit")["claims"]
    assert {claim["proof"] for claim in claims if claim["where"] == "submission"} == {"proven"}
