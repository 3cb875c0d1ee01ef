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
from reconciler.loadgen.log_files import log_hash
from reconciler.resource.rules import Severity
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.tree.reading import log_cache
from reconciler.tree.reading.log_cache import CachedAnswers, RecentFiles
from reconciler.tree.reading.places import LEGACY, V6, find_roots
from reconciler.tree.reading.survey import UNKNOWN, RecognisedRound, recognise_round, survey_tree
from reconciler.verify.engine import verify_tree
from tests.unit.check.conftest import clean_trees, logs, tree, tree_of
from tests.unit.tree.power_sessions import add_session

__all__ = ["clean_trees", "logs", "tree", "tree_of"]


FUTURE = (1234567890123456789, 2345678901234567890, 3456789012345678901)


# Rules that a round's checker or policy alone asks for: bars, seeds, scenarios, categories, tests, fields.
OF_A_ROUND = re.compile(
    r"run\.(seeds|duration|samples|early-stopping|metric|target-latency)|accuracy\.(bars|samples|size)"
    r"|benchmark\.(known|category|scenarios|forbidden)|compliance\.(missing|files|verdict)|system\.(fields|category)"
)


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


def test_of_an_unknown_round_nothing_is_asked_that_is_of_a_round(tree: Path) -> None:
    """Faults of a round's own rules are passed over, and said to be; what holds in any round is looked at."""
    known = check_tree(tree, round_name="v6.1")
    assert known.clean
    reseed(tree, FUTURE)
    release(tree, "7.0.2")
    text = next(tree.rglob("accuracy.txt"))
    text.write_text(re.sub(r"accuracy=[\d.]+", "accuracy=1.5", text.read_text()))
    checked, verified = check_tree(tree), verify_tree(tree)
    assert (checked.rounds, verified.rounds) == (("v7.0",), ("v7.0",))
    assert [f.severity for f in checked.findings if f.rule.id == "tree.round"] == [Severity.WARNING]
    assert [f.severity for f in verified.findings if f.rule.id == "tree.round"] == [Severity.NOTE]
    for report in (checked, verified):
        assert not [f.rule.id for f in report.findings if OF_A_ROUND.fullmatch(f.rule.id)]
        assert not [gap for gap in report.gaps if "benchmark" in gap.reason]
    assert not [f for f in checked.findings if f.severity is Severity.ERROR]
    detail = next(tree.rglob("performance/run_1/mlperf_log_detail.txt"))
    accuracy = next(tree.rglob("accuracy/mlperf_log_detail.txt"))
    detail.write_bytes(accuracy.read_bytes())
    assert "run.mode" in {f.rule.id for f in check_tree(tree).findings if f.severity is Severity.ERROR}
    # A round that is chosen is applied.
    assert "run.seeds" in {f.rule.id for f in check_tree(tree, round_name="v6.1").findings}


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


CHANGES: dict[str, Callable[[Path], object]] = {"missing": lambda path: None}
CELL = "results/sys1/resnet/"
EXAMINED = ("systems/", f"{CELL}SingleStream/", f"{CELL}Offline/performance/")
# Answers of a test may differ if the accuracy of both runs is equal, so an empty comparison alone refutes nothing.
MAY_BE_EMPTY = {
    f"{CELL}SingleStream/TEST01/{name}"
    for name in ("accuracy/accuracy.txt", "accuracy/mlperf_log_accuracy.json", "verify_accuracy.txt")
}


def find(root: Path) -> set[tuple[str, str]]:
    """Ids of broken rules, with the file of each finding and the one that contradicts it."""
    findings = (*check_tree(root, round_name="v6.1").findings, *verify_tree(root, round_name="v6.1").findings)
    complaints = [(finding.rule.id, finding.complaint) for finding in findings]
    return {(rule, place.file) for rule, said in complaints for place in (said.place, said.other) if place}


@pytest.mark.parametrize("change", CHANGES)
def test_a_tree_without_any_one_file_is_found_out(change: str, tree_of: Callable[[str], Path]) -> None:
    root = tree_of("closed")
    add_session(root)
    top, before, unnoticed, examined = root / "closed/Acme", find(root), set(), 0
    for name in sorted(path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file()):
        if name.startswith(EXAMINED):
            path = top / name
            data = path.read_bytes()
            path.unlink()
            CHANGES[change](path)
            found = find(root) - before
            assert "internal.rule" not in {rule for rule, _ in found}
            examined += 1
            if f"closed/Acme/{name}" not in {file for _, file in found}:
                unnoticed.add(name)
            path.write_bytes(data)
    assert examined > 20
    assert unnoticed == (MAY_BE_EMPTY if change == "empty" else set())


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
    assert set(CachedAnswers(published, log_hash(published)).list_hashes()) == wanted
    assert set(CachedAnswers(published, log_hash(published)).own_hashes()) == {
        hashlib.sha256(data).hexdigest() for data in (published, plain)
    }
