"""Logs of a commit are read when they are asked for, and only so much of them is kept in memory."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from reconciler.diff.claims import Proof
from reconciler.history.logs import Logs
from reconciler.loadgen.log_files import log_hash
from reconciler.resource.records import Artifact


class Reader:
    """Blobs by their names; which were asked for."""

    def __init__(self, blobs: dict[str, bytes]) -> None:
        self.blobs = blobs
        self.asked: list[str] = []

    def read(self, wanted: Iterable[str]) -> dict[str, bytes]:
        names = list(wanted)
        self.asked += names
        return {name: self.blobs[name] for name in names if name in self.blobs}


def test_large_logs_make_room_for_each_other() -> None:
    contents = [bytes([number]) * (30 << 20) for number in range(3)]
    names = {log_hash(data): f"blob {number}" for number, data in enumerate(contents)}
    reader = Reader(dict(zip(names.values(), contents, strict=True)))
    logs = Logs(names, reader)  # type: ignore[arg-type]
    for digest, data in zip(names, contents, strict=True):
        assert logs.read_proven(digest) == data
    first, *rest = names
    for digest in (*rest, first):
        logs.read_proven(digest)
    assert reader.asked == ["blob 0", "blob 1", "blob 2", "blob 0"]


def test_a_log_is_what_its_name_says_or_is_not_believed() -> None:
    good, lost, other = (log_hash(data) for data in (b"good", b"lost", b"other"))
    logs = Logs({good: "1", other: "2"}, Reader({"1": b"good", "2": b"edited"}))  # type: ignore[arg-type]
    asked = [Artifact("", digest, 0, "logs") for digest in (good, lost, other)]
    assert logs.read(asked) == {good: b"good"}
    assert logs.checked == {good: Proof.PROVEN, lost: Proof.MISSING, other: Proof.CONTRADICTED}


@pytest.mark.parametrize("count", [0, 1, 64, 65, 130])
def test_each_of_many_logs_is_checked_once(count: int) -> None:
    contents = [f"log {number}".encode() for number in range(count)]
    names = {log_hash(data): f"blob {number}" for number, data in enumerate(contents)}
    reader = Reader(dict(zip(names.values(), contents, strict=True)))
    logs = Logs(names, reader)  # type: ignore[arg-type]
    logs.check([*names, *names])
    assert sorted(reader.asked) == sorted(names.values())
    assert logs.checked.keys() == names.keys()
    logs.check(names)
    assert len(reader.asked) == count
