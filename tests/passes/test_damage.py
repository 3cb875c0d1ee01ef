"""Whatever happens to the files of a repository, a look says so and a pass mends what it can: never a traceback."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

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
