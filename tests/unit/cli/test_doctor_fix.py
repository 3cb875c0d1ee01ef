"""`doctor --fix` in repositories that are odd, or that somebody made for anyone who runs it there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.loadgen.settings import RELEASES
from reconciler.rules.rounds import load_ruleset
from tests.unit.cli.conftest import SPEC, Reconcile
from tests.unit.cli.test_start import make_loadgen

HERE = ".reconcile/environments"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index that holds the LoadGen of round v5.1 alone."""
    folder = tmp_path / "index"
    folder.mkdir()
    make_loadgen(folder, RELEASES["v5.1"], load_ruleset("v5.1").seeds())
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(folder), "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
    return folder


def declare(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (root / "specs").mkdir(parents=True)
    (root / "specs/one.yaml").write_text(SPEC.replace("round: v6.1", "round: v5.1"))
    monkeypatch.chdir(root)
    return root


@pytest.mark.parametrize("name", ["it's a\nline", "a:b", os.fsdecode(b"\xff")])
def test_a_folder_of_any_name_gets_its_environment_or_a_reason(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile, name: str
) -> None:
    root = declare(tmp_path / name, monkeypatch)
    code, out, err = reconcile("doctor", "--fix")
    assert code in (1, 2), err
    assert "bug" not in err
    assert ("is installed in" in out) is (root / HERE / "v5.1").exists() is (code == 2)
    assert code == 2 or "fix:" in err


def test_modules_of_the_working_folder_are_not_run(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile
) -> None:
    root = declare(tmp_path / "repository", monkeypatch)
    trace = tmp_path / "trace"
    for name in ("pip.py", "pip/__main__.py", "venv.py", "site.py", "sitecustomize.py", "json.py", "setup.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(f"open({str(trace)!r}, 'a').write(__name__)\n")
    assert "is installed in" in reconcile("doctor", "--fix")[1]
    assert not trace.exists()


def lead_away(link: str) -> Callable[[Path, Path], None]:
    def make(root: Path, theirs: Path) -> None:
        (root / link).parent.mkdir(parents=True, exist_ok=True)
        (root / link).symlink_to(theirs if link.endswith("v5.1") else theirs.parent)

    return make


def put_pipe(root: Path, _: Path) -> None:
    (root / ".reconcile").mkdir()
    os.mkfifo(root / HERE)


def put_file(root: Path, _: Path) -> None:
    (root / HERE).mkdir(parents=True)
    (root / HERE / "v5.1").write_text("mine")


@pytest.mark.parametrize("make", [lead_away(HERE), lead_away(f"{HERE}/v5.1"), put_pipe, put_file])
def test_what_is_in_the_place_of_an_environment_is_named_and_left(
    index: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reconcile: Reconcile,
    make: Callable[[Path, Path], None],
) -> None:
    theirs = tmp_path / "theirs/v5.1"
    theirs.mkdir(parents=True)
    (theirs / "kept").write_text("kept")
    root = declare(tmp_path / "repository", monkeypatch)
    make(root, theirs)
    code, _, err = reconcile("doctor", "--fix")
    assert (code, "environments" in err, "fix:" in err, "bug" in err) == (1, True, True, False), err
    assert [path.name for path in theirs.iterdir()] == ["kept"]
    assert make is not put_file or (root / HERE / "v5.1").read_text() == "mine"
