"""What may be in the root of a tree and in a submitter's folder; the walk over it holds one cell at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.check.engine import check_tree
from reconciler.tree.findings import TreeFinding
from tests.unit.check.made import write

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


def find_wrong(root: Path, rule: str) -> list[tuple[str, str]]:
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
    assert find_wrong(tree, "tree.root") == ([(name, found)] if found else [])


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
def test_code_is_published_or_named_with_its_release(tree: Path, file: str, text: str, accepted: bool) -> None:
    folder = tree / ACME / "src/resnet"
    for path in folder.iterdir():
        path.unlink()
    write(folder / file, text)
    found = f"{ACME}/src/resnet", "no code, documents only"
    assert find_wrong(tree, "submitter.code") == ([] if accepted else [found])


def test_documents_of_what_was_not_entered_are_no_missing_code(tree: Path) -> None:
    write(tree / ACME / "src/bert/README.md", "how it may run")
    assert not find(tree, "submitter.code")


def test_the_folder_of_the_code_may_have_its_older_name(tree: Path) -> None:
    (tree / ACME / "src").rename(tree / ACME / "code")
    assert not find(tree, "submitter.source")
    (tree / ACME / "code").rename(tree / ACME / "sources")
    assert find_wrong(tree, "submitter.source") == [(f"{ACME}/src", "missing")]
    (tree / ACME / "measurements").mkdir()  # as older trees have them
    assert find_wrong(tree, "submitter.source") == [(f"{ACME}/code", "missing")]
    (tree / ACME / "sources").rename(tree / ACME / "src")
    assert not find(tree, "submitter.source")


def test_in_older_trees_each_benchmark_with_results_has_code_or_names_whose_it_shares(tree: Path) -> None:
    write(tree / ACME / "results/sys1/bert/Offline/README.md", "x")
    assert not find(tree, "submitter.source")  # only its checkers ask for it
    (tree / ACME / "src").rename(tree / ACME / "code")
    assert find_wrong(tree, "submitter.source") == [(f"{ACME}/code/bert", "missing")]
    code = tree / ACME / "code/bert"
    write(code, "vgg\n")
    assert find_wrong(tree, "submitter.source") == [(f"{ACME}/code/bert", "missing")]
    write(code, "resnet\n")
    assert not find(tree, "submitter.source")
    code.unlink()
    code.symlink_to("vgg")
    assert find_wrong(tree, "submitter.source") == [(f"{ACME}/code/bert", "missing")]
    code.unlink()
    code.symlink_to("resnet")
    assert not find(tree, "submitter.source")


def test_of_a_submitter_without_results_these_are_missing_alone(tree: Path) -> None:
    write(tree / "closed/Late/notes.md", "x")
    found = [f for f in check_tree(tree, round_name="v6.1").findings if f.submitter == "Late"]
    said = [(f.rule.id, f.complaint.place.file, f.complaint.found) for f in found]
    assert said == [("submitter.results", "closed/Late/results", "missing")]


@pytest.mark.parametrize(("text", "empty"), [("", True), (" \n", True), ("-", False)])
def test_calibration_that_says_nothing_is_none(tree: Path, text: str, empty: bool) -> None:
    write(tree / ACME / "documentation/calibration.md", text)
    said = f"{ACME}/documentation/calibration.md", "empty"
    assert find_wrong(tree, "submitter.calibration") == ([said] if empty else [])
    write(tree / ACME / "calibration.md", "by hand")
    assert find_wrong(tree, "submitter.calibration") == []


def test_the_open_division_documents_no_calibration(tree: Path) -> None:
    (tree / ACME / "documentation/calibration.md").unlink()
    (tree / "closed").rename(tree / "open")
    assert not find(tree, "submitter.calibration")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("__pycache__/x.pyc", "a folder with compiled Python"),
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
    assert find_wrong(tree, "submitter.names") == ([(place, found)] if found else [])
