"""What is kept of commits between two processes: believed where it fits, and never by who audits."""

from __future__ import annotations

import json
import subprocess
import tempfile
import zlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.diff.claims import Proof
from reconciler.errors import RecordError
from reconciler.history.commit_records import CommitRecords, Committed, RecordReader
from reconciler.history.logs import Logs
from reconciler.loadgen.log_files import hash_log
from reconciler.record.codec import decode
from reconciler.record.store import write_record
from reconciler.resource.inputs import Input, make_key
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Artifact, Ended, Record, RecordedInput
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths
from tests.benchmarks.history import make
from tests.passes.repository import Repository
from tests.unit.cli.conftest import Reconcile, reconcile, recorded, recorded_once
from tests.unit.cli.conftest import git as git_here
from tests.unit.record.test_codec import PLAIN

__all__ = ["reconcile", "recorded", "recorded_once"]

MARGIN = {"measured": "9", "limit": "10", "unit": "ms", "met": True}
CACHE = ".reconcile/index/committed-records.msgpack"


def read(root: Path, index: Path | None, commit: str = "HEAD") -> Committed:
    reader = RecordReader(index)
    found = reader.read(root, git.resolve(root, commit))
    reader.save()
    return found


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda _: b"", lambda data: data.replace(b"Done", b"Dome")])
def test_what_was_damaged_is_read_again(recorded: Path, damage: object) -> None:
    index = recorded / ".reconcile/index"
    first = read(recorded, index)
    assert first.summaries
    path = recorded / CACHE
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    assert read(recorded, index).summaries == first.summaries


def test_records_of_another_commit_are_distinguished_and_opened_when_asked_for(recorded: Path) -> None:
    index = recorded / ".reconcile/index"
    assert not read(recorded, index, "HEAD~1").summaries
    before = read(recorded, index)
    again = read(recorded, index)
    assert dict(again.summaries) == dict(before.summaries)
    assert {identity: again.records[identity] for identity in again.records} == dict(before.records)
    with pytest.raises(KeyError):
        again.records["Run/none"]


def edit_file(path: Path) -> None:
    path.write_text(path.read_text().replace('"Done"', '"Failed"'))


def test_a_record_that_was_committed_changed_is_damaged(recorded: Path) -> None:
    path = min((recorded / "state/records/Run").glob("*.json"))
    edit_file(path)
    Repository(recorded).commit()
    found = RecordReader().read(recorded, git.resolve(recorded, "HEAD"))
    assert set(found.damaged) == {path.relative_to(recorded).as_posix()}


def test_an_audit_believes_no_cache(recorded: Path, reconcile: Reconcile) -> None:
    """The words of a cache are replaced under a checksum that fits."""
    before = reconcile("audit", "--json")
    reconcile("pr", "--base", "HEAD~1")
    for path in (recorded / ".reconcile/index").glob("committed-*"):
        data = path.read_bytes().partition(b"\n")[2].replace(b"VALID", b"LAVID")
        path.write_bytes(b"%08x\n" % zlib.crc32(data) + data)
    assert reconcile("audit", "--json") == before


def test_a_record_that_left_the_clone_is_an_error_that_says_so(recorded: Path) -> None:
    found = read(recorded, None)
    (identity, *_) = found.records
    lost = CommitRecords(recorded, {identity: (f"state/records/{identity}.json", "0" * 40)}, {})
    with pytest.raises(RecordError, match="not in this clone"):
        lost[identity]


def test_a_margin_is_thin_below_two_per_cent_of_headroom_to_a_latency(tmp_path: Path) -> None:
    rooms = {"0": True, "1.99": True, "2": False, "-0.01": False, "": False}
    other = ({"name": "tail latency", "headroom": "1", **MARGIN}, {"name": "queries", "headroom": "1", **MARGIN})
    all_of_them = [
        *([{"name": "p99 latency", "headroom": room, **MARGIN}] for room in rooms),
        [],
        [*other, {"name": "p97 latency", "headroom": "0.5", **MARGIN}],
    ]
    git_here(tmp_path, "init", "--quiet")
    written = [
        write_record(RepositoryPaths(tmp_path), replace(PLAIN, attempt=str(number), values={"margins": margins}))
        for number, margins in enumerate(all_of_them)
    ]
    Repository(tmp_path).commit()
    found = RecordReader().read(tmp_path, git.resolve(tmp_path, "HEAD"))
    assert (sorted(found.summaries), found.damaged) == (sorted(written), {})
    assert [found.thin.get(identity) for identity in written] == [
        *((f"p99 latency has {room} % of headroom (9 of 10)",) if thin else None for room, thin in rooms.items()),
        None,
        ("tail latency has 1 % of headroom (9 of 10)", "p97 latency has 0.5 % of headroom (9 of 10)"),
    ]


