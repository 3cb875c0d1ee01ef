"""Two labs that record on one branch, in any order, merge without a conflict and lose nothing."""

from __future__ import annotations

import subprocess
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.history.commit_records import RecordReader
from reconciler.record.store import write_record
from reconciler.resource.inputs import Input, make_key
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Ended, Record, RecordedInput
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths

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
