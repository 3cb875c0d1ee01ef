"""Code and documents of a commit: what is published of them, under which names, whatever the work tree has since."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reconciler.errors import ReconcilerError
from reconciler.history.rendered import CommitSources
from tests.unit.cli.conftest import git

FILES = {
    "run.py": "run",
    "code/main.py": "main",
    "code/below/part.py": "part",
    "code/.hidden": "hidden",
    "code/__pycache__/main.pyc": "compiled",
    "code/below/old.pyc": "compiled",
    "more/main.py": "other main",
    "deep/code/main.py": "deep main",
    ".env/tool.py": "tool",
    "bad/a b.py": "blank",
    "docs/how.md": "how",
}


@pytest.fixture
def sources(tmp_path: Path) -> CommitSources:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all", "--force")
    git(tmp_path, "commit", "--quiet", "--message", "all")
    (tmp_path / "run.py").write_text("changed since")
    (tmp_path / "new.py").write_text("not committed")
    return CommitSources(tmp_path, git(tmp_path, "rev-parse", "HEAD"))


@pytest.mark.parametrize(
    ("paths", "published"),
    [
        ([], {}),
        (["run.py"], {"run.py": "run"}),
        (["code/below/part.py"], {"part.py": "part"}),
        (["code/below/old.pyc"], {"old.pyc": "compiled"}),  # named itself
        (["code"], {"main.py": "main", "below/part.py": "part"}),
        (["./code/"], {"main.py": "main", "below/part.py": "part"}),
        (["deep/../code/below"], {"part.py": "part"}),
        ([".env"], {"tool.py": "tool"}),
        (
            ["code", "run.py", "more"],
            {"code/main.py": "main", "code/below/part.py": "part", "run.py": "run", "more/main.py": "other main"},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_files_are_published_below_the_name_of_their_folder_where_there_are_several(
    sources: CommitSources, paths: list[str], published: dict[str, str]
) -> None:
    assert sources.list_files(paths) == {name: text.encode() for name, text in published.items()}


@pytest.mark.parametrize(
    ("paths", "why"),
    [
        (["nothing"], "nothing"),
        (["new.py"], "new.py"),
        (["code", "nothing"], "nothing"),
        (["../elsewhere"], "../elsewhere"),
        (["code/../../elsewhere"], "code/../../elsewhere"),
        (["/etc/hosts"], "/etc/hosts"),
        (["code", "deep/code"], "two published files would be code/main.py"),
        (["bad"], "bad/a b.py is not a valid name in a submission tree"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_published_is_refused(sources: CommitSources, paths: list[str], why: str) -> None:
    with pytest.raises(ReconcilerError, match=f"^{re.escape(why)}"):
        sources.list_files(paths)


def test_a_document_is_one_file_of_the_commit(sources: CommitSources) -> None:
    assert sources.choose("docs/../docs/how.md", "calibration") == b"how"
    assert sources.choose("run.py", "calibration") == b"run"
    for path, why in (
        ("docs", "calibration: docs"),
        ("none.md", "calibration: none.md"),
        ("../none.md", "../none.md"),
        ("bad/a b.py", "bad/a b.py is not a valid name"),
    ):
        with pytest.raises(ReconcilerError, match=f"^{re.escape(why)}"):
            sources.choose(path, "calibration")