def test_runs_that_met_a_bound_only_just_are_reported_in_pr_each_time(recorded: Path, reconcile: Reconcile) -> None:
    margin = {"name": "p99 latency", "headroom": "1.5", "measured": "9.85", "limit": "10", "unit": "ms", "met": True}
    for path in (recorded / "state/records/Run").glob("*.json"):
        record = decode(path.read_bytes(), path.name)
        if record.address.mode == "performance":
            path.unlink()
            values = {**record.values, "margins": [margin]}
            write_record(RepositoryPaths(recorded), replace(record, values=values))
    Repository(recorded).commit()
    for _ in range(2):
        remarks = reconcile.report("pr", "--base", "HEAD~1")["remarks"]
        reported = [r["message"] for r in remarks if r["level"] == "warning" and "headroom" in r["message"]]
        assert len(reported) == 1
        assert "9.85 of 10" in reported[0]


def test_pr_derives_touched_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile) -> None:
    """Made-up runs, whose logs say nothing of what their records say."""
    make(tmp_path, 4, 3)
    monkeypatch.chdir(tmp_path)
    code, out, _ = reconcile("pr", "--base", "HEAD~1", "--json")
    found = json.loads(out)
    denied = {remark["message"].partition(":")[0] for remark in found["remarks"] if remark["level"] == "error"}
    assert code == 1
    assert denied == {cell["cell"] for cell in found["cells"]}
    assert len(denied) == 48


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
    names = {hash_log(data): f"blob {number}" for number, data in enumerate(contents)}
    reader = Reader(dict(zip(names.values(), contents, strict=True)))
    logs = Logs(names, reader)  # type: ignore[arg-type]
    for digest, data in zip(names, contents, strict=True):
        assert logs.read_proven(digest) == data
    first, *rest = names
    for digest in (*rest, first):
        logs.read_proven(digest)
    assert reader.asked == ["blob 0", "blob 1", "blob 2", "blob 0"]


def test_a_log_is_what_its_name_says_or_is_not_believed() -> None:
    good, lost, other = (hash_log(data) for data in (b"good", b"lost", b"other"))
    logs = Logs({good: "1", other: "2"}, Reader({"1": b"good", "2": b"edited"}))  # type: ignore[arg-type]
    asked = [Artifact("", digest, 0, "logs") for digest in (good, lost, other)]
    assert logs.read(asked) == {good: b"good"}
    assert logs.checked == {good: Proof.PROVEN, lost: Proof.MISSING, other: Proof.CONTRADICTED}


_LABS = ("one", "other")
# Which lab does what next. A lab may well record the very outcome that the other has: the same key, the same bytes.
_ACTS = st.lists(st.tuples(st.sampled_from(_LABS), st.sampled_from(("record", "merge")), st.integers(0, 3)), max_size=9)


def run(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def outcome(number: int, minute: int) -> Record:
    address = Address(Kind.RUN, f"open/system-{number}/digits/Offline/performance")
    when = datetime(2026, 1, 5, tzinfo=UTC) + timedelta(minutes=minute)
    return Record(
        address=address,
        key=make_key(Kind.RUN, [Input("target_qps", number)]),
        revision=1,
        ended=Ended.DONE,
        started=when.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        seconds=1.0,
        attempt=f"{when:%Y%m%dT%H%M%S.%f}-1",
        inputs={"target_qps": RecordedInput(number, "specs/a.yaml:1")},
    )


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(_ACTS)
def test_records_of_two_labs_merge_without_conflict(acts: list[tuple[str, str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        run(top, "init", "--quiet", "--bare", "--initial-branch=main", "shared.git")
        for lab in _LABS:
            run(top, "clone", "--quiet", str(top / "shared.git"), lab)
        run(top / "one", "commit", "--quiet", "--allow-empty", "--message", "Begin")
        run(top / "one", "push", "--quiet", "origin", "HEAD:main")
        run(top / "other", "pull", "--quiet", "origin", "main")
        written: set[str] = set()
        for minute, (lab, act, number) in enumerate([*acts, *((lab, "merge", 0) for lab in (*_LABS, "one"))]):
            root = top / lab
            if act == "record":
                written.add(write_record(RepositoryPaths(root), outcome(number, minute // 2)))
                git.commit(root, ["state/records"], "Record outcomes")
            else:
                run(root, "fetch", "--quiet", "origin")
                run(root, "merge", "--quiet", "--no-edit", "origin/main")  # ends with 1 on a conflict
                run(root, "push", "--quiet", "origin", "HEAD:main")
        for lab in _LABS:
            committed = RecordReader().read(top / lab, "HEAD")
            assert set(committed.records) == written
            assert not committed.damaged
