"""What may stand in the root of a tree and in a submitter's folder: small trees, whose runs nobody looks at here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.check.demands import Complaints
from reconciler.check.engine import check_tree
from reconciler.check.structure import (
    ROOT_RULES,
    SUBMITTER_RULES,
    check_calibration,
    check_code,
    check_empty_folders,
    check_links,
    check_names,
    check_results,
    check_sizes,
    check_source,
    check_unused_systems,
)
from reconciler.storage.foreign import DEEPEST
from reconciler.tree.findings import Severity, TreeFinding
from reconciler.tree.reading.places import LEGACY, V6, SubmitterPlace
from reconciler.tree.reading.system import SubmitterFiles
from tests.unit.tree.check.made import write
from tests.unit.tree.small_cells import say

ACME = "closed/Acme"
RESULTS = f"{ACME}/results/sys1/resnet/Offline"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for file in (
        f"{RESULTS}/README.md",
        f"{ACME}/src/resnet/run.py",
        f"{ACME}/src/resnet/README.md",
        f"{ACME}/documentation/calibration.md",
        f"{ACME}/systems/sys1.json",
    ):
        write(root / file, "{}\n")
    return root


def find(root: Path, rule: str, round_name: str = "v6.1") -> list[TreeFinding]:
    return [f for f in check_tree(root, round_name=round_name).findings if f.rule.id == rule]


def told(root: Path, rule: str) -> list[tuple[str, str]]:
    return [(f.complaint.place.file, f.complaint.found) for f in find(root, rule)]


@pytest.mark.parametrize(
    ("name", "is_folder", "found"),
    [
        *((name, True, "") for name in ("open", "network", ".git", ".github", "assets")),
        *((name, True, f"folder {name}") for name in ("pending", "assets.md", ".gitignore", "Closed")),
        *((name, False, "") for name in ("a.md", "a.pdf", ".gitignore", ".gitattributes", ".gitkeep")),
        *((name, False, f"file {name}") for name in ("a.txt", "md", ".github", "assets", "gitkeep")),
    ],
)
def test_the_root_holds_divisions_documents_and_what_git_and_its_hosts_put_there(
    tree: Path, name: str, is_folder: bool, found: str
) -> None:
    write(tree / name / "x.md" if is_folder else tree / name, "x")
    assert told(tree, "tree.root") == ([(name, found)] if found else [])


def test_a_division_holds_submitters_alone(tree: Path) -> None:
    write(tree / "closed/a.md", "x")
    write(tree / "open/b.md", "x")
    assert told(tree, "tree.division") == [
        ("closed/a.md", "file a.md beside the submitters"),
        ("open/b.md", "file b.md beside the submitters"),
    ]


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("file", "text", "accepted"),
    [
        ("run.py", "pass", True),
        ("below/run.sh", "exit", True),
        ("README.md", "how it ran", False),
        ("README", "how it ran", False),
        ("docs/how.RST", "how it ran", False),
        ("LICENCE.txt", "yours", False),
        ("notice.pdf", "ours", False),
        ("readmes", "code in a file of that name", True),
        ("README.md", "https://code.example/acme", False),
        ("README.md", f"the code is https://code.example/acme, commit {COMMIT}", True),
        ("README.md", "https://code.example/acme at 0123abc", True),
        ("README.md", "https://code.example/acme at 0123ab", False),
        ("README.md", "https://code.example/acme/releases/tag", True),
        ("README.md", "https://code.example/acme/tree/main", True),
        ("README.md", "git+https://code.example/acme@stable", True),
        ("README.md", "http://code.example/acme, release v1.2", True),
        ("README.md", f"commit {COMMIT}", False),
        ("README.md", f"https://code.example/acme\ncommit {COMMIT}", False),
    ],
)
def test_code_is_published_or_named_with_its_commit_or_release(
    tree: Path, file: str, text: str, accepted: bool
) -> None:
    folder = tree / ACME / "src/resnet"
    for path in folder.iterdir():
        path.unlink()
    write(folder / file, text)
    found = f"{ACME}/src/resnet", "no code, documents only"
    assert told(tree, "submitter.code") == ([] if accepted else [found])


def test_one_document_that_names_the_code_is_enough(tree: Path) -> None:
    folder = tree / ACME / "src/resnet"
    (folder / "run.py").unlink()
    write(folder / "docs/a.md", "nothing")
    assert told(tree, "submitter.code")
    write(folder / "docs/b.md", f"https://code.example/acme {COMMIT}")
    assert not told(tree, "submitter.code")


def test_documents_of_what_was_not_entered_are_no_missing_code(tree: Path) -> None:
    write(tree / ACME / "src/bert/README.md", "how it may run")
    assert not find(tree, "submitter.code")


def test_the_folder_of_the_code_may_have_its_older_name(tree: Path) -> None:
    (tree / ACME / "src").rename(tree / ACME / "code")
    assert not find(tree, "submitter.source")
    (tree / ACME / "code").rename(tree / ACME / "sources")
    assert told(tree, "submitter.source") == [(f"{ACME}/src", "missing")]
    (tree / ACME / "measurements").mkdir()  # as older trees have them
    assert told(tree, "submitter.source") == [(f"{ACME}/code", "missing")]
    (tree / ACME / "sources").rename(tree / ACME / "src")
    assert not find(tree, "submitter.source")


def test_in_older_trees_each_benchmark_with_results_has_code_or_names_whose_it_shares(tree: Path) -> None:
    write(tree / ACME / "results/sys1/bert/Offline/README.md", "x")
    assert not find(tree, "submitter.source")  # only its checkers ask for it
    (tree / ACME / "src").rename(tree / ACME / "code")
    assert told(tree, "submitter.source") == [(f"{ACME}/code/bert", "missing")]
    code = tree / ACME / "code/bert"
    write(code, "vgg\n")
    assert told(tree, "submitter.source") == [(f"{ACME}/code/bert", "missing")]
    write(code, "resnet\n")
    assert not find(tree, "submitter.source")
    code.unlink()
    code.symlink_to("vgg")
    assert told(tree, "submitter.source") == [(f"{ACME}/code/bert", "missing")]
    code.unlink()
    code.symlink_to("resnet")
    assert not find(tree, "submitter.source")


def test_of_a_submitter_without_results_these_are_missing_alone(tree: Path) -> None:
    write(tree / "closed/Late/notes.md", "x")
    found = [f for f in check_tree(tree, round_name="v6.1").findings if f.submitter == "Late"]
    said = [(f.rule.id, f.complaint.place.file, f.complaint.found) for f in found]
    assert said == [("submitter.results", "closed/Late/results", "missing")]


@pytest.mark.parametrize(
    ("file", "accepted"),
    [
        ("calibration.md", True),
        ("documentation/calibration.md", True),
        ("Documentation/calibration.md", True),
        ("documentation/quantization.md", False),
        ("docs/calibration.md", False),
    ],
)
def test_calibration_is_documented_in_one_of_its_places(tree: Path, file: str, accepted: bool) -> None:
    (tree / ACME / "documentation/calibration.md").unlink()
    write(tree / ACME / file, "by hand")
    missing = f"{ACME}/documentation/calibration.md", "missing"
    assert told(tree, "submitter.calibration") == ([] if accepted else [missing])


@pytest.mark.parametrize(("text", "empty"), [("", True), (" \n", True), ("-", False)])
def test_calibration_that_says_nothing_is_none(tree: Path, text: str, empty: bool) -> None:
    write(tree / ACME / "documentation/calibration.md", text)
    said = f"{ACME}/documentation/calibration.md", "empty"
    assert told(tree, "submitter.calibration") == ([said] if empty else [])
    write(tree / ACME / "calibration.md", "by hand")
    assert told(tree, "submitter.calibration") == []


def test_the_open_division_documents_no_calibration(tree: Path) -> None:
    (tree / ACME / "documentation/calibration.md").unlink()
    (tree / "closed").rename(tree / "open")
    assert not find(tree, "submitter.calibration")


def test_each_described_system_has_results(tree: Path) -> None:
    write(tree / ACME / "systems/sys2.json", "{}")
    assert told(tree, "submitter.systems") == [(f"{ACME}/systems/sys2.json", "no results/sys2")]


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("results/submission_checker_log.txt", ""),
        ("results/other_log.txt", "file other_log.txt"),
        ("results/sys1/privateid.json", ""),
        ("results/sys1/submission_checker_log.txt", "file submission_checker_log.txt"),
        ("results/privateid.json", "file privateid.json"),
    ],
)
def test_files_among_the_results_are_those_that_checkers_leave(tree: Path, file: str, found: str) -> None:
    write(tree / ACME / file, "x")
    assert told(tree, "submitter.loose") == ([(f"{ACME}/{file}", found)] if found else [])


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("__pycache__/x.pyc", "a folder of compiled Python"),
        (".hidden", "hidden name .hidden"),
        (".gitkeep", ""),
        ("a b.py", "a space in a b.py"),
        ("a_b.py", ""),
        (".git/a b/c", "hidden name .git"),  # and nothing of what it holds
    ],
)
def test_names_are_those_that_every_file_system_shows(tree: Path, name: str, found: str) -> None:
    write(tree / ACME / "src/resnet" / name, "x")
    place = f"{ACME}/src/resnet/{name.partition('/')[0]}"
    assert told(tree, "submitter.names") == ([(place, found)] if found else [])


@pytest.mark.parametrize(("size", "found"), [(50 << 20, []), ((50 << 20) + 1, ["52,428,801 bytes"])])
def test_a_file_has_50_mebibytes_at_most(tree: Path, size: int, found: list[str]) -> None:
    path = tree / ACME / "src/resnet/weights.bin"
    with path.open("wb") as stream:
        stream.truncate(size)
    path.with_name("other").symlink_to(path.name)
    assert told(tree, "submitter.sizes") == [(f"{ACME}/src/resnet/weights.bin", text) for text in found]


def test_a_link_that_leads_nowhere_and_a_folder_that_holds_nothing_are_named(tree: Path) -> None:
    folder = tree / ACME / "src/resnet"
    (folder / "good").symlink_to("run.py")
    (folder / "broken").symlink_to("nowhere")
    (folder / "empty").mkdir()
    (folder / "linked").symlink_to("empty")
    assert told(tree, "submitter.links") == [(f"{ACME}/src/resnet/broken", "a broken link")]
    assert told(tree, "submitter.empty") == [(f"{ACME}/src/resnet/empty", "an empty folder")]


def test_entries_are_named_in_their_order_to_the_deepest_that_is_examined(tree: Path) -> None:
    top = tree / ACME / "src"
    for name in ("c d", "a b", "b c"):
        write(top / name, "x")
    deep = top.joinpath(*"d" * (DEEPEST - 1))
    deep.mkdir(parents=True)
    shown = deep.relative_to(tree).as_posix()
    write(deep / "x y", "not examined")
    assert [file for file, _ in told(tree, "submitter.names")] == [f"{ACME}/src/{n}" for n in ("a b", "b c", "c d")]
    nested = f"folders nested more than {DEEPEST} deep, which were not examined"
    assert told(tree, "submitter.depth") == [(shown, nested)]
    (deep / "x y").unlink()
    deep.rmdir()
    write(deep.parent / "x y", "examined")
    assert told(tree, "submitter.depth") == []
    assert told(tree, "submitter.names")[-1][0] == f"{shown.rpartition('/')[0]}/x y"


SOFTENED: dict[str, Callable[[Path], object]] = {
    "submitter.code": lambda top: (top / "src/resnet/run.py").unlink(),
    "submitter.calibration": lambda top: (top / "documentation/calibration.md").unlink(),
    "submitter.systems": lambda top: write(top / "systems/sys2.json", json.dumps({})),
    "submitter.names": lambda top: write(top / "src/a b.md", "x"),
    "submitter.links": lambda top: (top / "src/broken").symlink_to("nowhere"),
    "submitter.empty": lambda top: (top / "src/empty").mkdir(),
}


@pytest.mark.parametrize("rule", SOFTENED)
def test_what_its_round_asks_for_is_an_error(rule: str, tree: Path) -> None:
    assert not find(tree, rule)
    SOFTENED[rule](tree / ACME)
    assert [item.severity for item in find(tree, rule)] == [Severity.ERROR]


def judge(root: Path, check: Callable[[SubmitterFiles], Complaints], *exempt: str, layout: str = V6) -> list[str]:
    """What is said where these demands do not bind."""
    place = SubmitterPlace("closed", "Acme", root / ACME, ACME, layout)
    asked: Any = SimpleNamespace(binds=lambda _, demand: demand not in exempt, is_known=True)
    return say(check(SubmitterFiles(place, asked)))


PUBLISH = "to mend: publish the code that ran, or name its public repository with the commit or release"
MILDER: dict[str, tuple[Callable[[SubmitterFiles], Complaints], str]] = {
    "submitter.code": (
        check_code,
        f"source_code {ACME}/src/resnet: no code, documents only; wanted the code that made the results; {PUBLISH}",
    ),
    "submitter.calibration": (
        check_calibration,
        f"calibration {ACME}/documentation/calibration.md: missing; wanted how the models were calibrated or quantized",
    ),
    "submitter.systems": (
        check_unused_systems,
        f"used_systems {ACME}/systems/sys2.json: no results/sys2; wanted results for every described system",
    ),
    "submitter.names": (
        check_names,
        f"portable_files {ACME}/src/a b.md: a space in a b.md; wanted names without spaces; to mend: rename it",
    ),
    "submitter.links": (
        check_links,
        f"portable_files {ACME}/src/broken: a broken link; wanted files; to mend: put the file there",
    ),
    "submitter.empty": (
        check_empty_folders,
        f"portable_files {ACME}/src/empty: an empty folder; wanted folders that hold something; to mend: remove it",
    ),
}


@pytest.mark.parametrize("rule", MILDER)
def test_what_its_round_does_not_ask_for_is_a_warning(rule: str, tree: Path) -> None:
    check, text = MILDER[rule]
    demand, _, said = text.partition(" ")
    SOFTENED[rule](tree / ACME)
    assert judge(tree, check) == judge(tree, check, "other") == [said]
    assert judge(tree, check, demand) == [f"warning {said}"]


def test_all_that_names_and_sizes_say(tree: Path) -> None:
    folder = tree / ACME / "src"
    for name in (".x", "__pycache__/x", "a b"):
        write(folder / name, "x")
    with (folder / "weights").open("wb") as stream:
        stream.truncate((50 << 20) + 1)
    for exempt, mild in (((), ""), (("portable_files",), "warning ")):
        assert judge(tree, check_names, *exempt) == [
            f"{mild}{ACME}/src/.x: hidden name .x; wanted names without a dot in front; to mend: remove it",
            f"{mild}{ACME}/src/__pycache__: a folder of compiled Python; wanted none; to mend: remove it",
            f"{mild}{ACME}/src/a b: a space in a b; wanted names without spaces; to mend: rename it",
        ]
        large = f"{mild}{ACME}/src/weights: 52,428,801 bytes; wanted at most 52,428,800 bytes"
        assert judge(tree, check_sizes, *exempt) == [large]


def test_documents_that_cannot_be_read_name_no_code(tree: Path, tmp_path: Path) -> None:
    """Nor does one that leads out of the tree; older trees have theirs in a folder of another name."""
    folder = tree / ACME / "src/resnet"
    (folder / "run.py").unlink()
    (folder / "README.md").unlink()
    write(tmp_path / "outside.md", f"https://code.example/acme {COMMIT}")
    (folder / "README.md").symlink_to(tmp_path / "outside.md")
    assert len(judge(tree, check_code)) == 1
    (tree / ACME / "src").rename(tree / ACME / "code")
    (found,) = judge(tree, check_code, layout=LEGACY)
    assert found.startswith(f"{ACME}/code/resnet: no code")


def test_benchmarks_without_code_are_named_in_their_order(tree: Path) -> None:
    names = [f"bench{number}" for number in range(6)]
    for name in names:
        write(tree / ACME / f"results/sys1/{name}/Offline/x", "x")
    wanted = "missing; wanted the code of this benchmark, which has results"
    assert judge(tree, check_source, layout=LEGACY) == [f"{ACME}/src/{name}: {wanted}" for name in names]
    assert judge(tree, check_source) == []
    write(tree / ACME / "code/bench0/run.py", "x")
    both = judge(tree, check_source, layout=LEGACY)
    assert both == [f"{ACME}/code/{name}: {wanted}" for name in names[1:]]
    (tree / ACME / "code").rename(tree / ACME / "codes")
    (tree / ACME / "src").rename(tree / ACME / "sources")
    top = "missing; wanted a folder with the code of each benchmark"
    assert judge(tree, check_source, layout=LEGACY) == [f"{ACME}/code: {top}"]
    assert judge(tree, check_source) == [f"{ACME}/src: {top}"]
    (tree / ACME / "results").rename(tree / ACME / "old")
    assert judge(tree, check_source) == []
    assert judge(tree, check_results) == [f"{ACME}/results: missing; wanted a folder with the results"]


def test_rules_of_a_submitter_by_their_ids() -> None:
    assert [rule.id for rule, _ in ROOT_RULES] == ["tree.root", "tree.division"]
    assert [(rule.id, check.__name__) for rule, check in SUBMITTER_RULES] == [
        ("submitter.results", "check_results"),
        ("submitter.source", "check_source"),
        ("submitter.code", "check_code"),
        ("submitter.calibration", "check_calibration"),
        ("submitter.systems", "check_unused_systems"),
        ("submitter.loose", "check_loose_files"),
        ("submitter.mapping", "check_mapping"),
        ("submitter.names", "check_names"),
        ("submitter.links", "check_links"),
        ("submitter.depth", "check_depth"),
        ("submitter.sizes", "check_sizes"),
        ("submitter.empty", "check_empty_folders"),
    ]
