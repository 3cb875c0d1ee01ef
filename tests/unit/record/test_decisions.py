"""Files of decisions: written, read, and refused where somebody changed them."""

from __future__ import annotations

import errno
import json
from datetime import date
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.errors import StorageError
from reconciler.record import decisions
from reconciler.record.decisions import parse_decisions, read, write
from reconciler.resource.decisions import (
    Acceptance,
    AcceptedInput,
    AcceptedKey,
    Amendment,
    Decisions,
    Freeze,
    KeyChange,
)
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.storage.files import RepositoryPaths, hash_bytes

CELL, TODAY = Cell("open", "box", "net-99.9", "Offline"), date(2026, 3, 15)
NAME = "open_box_net-99.9_Offline"
KEYS = AcceptedKey(Address(Kind.ENGINE, str(CELL)), KeyChange("1", "2"), {"batch": AcceptedInput(4, None, "a:3")})
ACCEPTED = Acceptance(CELL, "Gründe", "Ada <a@b>", "2026-03-01", date(2026, 4, 1), "", (KEYS,))
FROZEN = Freeze(None, "over", "Ada <a@b>", "2026-03-01", None, "1" * 40)
AMENDED = Amendment(
    CELL, "issue 7", "why", "Ada", "2026-03-01", "1" * 40, KeyChange("1", "2"), {}, ("Run",), ("1", "2")
)


def name(path: str, data: bytes) -> str:
    """As a file with these bytes is named."""
    return f"{path}-{hash_bytes(data)[:20]}.json"


def encode(**fields: object) -> bytes:
    """A freeze of everything, with these fields."""
    whole = {"cell": None, "reason": "r", "by": "b", "made": "m", "until": None, "commit": "", "format": 1}
    return json.dumps({**whole, **fields}).encode()


def test_each_decision_is_a_file_of_its_own_named_for_its_cell_and_bytes(tmp_path: Path) -> None:
    paths = RepositoryPaths(tmp_path)
    found = [write(paths, decision) for decision in (ACCEPTED, FROZEN, AMENDED)]
    for path, start in zip(
        found, (f"state/accepted/{NAME}", "state/frozen/submission", f"state/amended/{NAME}"), strict=True
    ):
        data = (tmp_path / path).read_bytes()
        assert path == name(start, data)
        assert b'\n "format": 1' in data
        assert data.endswith(b"}\n")
    assert "Gründe" in (tmp_path / found[0]).read_text(encoding="utf-8")
    expected = Decisions({found[0]: ACCEPTED}, {found[1]: FROZEN}, {}, TODAY, {found[2]: AMENDED})
    assert read(paths, TODAY) == expected
    long = write(paths, replace(FROZEN, cell=replace(CELL, benchmark="n" * 200)))
    assert Path(long).stem.rpartition("-")[0] == f"open_box_{'n' * 111}"


def test_what_is_no_decision_is_not_read(tmp_path: Path) -> None:
    paths = RepositoryPaths(tmp_path)
    assert read(paths, TODAY) == Decisions({}, {}, {}, TODAY)
    (path,) = [write(paths, FROZEN)]
    folder = (tmp_path / path).parent
    for stray in (".hidden.json", "notes.txt"):
        (folder / stray).write_text("{}")
    (tmp_path / "state/accepted").write_text("a file in place of the folder")
    assert read(paths, TODAY) == Decisions({}, {path: FROZEN}, {}, TODAY)


def test_damage_of_a_decision_is_no_failing_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = RepositoryPaths(tmp_path)
    kept, lost, folder = write(paths, FROZEN), write(paths, ACCEPTED), "state/frozen/a.json"
    (tmp_path / folder).mkdir()
    original, failing = decisions.read_regular, list[OSError]()

    def read_regular(path: Path, most: int) -> bytes:
        if path.parent.name == "accepted":
            raise failing[-1]
        return original(path, most)

    monkeypatch.setattr(decisions, "read_regular", read_regular)
    for failure, why in ((OSError(errno.EACCES, "not allowed"), "not allowed"), (OSError("odd"), "odd")):
        failing.append(failure)
        found = read(paths, TODAY)
        assert (found.freezes, found.acceptances) == ({kept: FROZEN}, {})
        assert found.damaged.pop(folder)  # type: ignore[attr-defined]
        assert found.damaged == {lost: why}
    failing.append(OSError(errno.EIO, "disk"))
    with pytest.raises(StorageError):
        read(paths, TODAY)


EDITED = "it was changed after it was written"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (encode(), ""),
        (encode(format=2), "not a readable decision: unknown format 2"),
        (encode(format=0), "not a readable decision: unknown format 0"),
        (b'{"cell": null}', "not a readable decision: 'format'"),
        (b"{", "not a readable decision: "),
        (b"[]", "not a readable decision: "),
        (encode(until=7), "not a readable decision: "),
    ],
)
def test_a_file_under_its_own_name_is_a_decision_or_says_what_is_wrong(data: bytes, why: str) -> None:
    path = name("state/frozen/x", data)
    found = parse_decisions({path: data}, TODAY)
    assert set(found.freezes) == (set() if why else {path})
    assert set(found.damaged) == ({path} if why else set())
    assert found.damaged.get(path, "").startswith(why)


def test_a_file_that_was_changed_counts_for_nothing_and_the_others_do() -> None:
    data = encode()
    digest = hash_bytes(data)
    files = {
        f"state/frozen/c-{digest[:20]}.json": data,
        f"state/frozen/b-{digest[:20]}.json": data + b" ",
        f"state/frozen/a-{digest[:21]}.json": data,
        f"state/frozen/{digest[:20]}.json": data,
        f"state/frozen/d-x-{digest[:20]}.json": data,
        f"state/frozenx/e-{digest[:20]}.json": data,
    }
    found = parse_decisions(files, TODAY)
    good = [f"state/frozen/{start}{digest[:20]}.json" for start in ("", "c-", "d-x-")]
    assert list(found.freezes) == sorted(good)
    assert found.damaged == dict.fromkeys(list(files)[1:3], EDITED)
    assert list(found.damaged) == sorted(found.damaged)
