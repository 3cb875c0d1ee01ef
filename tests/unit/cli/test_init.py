from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from reconciler.cli.command_table import COMMANDS
from reconciler.errors import INTERRUPTED, NOT_IN_SYNC, ReconcilerError
from reconciler.reconcile import new_repository
from tests.unit.cli.conftest import Reconcile, commit, git
from tests.unit.storage.test_untrusted_files import make_hole


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_init_makes_a_repository_whose_spec_is_valid(tmp_path: Path, reconcile: Reconcile) -> None:
    code, out, _ = reconcile("init", "My Lab")
    root = tmp_path / "My Lab"
    assert code == 0
    assert "cd 'My Lab'" in out
    made = {".git", ".gitattributes", ".github", ".gitignore", "AGENTS.md", "README.md", "schemas", "specs", "state"}
    assert {p.name for p in root.iterdir()} == made
    assert (root / ".gitattributes").read_text() == "state/** -text\n"
    assert (root / ".gitignore").read_text() == ".reconcile\n"
    assert (root / "specs/my-lab.yaml").read_text().startswith("# yaml-language-server: $schema=../schemas/")
    assert (root / "schemas/submission.schema.json").is_file()
    code, out, _ = reconcile("-C", str(root), "validate")
    assert (code, out.split(" (")[0]) == (0, "Valid: specs/my-lab.yaml")
    assert reconcile("-C", str(root), "plan")[0] == 2


def test_init_keeps_the_submitter(tmp_path: Path, reconcile: Reconcile) -> None:
    assert reconcile("init", "lab", "--submitter", "ACME")[0] == 0
    spec = YAML(typ="safe").load((tmp_path / "lab/specs/lab.yaml").read_text())["spec"]
    assert spec["submitter"] == "ACME"
    assert reconcile("-C", "lab", "validate")[0] == 0
    code, _, err = reconcile("init", "other", "--submitter", "A/B")
    assert (code, "--submitter" in err, (tmp_path / "other").exists()) == (1, True, False)


def test_init_writes_a_workflow_whose_command_the_program_takes(tmp_path: Path, reconcile: Reconcile) -> None:
    assert reconcile("init", "lab")[0] == 0
    workflow = YAML(typ="safe").load((tmp_path / "lab/.github/workflows/submission.yml").read_text())
    runs = [step["run"] for step in workflow["jobs"]["check"]["steps"] if "run" in step]
    (words,) = [shlex.split(run)[1:] for run in runs if run.startswith("reconcile ")]
    words = [word.replace("origin/$GITHUB_BASE_REF", "HEAD").replace("$RUNNER_TEMP", str(tmp_path)) for word in words]
    commit(tmp_path / "lab", "Start")
    code, out, _ = reconcile("-C", str(tmp_path / "lab"), *words)
    assert (code, (tmp_path / "impact.md").exists()) == (0, True), out


def test_init_tells_assistants_only_what_the_program_takes(tmp_path: Path, reconcile: Reconcile) -> None:
    assert reconcile("init", "lab")[0] == 0
    root = tmp_path / "lab"
    git(root, "branch", "--move", "main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Start")
    text = (root / "AGENTS.md").read_text()
    rows = [line.split("`")[1] for line in text.splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) == 6
    for row in rows:
        words = ["Server" if word == "CELL" else word for word in shlex.split(row)[1:]]
        code, out, err = reconcile("-C", str(root), *words)
        assert code in (0, 2), err
        assert "--json" not in words or json.loads(out)["version"] >= 1
    decisions = re.findall(r"`([a-z]+)`", text.partition("- Run ")[2].partition("without")[0])
    assert decisions
    assert {*decisions, "audit", "embargo"} <= set(COMMANDS)
    assert f"{NOT_IN_SYNC} not in sync" in text
    assert f"{INTERRUPTED} interrupted" in text


STRANGE: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a hole": make_hole,
    "a folder": Path.mkdir,
    "a link to itself": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", "schemas/submission.schema.json"])
@pytest.mark.parametrize("strange", STRANGE)
def test_init_waits_for_no_file_that_is_there(tmp_path: Path, reconcile: Reconcile, name: str, strange: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    STRANGE[strange](tmp_path / name)
    code, _, err = reconcile("init", "--name", "lab")
    refused = code == 1 and name in err and "fix:" in err
    assert refused or (code, (tmp_path / name).is_file()) == (0, True), err


def test_init_adds_a_line_to_what_is_no_text(tmp_path: Path, reconcile: Reconcile) -> None:
    (tmp_path / ".gitignore").write_bytes(b"caf\xe9\n")
    assert reconcile("init", "--name", "lab")[0] == 0
    assert (tmp_path / ".gitignore").read_bytes() == b"caf\xe9\n.reconcile\n"


@pytest.mark.parametrize("name", ["specs", "schemas", "state"])
def test_init_writes_through_no_link_out_of_the_repository(tmp_path: Path, reconcile: Reconcile, name: str) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "lab" / name).symlink_to("../outside")
    assert str(tmp_path / "lab" / name) in reconcile.refuse("init", "lab")
    assert list((tmp_path / "outside").iterdir()) == []
    assert [path.name for path in (tmp_path / "lab").iterdir()] == [name]


