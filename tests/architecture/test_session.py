"""What a session of tests shares is made once, and its long tests come first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import schedule
from tests.shared import make_once, need

ROOT = Path(__file__).parents[2]


@pytest.fixture
def factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.TempPathFactory:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    (tmp_path / "base").mkdir()
    return pytest.TempPathFactory(tmp_path, 3, "all", lambda *_, **__: None, tmp_path / "base", _ispytest=True)


def test_it_is_made_once_and_given_to_every_process(factory: pytest.TempPathFactory) -> None:
    def make(folder: Path) -> tuple[int, Path]:
        (folder / "file").write_text("made")
        return os.getpid(), folder

    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, repr(make_once(factory, "thing", make)).encode())
        os._exit(0)
    os.wait()
    maker, folder = make_once(factory, "thing", make)
    assert maker != os.getpid()
    assert os.read(read, 4096).decode() == repr((maker, folder))
    assert (folder / "file").read_text() == "made"


def test_what_failed_is_tried_again_from_nothing(factory: pytest.TempPathFactory) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError

    with pytest.raises(OSError):
        make_once(factory, "thing", fail)
    assert make_once(factory, "thing", lambda folder: list(folder.iterdir())) == []


def test_a_library_that_is_not_there_skips() -> None:
    need("pytest")
    with pytest.raises(pytest.skip.Exception, match="no_such_library"):
        need("pytest", "no_such_library")


def test_what_is_named_as_long_is_there_and_comes_first() -> None:
    assert [name for name in schedule.LONG if not (ROOT / name).exists()] == []
    first, folder, other = (
        schedule.rank(name)
        for name in ("tests/passes/test_tutorial.py::a", "tests/passes/test_new.py::a", "tests/x.py")
    )
    assert first < folder < other == len(schedule.LONG)


def test_what_is_named_as_waiting_is_there() -> None:
    assert [name for name in schedule.WAITING if not (ROOT / name).exists()] == []
    waiting = (
        "tests/passes/test_new.py::test_it[a]",
        "tests/passes/test_new.py[a]",
        "tests/unit/execute/test_child.py::a",
    )
    assert [schedule.waits(name) for name in (*waiting, "tests/unit/execute/test_other.py::a")] == [True] * 3 + [False]
