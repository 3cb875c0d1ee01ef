"""A repository that was moved or copied knows its rendered tree: it lies where it lay, seen from the repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reconciler.observed.rendered import Rendered, spell_entry
from reconciler.storage.files import read_checked, write_checked
from tests.passes.repository import HERE, SPEC, Repository, make_passed
from tests.shared import need

need("mlperf_loadgen")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    spec = (HERE / "spec.yaml").read_text(encoding="utf-8")
    two = spec + "        tiny2:\n          Offline: {target_qps: 100, min_query_count: 100}\n"
    benchmark = spec[spec.index("    tiny:\n") : spec.index("  divisions:")]
    two = two.replace("  divisions:", benchmark.replace("    tiny:", "    tiny2:", 1) + "  divisions:")
    return make_passed(tmp_path_factory, two)


def with_old_note(repository: Repository, root: Path) -> None:
    """As earlier passes wrote it: with the tree's whole path."""
    note = repository.paths.index / "tree.json"
    document = json.loads(read_checked(note) or b"{}")
    assert document["tree"] == ".reconcile/tree"
    document["tree"] = str(root / ".reconcile/tree")
    write_checked(note, json.dumps(document).encode())


@pytest.mark.parametrize("old", [False, True])
def test_a_change_before_the_next_pass_leaves_nothing_stale(made: Repository, tmp_path: Path, old: bool) -> None:
    copied = made.copy(tmp_path / "copy")
    if old:
        with_old_note(copied, made.root)
    shown = [path for path in copied.tree() if "/tiny2/" in path]
    assert shown
    text = (copied.root / SPEC).read_text(encoding="utf-8")
    copied.write(SPEC, text[: text.index("        tiny2:\n")])
    assert not copied.look().plan.in_sync
    assert copied.reconcile().after.plan.in_sync
    assert not [path for path in copied.tree() if "/tiny2/" in path]


def test_a_copy_is_in_sync_and_an_edited_file_is_seen(made: Repository, tmp_path: Path) -> None:
    copied = made.copy(tmp_path / "copy")
    assert copied.look().plan.in_sync
    path = next(path for path in copied.tree() if path.endswith("/user.conf"))
    before = copied.tree()
    (copied.paths.tree / path).write_text("edited", encoding="utf-8")
    assert [step.change.note for step in copied.look().plan.steps] == [f"{path} is edited"]
    copied.reconcile()
    assert copied.tree() == before


@pytest.mark.parametrize(
    ("noted", "tree", "same"),
    [
        ("submission", "submission", True),
        ("/old/submission", "submission", True),
        ("/old/other", "submission", False),
        ("/old/submission", "deep/submission", False),
        ("other", "submission", False),
        ("submission", "/elsewhere/submission", False),
        ("/elsewhere/submission", "/elsewhere/submission", True),
        ("/old/submission", "/elsewhere/submission", False),
        ("", "submission", False),
    ],
)
def test_whose_note_it_is(tmp_path: Path, noted: str, tree: str, same: bool) -> None:
    paths = Repository(tmp_path).paths
    assert spell_entry(paths, tmp_path / tree) == tree
    assert Rendered(noted).is_of(paths, tmp_path / tree) is same
