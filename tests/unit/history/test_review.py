"""What a reviewer is given of the files between two commits: each with its file, line and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.diff.impact import Remark
from reconciler.errors import Problem, SpecError
from reconciler.history.pull_request import LARGE, review, review_specs
from tests.unit.cli.conftest import git

TOKEN = b"ghp_" + b"a" * 36
BASE = {
    "state/records/Run/a.json": b"{}",
    "state/records/Run/b.json": b"{}",
    "state/logs/aaaa": b"a log",
    "state/logs/bbbb": b"a log",
    "state/logs/.gitkeep": b"",
    "state/records/.gitkeep": b"",
    "notes.txt": b"once: " + TOKEN,
    "other.txt": b"other",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, BASE)
    return tmp_path


def commit(root: Path, files: Mapping[str, bytes | None]) -> None:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if data is None:
            path.unlink()
        else:
            path.write_bytes(data)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Change")


def remarks(root: Path, files: Mapping[str, bytes | None], damaged: Mapping[str, str] | None = None) -> list[Remark]:
    commit(root, files)
    return list(review(root, "HEAD~1", "HEAD", damaged or {}))


def test_an_edited_record_is_an_error(root: Path) -> None:
    assert remarks(root, {"state/records/Run/a.json": b"{ }"}) == [
        Remark(
            "error", "state/records/Run/a.json", 0, "a record was edited", "restore it; a new outcome is a new record"
        )
    ]


def test_what_only_a_machine_writes_is_an_error_once(root: Path) -> None:
    (found,) = remarks(root, {".reconcile/index/a": b"1", ".reconcile/index/b": b"2"})
    assert (found.level, found.file, found.line) == ("error", ".reconcile/index/a", 0)
    assert "git rm -r --cached .reconcile" in found.fix


def test_a_deleted_record_is_a_warning(root: Path) -> None:
    (remark,) = remarks(root, {"state/records/Run/a.json": None})
    assert (remark.level, remark.file) == ("warning", "state/records/Run/a.json")
    assert remark.message == "a record is deleted, and with it the evidence"
    assert remark.fix == "restore it unless intended"


@pytest.mark.parametrize("data", [b"an edited log", None], ids=["edited", "deleted"])
def test_a_log_that_was_recorded_may_not_change(root: Path, data: bytes | None) -> None:
    assert remarks(root, {"state/logs/aaaa": data}) == [
        Remark("error", "state/logs/aaaa", 0, "a recorded log was edited or deleted", "restore it from the base")
    ]


def test_a_damaged_record_is_named_once_with_its_reason(root: Path) -> None:
    found = remarks(root, {"state/records/Run/a.json": b"{"}, {"state/records/Run/a.json": "it is cut short"})
    assert found == [
        Remark(
            "error",
            "state/records/Run/a.json",
            0,
            "the record is damaged: it is cut short",
            "restore it from the base; records never change",
        )
    ]


def test_a_file_is_large_beyond_what_one_log_may_have(root: Path) -> None:
    (remark,) = remarks(root, {"most.bin": b"\0" * LARGE, "more.bin": b"\0" * (LARGE + LARGE // 2)})
    assert (remark.level, remark.file, remark.message) == ("warning", "more.bin", "the file has 1.5 MiB")


def test_a_secret_is_named_at_its_line_and_once(root: Path) -> None:
    (remark,) = remarks(root, {"env": b"one\ntwo\n" + TOKEN + b"\n" + TOKEN + b"\n"})
    assert (remark.level, remark.file, remark.line) == ("error", "env", 3)
    assert remark.message == "this looks like an access token"
    assert "revoke it" in remark.fix


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"-----BEGIN OPENSSH PRIVATE " + b"KEY-----\n", "a private key"),
        (b"-----BEGIN PGP PRIVATE KEY " + b"BLOCK-----\n", "a private key"),
        (b"hf_" + b"a" * 34, "an access token"),
        (b'{"user": "ann", "password": "' + b"correct-horse" + b'"}', "a password"),
        (b"export AWS_SECRET_ACCESS_KEY=" + b"a" * 40, "a password"),
        (b"AKIA" + b"A" * 16, "an access key"),
        (b"password = correct-horse", "a password"),
    ],
)
def test_a_secret_is_named_by_its_kind(root: Path, data: bytes, what: str) -> None:
    (remark,) = remarks(root, {"file": data})
    assert remark.message == f"this looks like {what}"


@pytest.mark.parametrize("data", [b"password = ${PASSWORD}", b"password: short", b"ghp_short", b"AKIA" + b"a" * 16])
def test_what_refers_to_a_secret_or_is_too_short_for_one_is_none(root: Path, data: bytes) -> None:
    assert remarks(root, {"file": data}) == []


def test_secrets_are_looked_for_in_what_changed_and_not_in_logs(root: Path) -> None:
    assert remarks(root, {"state/logs/dddd": TOKEN, "other.txt": b"more"}) == []


def test_secrets_are_looked_for_in_large_files_up_to_a_bound(root: Path) -> None:
    most = 2 * LARGE
    found = remarks(root, {"at.bin": TOKEN.rjust(most, b" "), "over.bin": TOKEN.rjust(most + 1, b" ")})
    assert [(remark.level, remark.file) for remark in found] == [
        ("error", "at.bin"),
        ("warning", "at.bin"),
        ("warning", "over.bin"),
    ]


def test_a_problem_of_a_spec_is_named_with_its_place() -> None:
    problems = [Problem("a.yaml", 3, 1, "spec.round", "unknown", "name another"), Problem("b.yaml", 0, 0, "", "empty")]
    assert review_specs(SpecError(problems)) == (
        Remark("error", "a.yaml", 3, "spec.round: unknown", "name another", 1),
        Remark("error", "b.yaml", 0, "empty", ""),
    )
