"""The index of records: believed only while it is whole, and never needed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.errors import RecordError, StorageError
from reconciler.record.index import Loaded, group_records, load, load_record, locate_record
from reconciler.record.store import repair_record, write_record
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Artifact, Ended, Record, RecordedFact, RecordedInput, Summary
from reconciler.storage.files import RepositoryPaths

shared = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def record(number: int) -> Record:
    kind = list(Kind)[number % 5]
    return Record(
        Address(kind, f"open/box/net/Offline/{number}"),
        f"{number:064x}",
        1,
        Ended.DONE if number % 3 else Ended.FAILED,
        f"2026-01-01T00:00:{number:02}",
        0.5,
        f"attempt {number}",
        {"source": RecordedInput(f"digest {number}", "spec:1"), "scenario": RecordedInput("Offline", "spec:2")},
        facts={"driver": RecordedFact("1", Role.EVIDENCE), "host": RecordedFact(str(number), Role.NOTE)},
        artifacts=(Artifact("log", f"{number:064x}", number, "logs"),),
        values={"validity": "VALID", "metric": {"value": str(number), "unit": "samples/s"}},
        upstream={"engine": "Engine/x"},
        shared=(Address(kind, "open/box/net-99/Offline/accuracy"),),
    )


@pytest.fixture
def paths(tmp_path: Path) -> RepositoryPaths:
    found = RepositoryPaths(tmp_path)
    for number in range(7):
        write_record(found, record(number))
    return found


def index_file(paths: RepositoryPaths) -> Path:
    return paths.index / "records.msgpack"


def same(one: Loaded, other: Loaded) -> bool:
    return (one.recorded, one.damaged) == (other.recorded, other.damaged)


def test_index_says_what_the_files_say(paths: RepositoryPaths) -> None:
    cold = load(paths)
    warm = load(paths)
    assert same(cold, warm)
    assert same(warm, load(paths, deep=True))
    assert sum(len(found) for found in warm.recorded.by_key.values()) == 7


def test_warm_index_is_not_written_again(paths: RepositoryPaths) -> None:
    load(paths)
    before = index_file(paths).stat()
    load(paths)
    assert index_file(paths).stat().st_mtime_ns == before.st_mtime_ns


@shared
@given(data=st.data())
def test_damage_to_the_index_costs_time_only(paths: RepositoryPaths, data: st.DataObject) -> None:
    index_file(paths).unlink(missing_ok=True)
    expected = load(paths)
    whole = bytearray(index_file(paths).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert"])):
            case "flip":
                whole[at] ^= data.draw(st.integers(1, 255))
            case "cut":
                del whole[at:]
                whole += b"x"
            case _:
                whole[at:at] = data.draw(st.binary(min_size=1, max_size=5))
    index_file(paths).write_bytes(whole)
    assert same(load(paths), expected)


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", "0\n{}", '{"version": 4}', "\x00" * 100])
def test_other_index_is_made_anew(paths: RepositoryPaths, text: str) -> None:
    expected = load(paths)
    index_file(paths).write_text(text, encoding="utf-8")
    assert same(load(paths), expected)


def test_records_on_a_failing_disk_are_not_none(paths: RepositoryPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    list_entries = os.scandir

    def fail(path: Path | str) -> object:
        if Path(path) == paths.records:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return list_entries(path)

    monkeypatch.setattr(os, "scandir", fail)
    with pytest.raises(StorageError, match="EIO"):
        load(paths)


def test_new_record_is_seen_and_a_removed_one_forgotten(paths: RepositoryPaths) -> None:
    before = load(paths).recorded
    identity = write_record(paths, record(40))
    assert load(paths).recorded.by_key[record(40).key][0].id == identity
    locate_record(paths, identity).unlink()
    assert load(paths).recorded == before


def test_digest_represents_the_set_of_records(paths: RepositoryPaths) -> None:
    before = load(paths).recorded.digest
    identity = write_record(paths, record(41))
    assert load(paths).recorded.digest != before
    locate_record(paths, identity).unlink()
    assert load(paths).recorded.digest == before


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    status = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(status.st_mtime_ns + 1, status.st_mtime_ns + 1))


def test_flipped_record_is_damaged_and_no_longer_counts(paths: RepositoryPaths) -> None:
    identity = write_record(paths, record(42))
    load(paths)
    flip(locate_record(paths, identity))
    found = load(paths)
    assert [damaged.path for damaged in found.damaged] == [f"state/records/{identity}.json"]
    assert record(42).key not in found.recorded.by_key
    with pytest.raises(RecordError, match="was changed after it was written"):
        load_record(paths, identity)


@pytest.mark.parametrize("make", ["folder", "dangling link", "empty", "not text"])
def test_anything_in_place_of_a_record_is_damage(paths: RepositoryPaths, make: str) -> None:
    path = paths.records / "Run" / f"{'0' * 12}-{'0' * 20}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    match make:
        case "folder":
            path.mkdir()
        case "dangling link":
            path.symlink_to("nowhere")
        case "empty":
            path.touch()
        case _:
            path.write_bytes(b"\xff\xfe")
    for _ in range(2):
        found = load(paths)
        assert [Path(damaged.path).name for damaged in found.damaged] == [path.name]
    said = repair_record(paths, found.damaged[0].path, lambda _: None)
    assert "moved to" in said
    assert load(paths).damaged == ()


def test_record_under_another_name_is_damage(paths: RepositoryPaths) -> None:
    identity = write_record(paths, record(43))
    path = locate_record(paths, identity)
    path.rename(path.with_name("f" * 12 + path.name[12:]))
    assert len(load(paths).damaged) == 1


def test_unfinished_write_is_no_record(paths: RepositoryPaths) -> None:
    before = load(paths)
    (paths.records / "Run" / ".x.json.abc.partial").write_text("{", encoding="utf-8")
    (paths.records / "Run" / ".y.json").write_text("{", encoding="utf-8")
    assert same(load(paths), before)


def test_damaged_record_comes_back_from_git_when_it_is_there_whole(paths: RepositoryPaths) -> None:
    identity = write_record(paths, record(44))
    path = locate_record(paths, identity)
    committed = path.read_bytes()
    flip(path)
    named = f"state/records/{identity}.json"
    assert repair_record(paths, named, lambda _: committed) == "restored from git"
    assert path.read_bytes() == committed
    flip(path)
    assert "moved to" in repair_record(paths, named, lambda _: b"something else")
    assert not path.exists()
    assert list(paths.quarantine.iterdir())


def summary(identity: str, started: str, *marks: str, name: str = "net", key: str = "key", log: str = "1") -> Summary:
    artifacts = (Artifact("log", log, 1),)
    return Summary(identity, Address(Kind.RUN, name), key, Ended.DONE, started, 1.0, artifacts, marks=marks)


def test_records_are_grouped_oldest_first_by_key_and_by_every_address() -> None:
    shared = Address(Kind.RUN, "other")
    first, second = summary("Run/b", "2026-01-01"), summary("Run/a", "2026-01-02")
    tie, other = summary("Run/c", "2026-01-02"), summary("Run/d", "2026-01-03", key="another")
    joined = Summary("Run/e", Address(Kind.RUN, "net"), "key", Ended.DONE, "2026-01-04", 1.0, (), shared=(shared,))
    found = group_records([joined, other, tie, second, first])
    assert [s.id for s in found.by_key["key"]] == ["Run/b", "Run/a", "Run/c", "Run/e"]
    assert [s.id for s in found.by_address[first.address]] == ["Run/b", "Run/a", "Run/c", "Run/d", "Run/e"]
    assert found.by_address[shared] == (joined,)
    assert group_records([first, second]).digest == group_records([second, first]).digest
    assert group_records([first]).digest != group_records([second]).digest


def test_of_one_run_that_was_imported_twice_the_one_counts_of_which_more_is_known() -> None:
    unknown = ("imported", "unknown code", "unknown engine")
    cases = (
        ([summary("Run/a", "1", *unknown), summary("Run/b", "2", *unknown[:2])], ["Run/b"]),
        ([summary("Run/a", "1", *unknown[:2]), summary("Run/b", "2", *unknown)], ["Run/a"]),
        ([summary("Run/b", "1", "imported"), summary("Run/a", "2", "imported")], ["Run/a"]),
        ([summary("Run/a", "1", *unknown), summary("Run/b", "2", "imported", log="2")], ["Run/a", "Run/b"]),
        ([summary("Run/a", "1", *unknown), summary("Run/b", "2")], ["Run/a", "Run/b"]),
        ([summary("Run/a", "1"), summary("Run/b", "2")], ["Run/a", "Run/b"]),
    )
    for records, kept in cases:
        assert [s.id for s in group_records(records).by_key["key"]] == kept
    apart = [summary("Run/a", "1", "imported", key="k"), summary("Run/b", "2", "imported", name="n")]
    assert sum(map(len, group_records(apart).by_key.values())) == 2


def test_a_record_that_is_not_there_is_named_with_why(paths: RepositoryPaths) -> None:
    with pytest.raises(RecordError) as caught:
        load_record(paths, "Run/none-0")
    assert caught.value.message == "no record Run/none-0: No such file or directory"
    assert caught.value.fix == "restore it from git"
