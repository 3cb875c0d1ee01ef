"""Whatever happens to the files of a repository, `plan` reports it and a pass repairs what it can; no traceback."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from reconciler.publish.tree_files import remove_rendered
from reconciler.storage.files import remove
from tests.passes.repository import Repository, make_passed
from tests.shared import need

need("mlperf_loadgen")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return make_passed(tmp_path_factory)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes() or b"x")
    data[at % len(data)] ^= 1 + at % 255
    put(path, bytes(data))


def put(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def folder(path: Path, _: int) -> None:
    path.unlink()
    (path / "inner").mkdir(parents=True)


def link(path: Path, _: int) -> None:
    path.unlink()
    path.symlink_to("nowhere")


DAMAGES: dict[str, Callable[[Path, int], None]] = {
    "flip": flip,
    "cut": lambda path, at: put(path, path.read_bytes()[: at % (1 + path.stat().st_size)]),
    "empty": lambda path, _: put(path, b""),
    "noise": lambda path, at: put(path, bytes((at * n) % 256 for n in range(99))),
    "other json": lambda path, at: put(path, [b"null", b"[]", b"{}", b"7", b'"x"', b"[[1]]"][at % 6]),
    "gone": lambda path, _: path.unlink(),
    "folder": folder,
    "dangling link": link,
}
strikes = st.lists(
    st.tuples(st.sampled_from(list(DAMAGES)), st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=3
)


def struck(made: Repository, root: Path, found: list[tuple[str, int, int]]) -> Repository:
    if root.exists():
        shutil.rmtree(root)
    repository = made.copy(root)
    repository.reconcile()
    for name, which, at in found:
        kept = (repository.paths.work, repository.paths.records, repository.paths.logs)
        files = sorted(p for top in kept for p in top.rglob("*") if p.is_file() and p.parent.name != "locks")
        DAMAGES[name](files[which % len(files)], at)
    return repository


@settings(
    max_examples=40,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(found=strikes, deep=st.booleans())
def test_looks_survive_damage(made: Repository, tmp_path: Path, found: list[tuple[str, int, int]], deep: bool) -> None:
    repository = struck(made, tmp_path / "repository", found)
    first = repository.look(deep=deep)
    again = repository.look(deep=deep)
    assert (first.plan.steps, first.plan.findings) == (again.plan.steps, again.plan.findings)


@settings(
    max_examples=15,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(found=strikes)
def test_passes_survive_damage_in_sync(made: Repository, tmp_path: Path, found: list[tuple[str, int, int]]) -> None:
    repository = struck(made, tmp_path / "repository", found)
    report = repository.reconcile(deep=True)
    left = [step for step in report.after.plan.steps if step.change.how != "restore"]
    assert left == []
    assert report.after.plan.findings == ()
    assert repository.reconcile(deep=True).after.plan == report.after.plan


def test_a_pass_replaces_links_in_the_tree_and_writes_nothing_through_them(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "repository")
    repository.reconcile()
    tree, whole = repository.paths.tree, repository.tree()
    levels = sorted({tree / path for path in whole} | {tree / above for path in whole for above in _folders(path)})
    for place in levels:
        outside = tmp_path / "outside"
        place.rename(outside)
        place.symlink_to(outside)
        name = place.relative_to(tree).as_posix()
        notes = [step.change.note for step in repository.look().plan.steps]
        assert notes
        assert all(f"{name} is a link" in note for note in notes)
        for file in (path for path in (outside, *outside.rglob("*")) if path.is_file()):
            file.write_bytes(b"theirs")
        assert repository.reconcile().after.plan.steps == (), name
        assert repository.tree() == whole
        assert not [path for path in (place, *tree.rglob("*")) if path.is_symlink()]
        theirs = [path for path in (outside, *outside.rglob("*")) if path.is_file()]
        assert {path.read_bytes() for path in theirs} == {b"theirs"}
        remove(outside)


def _folders(path: str) -> list[str]:
    return [str(folder) for folder in PurePosixPath(path).parents][:-1]


def test_a_link_with_the_size_and_time_of_its_file_is_drift(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "repository")
    repository.reconcile()
    place = min(repository.paths.tree.rglob("user.conf"))
    status, outside = place.stat(), tmp_path / "outside"
    shutil.copy2(place, outside)
    place.unlink()
    text = str(outside)
    place.symlink_to("/" * (status.st_size - len(text)) + text)
    os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)
    assert [step.change.reason for step in repository.look().plan.steps] == ["ArtifactCorrupt"]


def test_a_file_in_place_of_a_folder_of_the_tree_is_replaced(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "repository")
    repository.reconcile()
    whole, place = repository.tree(), repository.paths.tree / "open/ACME/results"
    remove(place)
    place.write_text("a note", encoding="utf-8")
    assert repository.reconcile().after.plan.steps == ()
    assert repository.tree() == whole


def test_files_behind_a_link_are_not_removed_with_their_cell(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "repository")
    repository.reconcile()
    whole, place, outside = repository.tree(), repository.paths.tree / "open", tmp_path / "outside"
    place.rename(outside)
    place.symlink_to(outside)
    before = sorted(outside.rglob("*"))
    remove_rendered(repository.paths.tree, whole)
    assert sorted(outside.rglob("*")) == before
    assert list(repository.paths.tree.iterdir()) == []


def test_the_tree_itself_may_be_a_link(made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "repository")
    repository.reconcile()
    whole, outside = repository.tree(), tmp_path / "outside"
    repository.paths.tree.rename(outside)
    repository.paths.tree.symlink_to(outside)
    (outside / "open/ACME/systems/box.json").unlink()
    assert repository.reconcile().after.plan.steps == ()
    assert repository.paths.tree.is_symlink()
    assert repository.tree() == whole
