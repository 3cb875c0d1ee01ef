"""`reconcile pr` on real git histories: what merging causes, which line causes it, and what a reviewer must see."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import CELL, Reconcile, commit, console, edit, find_record, git, restate


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
        {
            "name": "target_qps",
            "before": 1000,
            "after": 1100,
            "file": "specs/one.yaml",
            "line": line + 1,
            "on_base": False,
        }
    ]


def test_pr_when_only_records_were_added_says_nothing_is_to_do(recorded: Path, reconcile: Reconcile) -> None:
    code, found = impact(reconcile, "--base", "HEAD~1")
    assert (code, found["work"], found["verdict"]) == (0, False, "Merging adds no work.")
    assert [cell["effect"] for cell in found["cells"]] == ["settled"]


def test_pr_of_a_comment_makes_nothing_due_whatever_was_due_before(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "          Offline:", "          SingleStream: {}\n          Offline:")
    edit(recorded, "target_qps: 1000", "target_qps: 2000", "Declare another cell, and raise a target")
    assert reconcile("pr", "--base", "HEAD~1")[0] == 2
    edit(recorded, "  rehearsal: true", "  rehearsal: true   # for now", "Comment")
    code, found = impact(reconcile, "--base", "HEAD~1")
    assert code == 0
    assert {cell["cell"].rpartition("/")[2]: cell["effect"] for cell in found["cells"]} == {
        "Offline": "already stale",
        "SingleStream": "not recorded yet",
    }
    assert "Merging adds no work; already due" in reconcile("pr", "--base", "HEAD~1")[1]


def test_pr_does_not_blame_a_branch_for_what_was_stale_before(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 2000", "Raise a target")
    edit(recorded, "batch_size: 8", "batch_size: 4", "Change the batch size")
    (cell,) = impact(reconcile, "--base", "HEAD~1")[1]["cells"]
    assert {cause["name"]: cause["on_base"] for cause in cell["causes"]} == {
        "engine.batch_size": False,
        "target_qps": True,
    }
    lines = [line for line in reconcile("pr", "--base", "HEAD~1", "--annotate")[1].splitlines() if "::notice" in line]
    assert ["batch_size" in line for line in lines] == [True]


def test_pr_when_the_spec_is_broken_gives_one_error_at_its_line(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "category: edge", "category: edgy", "Break it")
    code, out, _ = reconcile("pr", "--base", "HEAD~1", "--annotate")
    assert code == 1
    annotations = [line for line in out.splitlines() if line.startswith("::error")]
    assert len(annotations) == 1
    line = (recorded / "specs/one.yaml").read_text().splitlines().index("      category: edgy") + 1
    assert annotations[0].startswith(f"::error file=specs/one.yaml,line={line},col=17::")
    assert "%0Afix: write edge" in annotations[0]


def test_pr_when_a_record_was_edited_is_an_error(recorded: Path, reconcile: Reconcile) -> None:
    record = next(p for p in (recorded / "state/records/Run").glob("*.json") if '/performance"' in p.read_text())
    record.write_text(record.read_text().replace('"dirty": false', '"dirty": true'))
    commit(recorded, "Tidy up")
    code, found = impact(reconcile, "--base", "HEAD~1")
    assert code == 1
    assert [(r["level"], r["file"]) for r in found["remarks"]] == [
        ("error", record.relative_to(recorded).as_posix())
    ]  # fmt: skip


def test_pr_when_the_base_is_not_in_a_shallow_clone_says_how_to_fetch_it(
    recorded: Path, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{recorded}", shallow], check=True)
    monkeypatch.chdir(shallow)
    assert "fix: git fetch --unshallow\n" in reconcile.refuse("pr", "--base", "HEAD~1")
    wanted = "git fetch --depth=1 origin other:refs/remotes/origin/other"
    assert wanted in reconcile.refuse("pr", "--base", "origin/other")


def test_pr_when_a_name_is_not_text_still_names_the_file(recorded: Path) -> None:
    (recorded / os.fsdecode(b"\xff.txt")).write_bytes(b"AKIA" + b"A" * 16)
    commit(recorded, "Add a file")
    ended = console("pr", "--base", "HEAD~1", at=recorded, GITHUB_ACTIONS="true")
    assert ended.returncode == 1
    assert r"::error file=\xff.txt,line=1::" in ended.stdout


def test_pr_when_the_base_is_broken_says_why_all_cells_are_added(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "category: edge", "category: edgy", "Break it")
    edit(recorded, "category: edgy", "category: edge", "Repair it")
    code, found = impact(reconcile, "--base", "HEAD~1")
    assert (code, [cell["effect"] for cell in found["cells"]]) == (0, ["added"])
    assert [r["message"] for r in found["remarks"]] == [
        "the base has no valid spec: specs/one.yaml:11: 'edgy' is not a valid category"
    ]


def test_pr_reads_the_specs_as_a_pass_does_next_to_a_hidden_copy(recorded: Path, reconcile: Reconcile) -> None:
    (recorded / "specs/.one.yaml").write_text("broken: {")
    commit(recorded, "Leave a copy")
    code, found = impact(reconcile, "--base", "HEAD~1")
    assert (code, found["remarks"]) == (0, [])


def test_pr_below_the_top_of_git_annotates_files_as_github_counts_them(
    recorded: Path, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "mono/teams/a, b"
    shutil.copytree(recorded, below, ignore=shutil.ignore_patterns(".git", ".reconcile"))
    git(tmp_path / "mono", "init", "--quiet")
    commit(below, "Start")
    edit(below, "target_qps: 1000", "target_qps: 1100", "Ask for more")
    monkeypatch.chdir(below)
    _, out, _ = reconcile("pr", "--base", "HEAD~1", "--annotate")
    (line,) = [line for line in out.splitlines() if line.startswith("::")]
    rows = (below / "specs/one.yaml").read_text().splitlines()
    number = next(number for number, row in enumerate(rows, 1) if "target_qps" in row)
    assert line.startswith(f"::notice file=teams/a%2C b/specs/one.yaml,line={number}::target_qps")


def parted(root: Path, tmp_path: Path) -> tuple[Path, str]:
    """A shallow clone of a branch whose base has moved on since; gives the base's tip."""
    git(root, "switch", "--quiet", "--create", "more")
    edit(root, "target_qps: 1000", "target_qps: 1100", "Ask for more")
    git(root, "switch", "--quiet", "main")
    edit(root, "batch_size: 8", "batch_size: 16")
    tip = commit(root, "Use larger batches")
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", "--branch=more", f"file://{root}", shallow], check=True)
    return shallow, tip


