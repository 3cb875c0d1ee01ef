"""`reconcile pr` on real git histories: what merging causes, which line causes it, and what a reviewer must see."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from .conftest import CELL, Reconcile, edit, git


def commit(root: Path, message: str) -> str:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)
    return git(root, "rev-parse", "HEAD")


def impact(reconcile: Reconcile, *arguments: str) -> tuple[int, dict]:
    code, out, _ = reconcile("pr", *arguments, "--json")
    return code, json.loads(out)


def test_pr_when_a_target_changes_names_the_cell_the_run_and_the_line(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    head = commit(recorded, "Ask for more")
    code, found = impact(reconcile, "--base", "HEAD~1")
    assert code == 2
    assert found["head"] == head
    assert found["counts"] == {"Run performance": 1}
    (cell,) = found["cells"]
    assert (cell["cell"], cell["effect"], cell["due"]) == (CELL, "stale", ["Run performance"])
    line = (recorded / "specs/one.yaml").read_text().splitlines().index(
        "          Offline: {target_qps: 1100, min_duration: 0, min_query_count: 512}"
    )  # fmt: skip
    assert cell["causes"] == [
        {"name": "target_qps", "before": "1000", "after": "1100", "file": "specs/one.yaml", "line": line + 1}
    ]


def test_pr_when_only_records_were_added_says_nothing_is_to_do(recorded: Path, reconcile: Reconcile) -> None:
    code, found = impact(reconcile, "--base", "HEAD~1")
    assert (code, found["work"], found["verdict"]) == (0, False, "Merging makes nothing to do.")
    assert [cell["effect"] for cell in found["cells"]] == ["settled"]


def test_pr_when_a_comment_changes_leaves_every_cell_unaffected(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "spec:\n", "# a remark\nspec:\n")
    commit(recorded, "Explain")
    code, found = impact(reconcile, "--base", "HEAD~1")
    assert code == 0
    assert [cell["effect"] for cell in found["cells"]] == ["unaffected"]


def test_pr_when_a_cell_comes_and_another_goes(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "Offline: {target_qps: 1000,", "SingleStream: {")
    commit(recorded, "Swap scenarios")
    _, found = impact(reconcile, "--base", "HEAD~1")
    assert {cell["cell"].rpartition("/")[2]: cell["effect"] for cell in found["cells"]} == {
        "Offline": "removed",
        "SingleStream": "added",
    }


def test_pr_when_the_spec_is_broken_gives_one_error_at_its_line(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "category: edge", "category: edgy")
    commit(recorded, "Break it")
    code, out, _ = reconcile("pr", "--base", "HEAD~1", "--annotate")
    assert code == 1
    annotations = [line for line in out.splitlines() if line.startswith("::error")]
    assert len(annotations) == 1
    line = (recorded / "specs/one.yaml").read_text().splitlines().index("      category: edgy") + 1
    assert annotations[0].startswith(f"::error file=specs/one.yaml,line={line}::")


def test_pr_when_a_record_was_edited_is_an_error(recorded: Path, reconcile: Reconcile) -> None:
    record = next((recorded / "state/records/Run").glob("*.json"))
    record.write_text(record.read_text().replace('"dirty": false', '"dirty": true'))
    commit(recorded, "Tidy up")
    code, found = impact(reconcile, "--base", "HEAD~1")
    assert code == 1
    assert [(r["level"], r["file"]) for r in found["remarks"]] == [
        ("error", record.relative_to(recorded).as_posix())
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "data", "level", "line"),
    [
        ("token.txt", b"first\ntoken: ghp_" + b"a" * 36 + b"\n", "error", 2),
        ("key.pem", b"-----BEGIN RSA PRIVATE " + b"KEY-----\n", "error", 1),
        ("big.bin", b"\0" * (2 << 20), "warning", 0),
    ],
)
def test_pr_when_a_file_should_not_be_there(
    recorded: Path, reconcile: Reconcile, name: str, data: bytes, level: str, line: int
) -> None:
    (recorded / name).write_bytes(data)
    commit(recorded, "Add a file")
    _, found = impact(reconcile, "--base", "HEAD~1")
    assert [(r["level"], r["file"], r["line"]) for r in found["remarks"]] == [(level, name, line)]


def test_pr_when_the_base_is_not_in_a_shallow_clone_says_how_to_fetch_it(
    recorded: Path, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{recorded}", shallow], check=True)
    monkeypatch.chdir(shallow)
    code, _, err = reconcile("pr", "--base", "HEAD~1")
    assert code == 1
    assert "git fetch --depth=1 origin" in err


def test_pr_writes_a_comment_in_markdown(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "batch_size: 8", "batch_size: 16")
    commit(recorded, "Use larger batches")
    code, _, _ = reconcile("pr", "--base", "HEAD~1", "--fail-on", "errors", "--markdown", "comment.md")
    assert code == 0
    text = (recorded / "comment.md").read_text()
    assert text.startswith("**Merging makes due: ")
    assert "| " + CELL + " | stale |" in text
