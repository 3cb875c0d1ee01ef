"""What a commit shows of the files that a spec publishes, as the work tree shows it to whoever publishes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.errors import ReconcilerError
from reconciler.history.commit_sources import CommitSources
from reconciler.tree.source import DiskSources
from tests.unit.cli.conftest import git

FILES = {
    "code/run.py": b"1",
    "code/sub/part.py": b"2",
    "code/.hidden": b"3",
    "code/__pycache__/run.pyc": b"4",
    "more/run.py": b"5",
    "one.py": b"6",
    "more/deep/one.py": b"7",
    ".config": b"8",
    "code.py": b"9",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    found = tmp_path_factory.mktemp("sources")
    git(found, "init", "--quiet")
    for name, data in FILES.items():
        (found / name).parent.mkdir(parents=True, exist_ok=True)
        (found / name).write_bytes(data)
    git(found, "add", "--all", "--force")
    git(found, "commit", "--quiet", "--message", "Code")
    return found


@pytest.mark.parametrize(
    ("paths", "published"),
    [
        pytest.param(["code"], {"run.py": b"1", "sub/part.py": b"2"}, id="one folder"),
        pytest.param(["code/"], {"run.py": b"1", "sub/part.py": b"2"}, id="with a slash"),
        pytest.param(["code/sub"], {"part.py": b"2"}, id="a folder in another"),
        pytest.param(["one.py"], {"one.py": b"6"}, id="a file"),
        pytest.param(["code/sub/part.py"], {"part.py": b"2"}, id="a file in a folder"),
        pytest.param(["code/sub/part.py", "one.py"], {"part.py": b"2", "one.py": b"6"}, id="two files"),
        pytest.param(
            ["code", "more"],
            {"code/run.py": b"1", "code/sub/part.py": b"2", "more/run.py": b"5", "more/deep/one.py": b"7"},
            id="two folders",
        ),
        pytest.param(
            ["one.py", "more"],
            {"one.py": b"6", "more/run.py": b"5", "more/deep/one.py": b"7"},
            id="a file and a folder",
        ),
    ],
)
def test_commit_publishes_what_its_work_tree_does(root: Path, paths: list[str], published: dict[str, bytes]) -> None:
    assert CommitSources(root, "HEAD").list_files(paths) == published
    assert DiskSources(root).list_files(paths) == published


@pytest.mark.parametrize(
    ("paths", "why"),
    [
        (["one.py", "more/deep/one.py"], "two published files would be one.py"),
        (["code", "code"], "two published files would be code/run.py"),
        (["absent"], "absent is not in this commit"),
        (["one.py", "cod"], "cod is not in this commit"),
        (["../other"], "../other is not in this commit"),
        (["code/../../other"], "code/../../other is not in this commit"),
        (["/etc/passwd"], "/etc/passwd is not in this commit"),
    ],
)
def test_files_that_cannot_be_published_are_named(root: Path, paths: list[str], why: str) -> None:
    with pytest.raises(ReconcilerError) as caught:
        CommitSources(root, "HEAD").list_files(paths)
    assert caught.value.message == why


def test_document_is_one_file_of_the_commit(root: Path) -> None:
    sources = CommitSources(root, "HEAD")
    assert sources.choose("code/sub/part.py", "calibration") == b"2"
    assert sources.choose("./one.py", "calibration") == b"6"
    for path in ("code", "absent.md"):
        with pytest.raises(ReconcilerError) as caught:
            sources.choose(path, "calibration")
        assert caught.value.message == f"calibration: {path} is not in this commit"


def test_names_that_no_tree_holds_are_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a?.py").write_bytes(b"1")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "Code")
    for sources in (CommitSources(tmp_path, "HEAD"), DiskSources(tmp_path)):
        with pytest.raises(ReconcilerError, match=r"a\?\.py"):
            sources.list_files(["a?.py"])
        with pytest.raises(ReconcilerError, match=r"a\?\.py"):
            sources.choose("a?.py", "calibration")
