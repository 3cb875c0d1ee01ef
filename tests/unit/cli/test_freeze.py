"""`reconcile freeze` on a real repository: nothing of a frozen cell is run, built or rendered, by anybody."""

from __future__ import annotations

import json
import shutil
from datetime import date, timedelta
from pathlib import Path

from reconciler.storage.files import hash_file

from .conftest import CELL, Reconcile, edit, expire, git, read_day


def tree(root: Path) -> dict[str, str]:
    top = root / ".reconcile/tree"
    return {p.relative_to(top).as_posix(): hash_file(p) for p in sorted(top.rglob("*")) if p.is_file()}


def records(root: Path) -> set[str]:
    return {path.name for path in root.glob("state/records/*/*.json")}


def freeze(reconcile: Reconcile, *arguments: str) -> date:
    """The day on which it was made."""
    reconcile.succeed("freeze", *arguments, "--reason", "the deadline is over")
    return read_day(next(Path("state/frozen").glob("*.json")))


def test_a_frozen_cell_is_left_alone_and_the_plan_says_by_whom(recorded: Path, reconcile: Reconcile) -> None:
    reconcile()
    before = tree(recorded), records(recorded)
    made = freeze(reconcile, "digits")
    assert reconcile("plan")[0] == 0
    edit(recorded, "batch_size: 8", "batch_size: 16")
    code, plan, _ = reconcile("plan")
    assert code == 2
    assert f"blocked: frozen since {made} by {git(recorded, 'log', '-1', '--format=%an')}: the deadline is over" in plan
    assert f"fix: reconcile unfreeze {CELL}" in plan
    assert reconcile()[0] == 2
    assert (tree(recorded), records(recorded)) == before
    assert "frozen" in reconcile("status")[1]
    assert reconcile("unfreeze", "digits")[0] == 0
    assert reconcile()[0] == 0
    assert len(records(recorded)) > len(before[1])


def test_a_neighbour_is_made_and_rendered_alongside_a_frozen_cell(recorded: Path, reconcile: Reconcile) -> None:
    reconcile()
    before = tree(recorded)
    freeze(reconcile, "digits")
    edit(recorded, "batch_size: 8", "batch_size: 16")
    edit(
        recorded,
        "          Offline:",
        "          SingleStream: {min_duration: 0, min_query_count: 64}\n          Offline:",
    )
    code, out, err = reconcile()
    assert code == 2, out + err
    after = tree(recorded)
    kept = {path: digest for path, digest in before.items() if "/digits/Offline/" in path}
    assert kept
    assert kept.items() <= after.items()
    assert any("/digits/SingleStream/" in path for path in after)
    assert {step["address"].partition(":")[2].split("/")[3] for step in reconcile.report("plan")["steps"]} == {
        "Offline"
    }
    settled = tree(recorded)
    reconcile()
    assert tree(recorded) == settled


def test_a_frozen_submission_is_not_touched_but_a_clone_can_render_it(recorded: Path, reconcile: Reconcile) -> None:
    reconcile()
    before = tree(recorded), records(recorded)
    freeze(reconcile, "--all", "--commit")
    edit(recorded, "submitter: Tester", "submitter: Another")
    code, plan, _ = reconcile("plan")
    assert (code, "frozen the whole submission: since" in plan) == (2, True)
    assert reconcile()[0] == 2
    assert (tree(recorded), records(recorded)) == before
    edit(recorded, "submitter: Another", "submitter: Tester")
    shutil.rmtree(recorded / ".reconcile/tree")
    reconcile()
    assert tree(recorded) == before[0]


def test_a_freeze_ends_on_its_day(recorded: Path, reconcile: Reconcile) -> None:
    made = freeze(reconcile, "digits", "--for", "1d")
    (path,) = Path("state/frozen").glob("*.json")
    document = json.loads(path.read_text())
    assert document["until"] == str(made + timedelta(days=1))
    edit(recorded, "batch_size: 8", "batch_size: 16")
    assert "blocked: frozen until" in reconcile("plan")[1]
    expire(path)
    assert "frozen" not in reconcile("plan")[1]
    assert "(over)" in reconcile("freeze", "--list")[1]


def test_an_edited_freeze_is_listed_as_one_that_counts_for_nothing(recorded: Path, reconcile: Reconcile) -> None:
    assert reconcile("freeze", "digits", "--reason", "the deadline is over")[0] == 0
    path = next((recorded / "state/frozen").glob("*.json"))
    path.write_text(path.read_text().replace("deadline", "party"))
    _, out, _ = reconcile("freeze", "--list")
    assert f"{path.relative_to(recorded)}: it was changed after it was written: it has no effect" in out


def test_unfreeze_works_while_the_spec_is_broken(recorded: Path, reconcile: Reconcile) -> None:
    freeze(reconcile, "digits", "--commit")
    edit(recorded, "category: edge", "category: edgy")
    (file,) = (f"state/frozen/{path.name}" for path in Path("state/frozen").glob("*"))
    found = reconcile.report("unfreeze", "digits", "--commit", ends=0)
    assert (found["files"], found["commit_made"]) == ([file], git(recorded, "rev-parse", "HEAD"))
    assert not list(Path("state/frozen").glob("*"))
    assert git(recorded, "log", "-1", "--format=%s") == f"Unfreeze {CELL}"
    assert "is not frozen" in reconcile.refuse("unfreeze", "digits")


def test_unfreeze_of_a_cell_names_the_freeze_of_everything(recorded: Path, reconcile: Reconcile) -> None:
    freeze(reconcile, "--all")
    err = reconcile.refuse("unfreeze", "digits")
    assert "digits is not frozen by itself, but the whole submission is" in err
    assert "fix: `reconcile unfreeze --all` ends it" in err
    freeze(reconcile, "digits")
    assert "`reconcile unfreeze --all` ends it" in reconcile.refuse("unfreeze", "Server")
    reconcile.succeed("unfreeze", "--all")
    assert "unfreeze --all" not in reconcile.refuse("unfreeze", "Server")


def test_pr_warns_at_the_line_that_changes_a_frozen_cell(recorded: Path, reconcile: Reconcile) -> None:
    made = freeze(reconcile, "digits", "--commit")
    edit(recorded, "batch_size: 8", "batch_size: 16", "Use larger batches")
    _, out, _ = reconcile("pr", "--base", "HEAD~1", "--annotate")
    line = (recorded / "specs/one.yaml").read_text().splitlines().index(
        '      engine: {backend: "null", batch_size: 16}'
    ) + 1  # fmt: skip
    assert f"::warning file=specs/one.yaml,line={line}::{CELL} is frozen since {made}" in out
    reconcile("unfreeze", "digits", "--commit")
    assert "is to be unfrozen" in reconcile.report("pr", "--base", "HEAD~1")["remarks"][0]["message"]


def test_an_unfreeze_killed_before_its_commit_is_finished_by_the_next(recorded: Path, reconcile: Reconcile) -> None:
    freeze(reconcile, "digits", "--commit")
    (path,) = Path("state/frozen").glob("*.json")
    path.unlink()
    path.parent.rmdir()
    assert reconcile("unfreeze", "digits", "--commit")[0] == 0
    assert git(recorded, "log", "-1", "--format=%s") == f"Unfreeze {CELL}"
    assert git(recorded, "status", "--porcelain", "state") == ""
