"""A log of an earlier run that came again with other dates: whatever else was changed, the run is known."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.diff.claims import Proof
from reconciler.history.audit import audit
from reconciler.history.pull_request import find_forgeries
from reconciler.history.runs import DISTINCT
from reconciler.history.snapshot import read_snapshot
from reconciler.loadgen.log_files import DETAIL
from reconciler.record.codec import decode
from reconciler.record.store import write_record
from reconciler.resource.records import Artifact, Ended, Record
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths
from tests.acceptance.conftest import console as console_here
from tests.passes.repository import Repository
from tests.shared import copy_folder
from tests.unit.cli.conftest import SPEC, recorded, recorded_once
from tests.unit.cli.conftest import git as git_here
from tests.unit.loadgen.conftest import loadgen_run
from tests.unit.loadgen.lies import moved

__all__ = ["loadgen_run", "recorded", "recorded_once"]

DAYS = 3


def redate(data: bytes) -> bytes:
    """Every date that LoadGen logs, by as much."""
    text = moved("power_end", days=DAYS)(moved("power_begin", days=DAYS)(data.decode()))
    shape = re.compile(r'("key": "test_datetime", "value": ")([^"]+)Z')
    form = "%Y-%m-%dT%H:%M:%S"
    later = lambda found: (datetime.strptime(found[2], form) + timedelta(days=DAYS)).strftime(form)  # noqa: E731
    changed, count = shape.subn(lambda found: f"{found[1]}{later(found)}Z", text)
    assert count == 1
    return changed.encode()


def record_again(root: Path, mode: str, edit: Callable[[bytes], bytes], **as_if: Any) -> None:
    """A second record of a run, three days later, with an edited copy of its log and these fields; both in a commit."""
    for path in sorted((root / "state/records/Run").glob("*.json")):
        record = decode(path.read_bytes(), path.name)
        if record.address.mode != mode:
            continue
        record = replace(record, **as_if)
        (old,) = [a for a in record.artifacts if a.name == DETAIL]
        data = edit((root / "state/logs" / old.sha256).read_bytes())
        new = old._replace(sha256=hashlib.sha256(data).hexdigest(), size=len(data))
        (root / "state/logs" / new.sha256).write_bytes(data)
        write_record(RepositoryPaths(root), _follow(record, tuple(new if a is old else a for a in record.artifacts)))
    Repository(root).commit()


def _follow(record: Record, artifacts: tuple[Artifact, ...]) -> Record:
    later = (datetime.fromisoformat(record.started) + timedelta(days=DAYS)).isoformat()
    return replace(record, started=later, attempt=f"{record.attempt}x", artifacts=artifacts)


def find_contradicted(root: Path) -> dict[str, str]:
    found = audit(root, read_snapshot(root, git.resolve(root, "HEAD")))
    return {claim.what: claim.detail for claim in found.claims if claim.proof is Proof.CONTRADICTED}


@pytest.mark.parametrize("mode", ["performance", "accuracy"])
def test_an_older_log_with_all_of_its_dates_changed_is_named(recorded: Path, mode: str) -> None:
    record_again(recorded, mode, redate)
    assert f"Run {mode}: {DISTINCT}" in find_contradicted(recorded)


def test_a_log_that_came_again_in_an_attempt_that_failed_is_not_claimed_by_it(recorded: Path) -> None:
    record_again(recorded, "performance", redate, ended=Ended.FAILED, problem="the disk was full", values={})
    assert f"Run performance: {DISTINCT}" not in find_contradicted(recorded)


def test_a_pull_request_that_brings_such_a_log_is_named(recorded: Path) -> None:
    base = git.resolve(recorded, "HEAD")
    record_again(recorded, "performance", redate)
    found = find_forgeries(recorded, base, read_snapshot(recorded, git.resolve(recorded, "HEAD")))
    assert any(f"Run performance: {DISTINCT}" in remark.message for remark in found)


def test_a_log_that_only_got_other_line_ends_is_the_same_run(recorded: Path) -> None:
    record_again(recorded, "performance", lambda data: data.replace(b"\n", b"\r\n"))
    assert f"Run performance: {DISTINCT}" not in find_contradicted(recorded)


TWICE = SPEC.replace(
    "  divisions:",
    """\
    numerals:
      as: resnet
      code: digits
      model: {settings: {epochs: 2}}
      engine: {backend: "null", batch_size: 8}
  divisions:""",
).replace(
    "        digits:\n",
    """\
        numerals:
          Offline: {target_qps: 1000, min_duration: 0, min_query_count: 512}
        digits:
""",
)


@pytest.fixture(scope="module")
def two_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two models on one system, each with runs of its own. Not to be changed."""
    root = tmp_path_factory.mktemp("two") / "repository"
    (root / "specs").mkdir(parents=True)
    (root / "specs/one.yaml").write_text(TWICE)
    (root / ".gitignore").write_text(".reconcile/\n")
    git_here(root, "init", "--quiet", "--initial-branch=main")
    Repository(root).commit()
    ended = console_here(root, "--commit")
    assert ended.code == 0, ended.out + ended.err
    return root


@pytest.mark.parametrize("mode", ["performance", "accuracy"])
def test_a_log_recorded_for_two_benchmarks_is_named_in_both(two_results: Path, tmp_path: Path, mode: str) -> None:
    root = copy_folder(two_results, tmp_path / "repository")
    assert not find_contradicted(root)
    base, runs = git.resolve(root, "HEAD"), dict[str, Record]()
    for path in sorted((root / "state/records/Run").glob("*.json")):
        record = decode(path.read_bytes(), path.name)
        if record.address.mode == mode and record.address.cell is not None:
            runs[record.address.cell.benchmark] = record
    claimed = _follow(runs["digits"], runs["numerals"].artifacts)
    write_record(RepositoryPaths(root), replace(claimed, values=runs["numerals"].values))
    Repository(root).commit()

    at = read_snapshot(root, git.resolve(root, "HEAD"))
    copies = [c for c in audit(root, at).claims if c.what == f"Run {mode}: {DISTINCT}"]
    assert {(c.where, c.proof) for c in copies} == {
        (f"open/box/{name}/Offline", Proof.CONTRADICTED) for name in ("digits", "numerals")
    }
    assert any(DISTINCT in remark.message for remark in find_forgeries(root, base, at))