def test_init_overwrites_nothing(tmp_path: Path, reconcile: Reconcile) -> None:
    (tmp_path / "README.md").write_text("mine\n")
    (tmp_path / ".gitignore").write_text("build")
    assert reconcile("init", "--name", "lab")[0] == 0
    assert (tmp_path / "README.md").read_text() == "mine\n"
    assert (tmp_path / ".gitignore").read_text() == "build\n.reconcile\n"
    before = (tmp_path / "specs/lab.yaml").read_bytes()
    err = reconcile.refuse("init", "--name", "other")
    assert "specs/lab.yaml" in err
    assert "fix:" in err
    assert (tmp_path / "specs/lab.yaml").read_bytes() == before
    assert not (tmp_path / "specs/other.yaml").exists()


@pytest.mark.parametrize("name", ["ünï", "bad/../name", "", "-x", "a b", "x" * 101])
def test_a_bad_name_is_refused_before_anything_is_written(name: str, tmp_path: Path, reconcile: Reconcile) -> None:
    code, _, err = reconcile("init", "lab", f"--name={name}")
    assert (code, "--name: " in err, "fix: " in err) == (1, True, True)
    assert not list(tmp_path.iterdir())


def test_the_name_of_a_long_folder_is_cut(tmp_path: Path, reconcile: Reconcile) -> None:
    assert reconcile("init", "x" * 200)[0] == 0
    assert reconcile("-C", str(tmp_path / ("x" * 200)), "validate")[0] == 0


@pytest.mark.parametrize("folder", ["afile/x", "/proc/x", "y" * 300, "specs-is-a-file"])
def test_a_folder_that_cannot_be_made_is_no_bug(folder: str, tmp_path: Path, reconcile: Reconcile) -> None:
    (tmp_path / "afile").touch()
    (tmp_path / "specs-is-a-file").mkdir()
    (tmp_path / "specs-is-a-file/specs").touch()
    err = reconcile.refuse("init", folder)
    assert "error: cannot make a repository at " in err
    assert "fix: choose a folder that can be made and written: reconcile init DIR" in err


def test_a_rehearsal_that_cannot_be_made_names_its_own_option(reconcile: Reconcile) -> None:
    err = reconcile.refuse("rehearse", "resnet50", "--output", "/proc/x")
    assert "fix: choose a folder that can be made and written: reconcile rehearse --output DIR" in err


def test_a_rehearsal_of_an_unknown_round_generates_nothing(tmp_path: Path, reconcile: Reconcile) -> None:
    code, _, err = reconcile("rehearse", "resnet50", "--round", "v0.0", "--output", "lab")
    assert (code, "unknown round 'v0.0'" in err, (tmp_path / "lab").exists()) == (1, True, False), err


def test_a_rehearsal_in_a_round_without_the_benchmark_names_one_that_has_it(
    tmp_path: Path, reconcile: Reconcile
) -> None:
    code, _, err = reconcile("rehearse", "dlrm-99", "--round", "v6.1", "--output", "lab")
    assert (code, "--round v3.0" in err, (tmp_path / "lab").exists()) == (1, True, False), err


def test_a_linked_store_is_ignored(tmp_path: Path, reconcile: Reconcile) -> None:
    assert reconcile("init", "lab")[0] == 0
    (tmp_path / "lab/.reconcile").symlink_to(tmp_path)
    assert git(tmp_path / "lab", "status", "--porcelain", "--", ".reconcile") == ""


def test_spec_says_of_the_machine_what_detect_reads(tmp_path: Path, reconcile: Reconcile) -> None:
    assert reconcile("init", "lab")[0] == 0
    out = reconcile("-C", str(tmp_path / "lab"), "detect")[1]
    assert out.startswith("lab.yaml already has every readable value of this-machine.\n")
    assert "Kept:" not in out


def test_an_unknown_machine_is_left_open(tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ReconcilerError("the probe failed")

    monkeypatch.setattr(new_repository, "probe_nodes", refuse)
    assert reconcile("init", "lab")[0] == 0
    assert "host_memory_capacity: not declared" in (tmp_path / "lab/specs/lab.yaml").read_text()
    assert reconcile("-C", str(tmp_path / "lab"), "validate")[0] == 0
