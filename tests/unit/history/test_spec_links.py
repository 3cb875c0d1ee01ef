"""Links of a commit. Specs: followed within the repository, refused where they lead out of it. Code: as on disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from reconciler.errors import SpecError
from reconciler.history.snapshot import read_snapshot
from reconciler.storage import git
from tests.passes.repository import SPEC, Repository, make_repository
from tests.passes.standin import with_command


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


def test_links_to_code_count_as_on_disk(tmp_path: Path) -> None:
    repository = with_command(tmp_path)
    code = repository.root / "ours"

    def digests() -> tuple[str, str]:
        repository.commit()
        committed = read_snapshot(repository.root, git.resolve(repository.root, "HEAD"))
        return committed.desired.digest, repository.look().desired.digest

    repository.write("lib/more.py", "more = 1\n")
    for name, source in (("more.py", "lib/more.py"), ("again.py", "ours/run.py")):
        shutil.copy(repository.root / source, code / name)
    before = digests()
    for name, target in (("more.py", "../lib/more.py"), ("again.py", "twice.py"), ("twice.py", "run.py")):
        (code / name).unlink(missing_ok=True)
        (code / name).symlink_to(target)
    linked = digests()
    (code / "twice.py").unlink()
    (code / "again.py").unlink()
    (code / "again.py").symlink_to("run.py")
    (code / "folder").symlink_to("../lib")  # links to folders are not followed
    assert digests() == before
    assert linked != before  # twice.py is one file more
    repository.write("lib/more.py", "more = 2\n")
    assert not {*digests()} & {*before}
