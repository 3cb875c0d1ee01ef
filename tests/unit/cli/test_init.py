from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Reconcile


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_init_makes_a_repository_whose_spec_is_valid(tmp_path: Path, reconcile: Reconcile) -> None:
    code, out, _ = reconcile("init", "My Lab")
    root = tmp_path / "My Lab"
    assert code == 0
    assert "cd My Lab" in out
    made = {".git", ".gitattributes", ".gitignore", "README.md", "schemas", "specs", "state"}
    assert {p.name for p in root.iterdir()} == made
    assert (root / ".gitattributes").read_text() == "state/** -text\n"
    assert (root / ".gitignore").read_text() == ".reconcile/\n"
    assert (root / "specs/my-lab.yaml").read_text().startswith("# yaml-language-server: $schema=../schemas/")
    assert (root / "schemas/submission.schema.json").is_file()
    code, out, _ = reconcile("-C", str(root), "validate")
    assert (code, out.split(" (")[0]) == (0, "Valid: specs/my-lab.yaml")
    assert reconcile("-C", str(root), "plan")[0] == 2


def test_init_overwrites_nothing(tmp_path: Path, reconcile: Reconcile) -> None:
    (tmp_path / "README.md").write_text("mine\n")
    (tmp_path / ".gitignore").write_text("build")
    assert reconcile("init", "--name", "lab")[0] == 0
    assert (tmp_path / "README.md").read_text() == "mine\n"
    assert (tmp_path / ".gitignore").read_text() == "build\n.reconcile/\n"
    before = (tmp_path / "specs/lab.yaml").read_bytes()
    code, _, err = reconcile("init", "--name", "other")
    assert code == 1
    assert "specs/lab.yaml" in err
    assert "fix:" in err
    assert (tmp_path / "specs/lab.yaml").read_bytes() == before
    assert not (tmp_path / "specs/other.yaml").exists()
