"""`reconcile prune` on a real repository: what goes, what never does, and the guards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared import copy_folder

from .conftest import Reconcile, commit, edit, enter_copy, git, measure

ROW = "          Offline: {target_qps: 1000, min_duration: 0, min_query_count: 512}\n"
SECOND = "          SingleStream: {min_duration: 0, min_query_count: 64}\n"
ALL = ("--measured", "--max-share", "1")


def logs(root: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in root.glob("state/logs/*")}


def objects(root: Path) -> set[str]:
    return {p.name for p in root.glob(".reconcile/objects/*/*")}


def records(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.glob("state/records/*/*.json")}


@pytest.fixture(scope="module")
def swapped_once(recorded_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    root = copy_folder(recorded_once, tmp_path_factory.mktemp("swapped") / "repository")
    edit(root, ROW, ROW + SECOND, "Enter another scenario")
    measure(root)
    edit(root, ROW, "", "Leave the first")
    return root


@pytest.fixture
def swapped(swapped_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The recorded cell is not declared any more, another one is; all of it measured, rendered and committed."""
    return enter_copy(swapped_once, tmp_path, monkeypatch)


def test_prune_shows_and_removes_nothing_until_it_is_asked(swapped: Path, reconcile: Reconcile) -> None:
    before = records(swapped), objects(swapped), logs(swapped)
    out = reconcile.succeed("prune", *ALL)
    assert "Run:open/box/digits/Offline/performance" in out
    assert "SingleStream" not in out
    assert "Nothing is removed without --yes." in out
    assert (records(swapped), objects(swapped), logs(swapped)) == before


def test_prune_removes_no_logs_and_git_brings_records_and_cells_back(swapped: Path, reconcile: Reconcile) -> None:
    before, raw = records(swapped), (objects(swapped), logs(swapped))
    out = reconcile.succeed("prune", *ALL, "--yes", "--commit")
    gone = before - records(swapped)
    assert {Path(path).parent.name for path in gone} == {"Run", "Score"}
    assert (objects(swapped), logs(swapped)) == raw
    assert not list(swapped.glob(".reconcile/tree/**/Offline"))
    assert list(swapped.glob(".reconcile/tree/**/SingleStream"))
    assert git(swapped, "log", "-1", "--format=%s") == "Prune 3 records that no spec declares"
    assert set(git(swapped, "show", "--name-only", "--format=").splitlines()) == gone
    assert "Nothing to prune" in reconcile("prune", *ALL)[1]
    back = out.partition("To restore: ")[2].split()
    git(swapped, *back[1:])
    assert records(swapped) == before
    edit(swapped, SECOND, ROW + SECOND)
    assert reconcile("plan", "--only", "Run")[0] == 0  # what was restored need not be measured again


def test_prune_refuses_more_than_its_share_and_names_the_count(swapped: Path, reconcile: Reconcile) -> None:
    before = records(swapped)
    err = reconcile.refuse("prune", "--measured", "--yes")
    counts = f"3 of {len(before)} records and 1 of 2 rendered cells"
    assert f"it would remove {counts}, more than the share of 0.25 that is allowed" in err
    assert "--max-share 0." in err
    assert records(swapped) == before


def test_prune_refuses_an_empty_and_a_broken_spec(swapped: Path, reconcile: Reconcile) -> None:
    before = records(swapped)
    edit(swapped, SECOND, "", "Declare nothing")
    reconcile.refuse("prune", *ALL, "--yes")
    edit(swapped, "category: edge", "category: edgy")
    assert "edgy" in reconcile.refuse("prune", *ALL, "--yes")
    assert records(swapped) == before


def test_prune_refuses_what_git_could_not_bring_back(swapped: Path, reconcile: Reconcile) -> None:
    before = records(swapped)
    edit(swapped, "spec:\n", "# edited\nspec:\n")
    assert "specs/one.yaml: differs from the last commit" in reconcile.refuse("prune", *ALL, "--yes")
    git(swapped, "checkout", "--quiet", "specs")
    git(swapped, "rm", "--quiet", "--cached", "-r", "state/records/Run")
    git(swapped, "commit", "--quiet", "--message", "Forget the runs")
    code, _, err = reconcile("prune", *ALL, "--yes")
    assert (code, "so it could not be restored" in " ".join(err.split())) == (1, True)
    assert records(swapped) == before


def test_prune_leaves_what_is_frozen(swapped: Path, reconcile: Reconcile) -> None:
    edit(swapped, SECOND, ROW + SECOND)
    assert reconcile("freeze", "digits/Offline", "--reason", "kept for the appeal")[0] == 0
    edit(swapped, ROW, "")
    assert "Nothing to prune" in reconcile("prune", *ALL)[1]
    assert reconcile("freeze", "--all", "--reason", "the deadline is over")[0] == 0
    assert "frozen since" in reconcile.refuse("prune", *ALL, "--yes")


def test_records_of_a_spec_that_applies_only_when_named_stay(swapped: Path, reconcile: Reconcile) -> None:
    apart = (
        (swapped / "specs/one.yaml")
        .read_text()
        .replace(SECOND, ROW)
        .replace("spec:", "only_when_named: true\nspec:", 1)
    )
    (swapped / "specs/apart.yaml").write_text(apart)
    commit(swapped, "Keep the first in a spec of its own")
    before = records(swapped)
    assert "Nothing to prune" in reconcile("prune", *ALL, "--yes")[1]
    assert records(swapped) == before
