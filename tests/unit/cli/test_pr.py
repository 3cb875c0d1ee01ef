"""`reconcile pr` on real git histories: what merging causes, which line causes it, and what a reviewer must see."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.files import Places
from reconciler.record.codec import decode
from reconciler.record.store import write_record

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


EMBARGO = "  rehearsal: true\n  embargo: {until: 2999-01-01, allow: 'git@git.acme.com:*'}\n"


def under_embargo(root: Path, embargo: str = EMBARGO) -> None:
    """A base under an embargo, and a head that makes runs due whose length is known from records."""
    edit(root, "  rehearsal: true\n", embargo)
    commit(root, "Keep it secret")
    edit(root, "batch_size: 8", "batch_size: 16")
    commit(root, "Use larger batches")


def commented(reconcile: Reconcile, root: Path) -> tuple[str, str]:
    """The comment, and what the terminal showed."""
    _, out, _ = reconcile("pr", "--base", "HEAD~1", "--markdown", "comment.md", "--annotate")
    return (root / "comment.md").read_text(), out


@pytest.fixture(autouse=True)
def no_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "GITHUB_ACTIONS", "GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "CI_PROJECT_URL"):
        monkeypatch.delenv(name, raising=False)


def test_pr_when_under_embargo_withholds_what_was_measured_from_the_comment(
    recorded: Path, reconcile: Reconcile
) -> None:
    git(recorded, "remote", "add", "origin", "git@github.com:acme/results.git")
    under_embargo(recorded)
    comment, out = commented(reconcile, recorded)
    assert f"| {CELL} | stale | Run accuracy, Run performance, Score |" in comment
    assert "embargo until 2999-01-01: git@github.com:acme/results.git is not among embargo.allow" in comment
    verdict = comment.splitlines()[0]
    assert "about" not in verdict or "of unknown length" in verdict
    assert "withheld" not in out  # this terminal is no exit
    assert "about" in out.splitlines()[1]


def test_pr_when_the_embargo_allows_the_repository_withholds_nothing(recorded: Path, reconcile: Reconcile) -> None:
    git(recorded, "remote", "add", "origin", "https://git.acme.com/results.git")
    under_embargo(recorded)
    assert "withheld" not in commented(reconcile, recorded)[0]


def test_pr_when_nobody_says_where_the_comment_goes_withholds(recorded: Path, reconcile: Reconcile) -> None:
    under_embargo(recorded)
    assert "an unknown place is not among embargo.allow" in commented(reconcile, recorded)[0]


def test_pr_when_it_ends_the_embargo_itself_still_withholds(recorded: Path, reconcile: Reconcile) -> None:
    under_embargo(recorded)
    edit(recorded, EMBARGO, "  rehearsal: true\n")
    commit(recorded, "Tell everybody")
    assert "withheld" in commented(reconcile, recorded)[0]


def test_pr_in_a_workflow_withholds_from_its_page_too(
    recorded: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(recorded, "remote", "add", "origin", "git@git.acme.com:results.git")
    under_embargo(recorded)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "acme/results")
    _, out = commented(reconcile, recorded)
    assert "https://github.com/acme/results is not among embargo.allow" in out


def with_a_thin_margin(root: Path) -> None:
    """The recorded run as it were had its latency met its bound only just."""
    path = next(p for p in (root / "state/records/Run").glob("*.json") if '/performance"' in p.read_text())
    record = decode(path.read_bytes(), path.name)
    margin = {"name": "p99 latency", "measured": "14.9", "limit": "15", "unit": "ms", "headroom": "0.7", "met": True}
    thin = replace(record, values={**record.values, "margins": [margin]})
    path.unlink()
    write_record(Places(root), thin)


def test_pr_when_under_embargo_withholds_thin_margins(recorded: Path, reconcile: Reconcile) -> None:
    with_a_thin_margin(recorded)
    git(recorded, "remote", "add", "origin", "git@github.com:acme/results.git")
    commit(recorded, "Measure again")
    edit(recorded, "spec:\n", "# a remark\nspec:\n")
    commit(recorded, "Explain")
    comment, out = commented(reconcile, recorded)
    assert "p99 latency has 0.7 % of headroom (14.9 of 15)" in comment
    assert "::warning::" in out
    edit(recorded, "  rehearsal: true\n", EMBARGO)
    commit(recorded, "Keep it secret")
    comment, out = commented(reconcile, recorded)
    assert "14.9" not in comment
    assert "::warning::" not in out
    assert "p99 latency has 0.7 % of headroom" in out  # said on this terminal alone