def test_pr_in_a_shallow_clone_takes_the_base_from_its_own_advice_and_says_what_it_cannot_know(
    recorded: Path, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    shallow, _ = parted(recorded, tmp_path)
    monkeypatch.chdir(shallow)
    err = reconcile.refuse("pr", "--base", "origin/main")
    advice = next(line for line in err.splitlines() if line.startswith("fix: git ")).removeprefix("fix: git ")
    git(shallow, *advice.split())
    _, found = impact(reconcile, "--base", "origin/main")
    assert [(r["level"], r["fix"]) for r in found["remarks"]] == [("warning", "git fetch --unshallow")]
    git(shallow, "fetch", "--quiet", "--unshallow")
    _, found = impact(reconcile, "--base", "origin/main")
    assert (found["counts"], found["remarks"]) == ({"Run performance": 1}, [])


def test_pr_of_a_merge_in_a_shallow_clone_knows_its_base_from_the_merge_itself(
    recorded: Path, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, tip = parted(recorded, tmp_path)
    git(recorded, "merge", "--quiet", "--no-ff", "--message", "Merge", "more")
    shallow = tmp_path / "merged"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{recorded}", shallow], check=True)
    git(shallow, "fetch", "--quiet", "--depth=1", "origin", tip)
    monkeypatch.chdir(shallow)
    _, found = impact(reconcile, "--base", tip)
    assert (found["base"], found["remarks"]) == (tip, [])
    assert "target_qps" in {cause["name"] for cause in found["cells"][0]["causes"]}


def test_pr_without_a_commit_says_so(declared: Path, reconcile: Reconcile) -> None:
    git(declared, "init", "--quiet")
    code, _, err = reconcile("pr", "--base", "HEAD")
    assert (code, "no commit is checked out" in err, "git fetch" in err) == (1, True, False)


REFUSED = "is not among embargo.allow"
EMBARGO = "  rehearsal: true\n  embargo: {until: 2999-01-01, allow: 'git@git.acme.com:*'}\n"


def under_embargo(root: Path, embargo: str = EMBARGO) -> None:
    """A base under an embargo, and a head that makes runs due whose length is known from records."""
    edit(root, "  rehearsal: true\n", embargo, "Keep it secret")
    edit(root, "batch_size: 8", "batch_size: 16", "Use larger batches")


def commented(reconcile: Reconcile, root: Path) -> tuple[str, str]:
    """The comment, and what the terminal showed."""
    _, out, _ = reconcile("pr", "--base", "HEAD~1", "--markdown", "comment.md", "--annotate")
    return (root / "comment.md").read_text(), out


@pytest.fixture(autouse=True)
def no_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "GITHUB_ACTIONS", "GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "CI_PROJECT_URL"):
        monkeypatch.delenv(name, raising=False)


def test_pr_under_embargo_withholds_measurements_from_the_comment(recorded: Path, reconcile: Reconcile) -> None:
    git(recorded, "remote", "add", "origin", "git@github.com:acme/results.git")
    under_embargo(recorded)
    comment, out = commented(reconcile, recorded)
    assert f"| {CELL} | stale | Run accuracy, Run performance, Score |" in comment
    assert f"embargo until 2999-01-01: git@github.com:acme/results.git {REFUSED}" in comment.replace("<!-- -->", "")
    verdict = comment.splitlines()[0]
    assert "about" not in verdict or "of unknown length" in verdict
    assert "withheld" not in out  # this terminal is no exit
    assert "about" in out.splitlines()[1]


def test_pr_when_the_embargo_allows_the_repository_withholds_nothing(recorded: Path, reconcile: Reconcile) -> None:
    git(recorded, "remote", "add", "origin", "https://git.acme.com/results.git")
    under_embargo(recorded)
    assert "withheld" not in commented(reconcile, recorded)[0]


def test_pr_when_no_one_says_where_the_comment_goes_withholds(recorded: Path, reconcile: Reconcile) -> None:
    under_embargo(recorded)
    assert f"an unknown place {REFUSED}" in commented(reconcile, recorded)[0]


def test_pr_when_it_ends_the_embargo_itself_still_withholds(recorded: Path, reconcile: Reconcile) -> None:
    under_embargo(recorded)
    edit(recorded, EMBARGO, "  rehearsal: true\n", "End the embargo")
    assert "withheld" in commented(reconcile, recorded)[0]


def test_pr_withholds_from_the_page_too(recorded: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    git(recorded, "remote", "add", "origin", "git@git.acme.com:results.git")
    under_embargo(recorded)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "acme/results")
    _, out = commented(reconcile, recorded)
    assert f"https://github.com/acme/results {REFUSED}" in out


def test_pr_when_under_embargo_withholds_thin_margins(recorded: Path, reconcile: Reconcile) -> None:
    margin = {"name": "p99 latency", "measured": "14.9", "limit": "15", "unit": "ms", "headroom": "0.7", "met": True}
    restate(recorded, margins=[margin])
    git(recorded, "remote", "add", "origin", "git@github.com:acme/results.git")
    edit(recorded, "spec:\n", "# a remark\nspec:\n", "Explain")
    comment, out = commented(reconcile, recorded)
    assert "p99 latency has 0.7 % of headroom (14.9 of 15)" in comment
    assert "::warning::" in out
    edit(recorded, "  rehearsal: true\n", EMBARGO, "Keep it secret")
    comment, out = commented(reconcile, recorded)
    assert "14.9" not in comment
    assert "::warning::" not in out
    assert "p99 latency has 0.7 % of headroom" in out  # said on this terminal alone


def forge_metric(root: Path) -> None:
    """In the record alone: its log stays."""
    restate(root, metric={**find_record(root)[1].values["metric"], "value": "123456789"})


def test_pr_names_a_metric_that_its_own_log_denies(recorded: Path, reconcile: Reconcile) -> None:
    forge_metric(recorded)
    code, found = impact(reconcile, "--base", "HEAD~1")
    assert code == 1
    denied = f"{CELL}: performance: metric: recorded 123456789 "
    assert any(remark["message"].startswith(denied) for remark in found["remarks"])


def test_pr_under_an_embargo_names_a_forged_metric_without_its_figures(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "  rehearsal: true", "  rehearsal: true\n  embargo: {until: 2999-01-01}")
    forge_metric(recorded)
    code, out, _ = reconcile("pr", "--base", "HEAD~1", "--markdown", "page.md")
    page = (recorded / "page.md").read_text()
    assert (code, "123456789" in out, "123456789" in page) == (1, True, False)
    assert "its logs say otherwise" in page


def test_pr_names_edited_files_of_a_committed_tree(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "  rehearsal: true", "  rehearsal: true\n  tree: submission")
    assert reconcile()[0] == 0
    commit(recorded, "Show the tree")
    assert impact(reconcile, "--base", "HEAD~1")[1]["remarks"] == []
    cell = recorded / "submission/open/Tester/results/box/digits/Offline"
    with (cell / "measurements.json").open("a") as stream:
        stream.write("\n")
    (cell / "user.conf").unlink()
    (cell / "more.txt").write_text("more\n")
    commit(recorded, "Touch it up")
    code, found = impact(reconcile, "--base", "HEAD~1")
    named = {remark["file"].rpartition("/")[2] for remark in found["remarks"] if remark["level"] == "error"}
    assert (code, named) == (1, {"measurements.json", "user.conf", "more.txt"})
