"""Specs of a commit that are links: followed within the repository, refused where they lead out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.errors import SpecError
from reconciler.history.snapshot import read_snapshot
from reconciler.storage import git
from tests.passes.repository import SPEC, Repository, make_repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = make_repository(tmp_path / "repository")
    made.commit()
    return made


def commit_link(repository: Repository, target: str, name: str = "specs/linked.yaml") -> str:
    (repository.root / name).parent.mkdir(exist_ok=True)
    (repository.root / name).symlink_to(target)
    repository.commit()
    return git.resolve(repository.root, "HEAD")


@pytest.mark.parametrize("target", ["/etc/hostname", "../../outside.yaml", "../.git/config", "..", "/"])
def test_a_link_out_of_the_repository_is_refused(repository: Repository, target: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_snapshot(repository.root, commit_link(repository, target))
    assert [problem.file for problem in caught.value.problems] == ["specs/linked.yaml"]


def test_a_link_to_a_file_of_the_commit_counts_as_that_file(repository: Repository) -> None:
    before = read_snapshot(repository.root, git.resolve(repository.root, "HEAD")).desired.digest
    (repository.root / "kept").mkdir()
    (repository.root / SPEC).rename(repository.root / "kept/spec.yaml")
    found = read_snapshot(repository.root, commit_link(repository, "../kept/spec.yaml", SPEC))
    assert found.desired.digest == before
    assert list(found.specs) == ["kept/spec.yaml"]
