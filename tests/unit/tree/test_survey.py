"""The round of a tree that anyone made: recognised by what is in it, or unknown."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.check.engine import check_tree
from reconciler.errors import ReconcilerError
from reconciler.history.compare import read_tree_sides
from reconciler.importing.read_tree import read_tree
from reconciler.loadgen.keys import SEEDS
from reconciler.loadgen.log_files import hash_log
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.tree.reading import log_cache
from reconciler.tree.reading.log_cache import CachedAnswers, RecentFiles
from reconciler.tree.reading.places import LEGACY, V6, find_roots
from reconciler.tree.reading.survey import UNKNOWN, RecognisedRound, recognise_round, survey_tree
from tests.unit.check.conftest import clean_trees, logs, tree, tree_of

__all__ = ["clean_trees", "logs", "tree", "tree_of"]


FUTURE = (1234567890123456789, 2345678901234567890, 3456789012345678901)


def change(root: Path, edit: Callable[[str], str]) -> None:
    """Every detail log of a tree."""
    for path in root.rglob("mlperf_log_detail.txt"):
        path.write_text(edit(path.read_text()))


def reseed(root: Path, seeds: tuple[int, ...]) -> None:
    own = load_ruleset("v6.1").seeds()

    def edit(text: str) -> str:
        for name, seed in zip(SEEDS, seeds, strict=True):
            text = text.replace(f'"value": {own[name]}', f'"value": {seed}')
        return text

    change(root, edit)


def release(root: Path, version: str) -> None:
    change(root, lambda text: re.sub(r'("loadgen_version", "value": ")[^" ]*', rf"\g<1>{version}", text))


def recognise(root: Path) -> RecognisedRound:
    (found,) = find_roots(root)
    return recognise_round(found)


@pytest.mark.parametrize("name", list_rounds())
def test_seeds_decide_whatever_else_is_said(name: str, tree: Path) -> None:
    reseed(tree, tuple(load_ruleset(name).seeds().values()))
    release(tree, "7.0.1")
    (tree / "README.md").write_text("# MLPerf Inference v9.3 results\n")
    assert recognise(tree).name == name
    (survey,) = survey_tree(tree)
    assert (survey.ruleset.round, survey.ruleset.is_known) == (name, True)


def test_one_seed_of_its_own_is_still_of_the_round(tree: Path) -> None:
    own = load_ruleset("v6.1").seeds()
    reseed(tree, (FUTURE[0], *list(own.values())[1:]))
    assert recognise(tree).name == "v6.1"
    assert any(finding.rule.id == "run.seeds" for finding in check_tree(tree).findings)


@pytest.mark.parametrize(
    ("title", "version", "named"),
    [
        ("# MLPerf™ Inference v7.0 Results\n", "6.0.1", "v7.0"),
        ("", "7.0.2", "v7.0"),
        ("", "", UNKNOWN),
        ("# MLPerf Inference v5.1 results\n", "5.1.0", UNKNOWN),  # its own seeds deny what it calls itself
    ],
)
def test_seeds_of_no_round_are_of_an_unknown_one(title: str, version: str, named: str, tree: Path) -> None:
    reseed(tree, FUTURE)
    release(tree, version)
    if title:
        (tree / "README.md").write_text(title)
    found = recognise(tree)
    assert (found.name, found.is_known) == (named, False)
    assert str(FUTURE[0]) in found.evidence


@pytest.mark.parametrize(
    ("title", "folder", "version", "named"),
    [
        ("MLPerf Inference v4.1 results\n", "inference_results_v5.0", "5.1.0", "v4.1"),
        ("", "inference_results_v5.0", "5.1.0", "v5.0"),
        ("", "sent", "5.1.0", "v5.1"),
        ("", "sent", "8.2.0", "v8.2"),
        ("", "sent", ".5a1", UNKNOWN),
    ],
)
def test_without_seeds_a_tree_is_what_it_says(title: str, folder: str, version: str, named: str, tree: Path) -> None:
    """LoadGen's seeds are 0 where it read no configuration."""
    reseed(tree, (0, 0, 0))
    release(tree, version)
    moved = tree.rename(tree.with_name(folder))
    if title:
        (moved / "README.md").write_text(title)
    assert recognise(moved).name == named


def test_nothing_is_read_of_an_unknown_round_under_another_name(tree: Path) -> None:
    reseed(tree, FUTURE)
    release(tree, "7.0.2")
    for read in (read_tree, read_tree_sides):
        with pytest.raises(ReconcilerError) as caught:
            read(tree)
        assert ("v7.0" in str(caught.value), "--round" in caught.value.fix) == (True, True)
    assert read_tree(tree, round_name="v6.1").ruleset.round == "v6.1"


def test_a_part_of_a_tree_is_of_the_round_of_the_whole(tree: Path) -> None:
    part = next(path for path in sorted(tree.glob("closed/*/results/*/*/*")) if path.is_dir())
    for path in part.rglob("mlperf_log_detail.txt"):
        path.unlink()
    assert recognise(part).name == "v6.1"


@pytest.mark.parametrize(
    ("folders", "layout"),
    [
        (("measurements", "compliance", "code"), LEGACY),
        (("code",), LEGACY),
        (("measurements", "src"), LEGACY),
        (("src",), V6),
        ((), V6),
        (("code", "src"), V6),  # tools that write either layout leave the older folder behind
    ],
)
def test_layout_by_the_folders_of_a_submitter(tmp_path: Path, folders: tuple[str, ...], layout: str) -> None:
    for name in ("results", *folders):
        (tmp_path / "closed/Acme" / name).mkdir(parents=True)
    (root,) = find_roots(tmp_path)
    assert [place.layout for place in root.submitters] == [layout]


def test_code_under_both_names_through_a_link_is_the_newer_layout(tmp_path: Path) -> None:
    for name in ("results", "code"):
        (tmp_path / "closed/Acme" / name).mkdir(parents=True)
    (tmp_path / "closed/Acme/src").symlink_to("code")
    (root,) = find_roots(tmp_path)
    assert root.submitters[0].layout == V6


def test_an_identical_file_is_read_once_while_it_is_recent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_cache, "_CACHE_LIMIT", 30)
    files: RecentFiles[object] = RecentFiles()
    first = files.find("a", 10, object)
    assert files.find("a", 10, object) is first
    assert files.find("b", 10, object) is not first
    files.find("c", 10, object)
    assert (files.find("a", 10, object), files.cached_bytes) == (first, 30)
    files.find("d", 10, object)
    assert (files.find("a", 10, object) is first, files.cached_bytes) == (False, 30)


def test_a_file_that_cannot_be_read_is_tried_again() -> None:
    files: RecentFiles[int] = RecentFiles()
    with pytest.raises(ZeroDivisionError):
        files.find("a", 10, lambda: 1 // 0)
    assert (files.find("a", 10, lambda: 3), files.cached_bytes) == (3, 10)


@pytest.mark.parametrize("published", [b"[\na\n]\n", b"[\r\na\r\n]\r\n", b"[\r\na\n]\n", b"[\ra\n]"])
def test_a_hash_may_be_of_other_line_ends(published: bytes) -> None:
    plain = published.replace(b"\r\n", b"\n")
    wanted = {hashlib.sha256(data).hexdigest() for data in (published, plain, plain.replace(b"\n", b"\r\n"))}
    assert set(CachedAnswers(published, hash_log(published)).list_hashes()) == wanted
    assert set(CachedAnswers(published, hash_log(published)).list_own_hashes()) == {
        hashlib.sha256(data).hexdigest() for data in (published, plain)
    }
