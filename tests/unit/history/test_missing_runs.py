"""Runs that came with a commit and that a later one no longer has: which of them could have been published."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.diff.change import Chosen
from reconciler.diff.claims import Claim, Proof
from reconciler.history.runs import REMOVED_RUN, find_missing_runs, note_shallow
from reconciler.record.codec import encode
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Ended, Record
from reconciler.storage.git import Commit
from tests.unit.cli.conftest import git

CELL, OTHER = Cell("open", "box", "net", "Offline"), Cell("open", "box", "net", "Server")
KEY, OTHER_KEY = "a" * 64, "b" * 64
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
BROUGHT = Commit("c" * 40, "Ada", NOON, NOON, "subject")
PUBLISHED = Record(
    Address(Kind.RUN, f"{CELL}/performance"),
    KEY,
    1,
    Ended.DONE,
    "2026-01-01T00:00:00Z",
    0.5,
    "attempt",
    {},
    values={"validity": "VALID", "metric": {"value": "10", "unit": "samples/s"}},
)
PATH = f"state/records/Run/{KEY[:12]}-2.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    return tmp_path


def find(root: Path, data: bytes, path: str = PATH, *, blob: str = "", **parts: Any) -> list[Claim]:
    """Of one file that came with a commit."""
    (root / "record").write_bytes(data)
    written = git(root, "hash-object", "-w", "record")
    other = replace(PUBLISHED, key=OTHER_KEY, address=Address(Kind.RUN, f"{OTHER}/performance"))
    records = {"one": PUBLISHED, "two": other}
    chosen = {CELL: Chosen(performance="one"), OTHER: Chosen(performance="two"), "none": Chosen()}
    base: Any = {"records": records, "difference": SimpleNamespace(chosen=chosen), "damaged": {}}
    at: Any = SimpleNamespace(**{**base, **parts})
    return list(find_missing_runs(root, at, {(path, blob or written): BROUGHT}))


def test_a_valid_run_that_is_gone_is_reported_with_its_figures_and_its_commit(root: Path) -> None:
    (claim,) = find(root, encode(PUBLISHED))
    assert (claim.where, claim.what, claim.proof) == (str(CELL), REMOVED_RUN, Proof.MISSING)
    assert all(part in claim.detail for part in (PATH, "10 samples/s of 2026-01-01T00:00:00Z", "cccccccccccc"))
    other = replace(PUBLISHED, key=OTHER_KEY)
    (claim,) = find(root, encode(other), f"state/records/Run/{OTHER_KEY[:12]}-2.json")
    assert claim.where == str(OTHER)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"ended": Ended.FAILED}, PATH),
        ({"values": {"validity": "INVALID", "metric": {"value": "10", "unit": "samples/s"}}}, PATH),
        ({"values": {"validity": "VALID"}}, PATH),
        ({"key": KEY[:12] + "d" * 52}, PATH),  # of other inputs, though its path begins alike
        ({}, PATH.replace(KEY[:12], "d" * 12)),
        ({}, PATH.replace("/Run/", "/Score/")),
        ({}, f"{PATH}.asc"),
        ({}, f"other/{PATH}"),
    ],
)
def test_what_could_not_have_been_published_may_go(root: Path, changes: dict[str, Any], path: str) -> None:
    assert find(root, encode(replace(PUBLISHED, **changes)), path) == []


def test_what_cannot_be_read_or_is_still_there_is_no_run_that_is_gone(root: Path) -> None:
    data, name = encode(PUBLISHED), PATH.removeprefix("state/records/").removesuffix(".json")
    assert find(root, b"{}") == []
    assert find(root, data, blob="d" * 40) == []  # as a partial clone has it
    assert find(root, data, damaged={PATH: "why"}) == []
    assert find(root, data, records={"one": PUBLISHED, "two": PUBLISHED, name: PUBLISHED}) == []


def test_a_clone_that_is_cut_off_is_reported(root: Path) -> None:
    (root / "record").write_text("one")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "one")
    assert list(note_shallow(root)) == []
    (root / ".git/shallow").write_text(git(root, "rev-parse", "HEAD") + "\n")
    (claim,) = note_shallow(root)
    assert (claim.where, claim.what, claim.proof) == ("submission", "history", Proof.ATTESTED)
    assert "git fetch --unshallow" in claim.detail
