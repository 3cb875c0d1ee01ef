"""A repository that version 0.1.0 made: whatever changes in the code, what it stored stays valid.

``made_by_0_1/repository`` is its checkout: runs of the null backend with compliance tests, of a command with a service
and of the endpoints harness, an INVALID run, failed attempts, an acceptance and a freeze. Its systems declare machines
that nobody has, so that every pin comes from the records. ``saved.json`` is its plan after a batch size was edited,
``attempts`` are attempts that had finished when their pass was killed, ``harvested`` the records that 0.1.0 made of
them. Never renew these files: where one no longer passes, old repositories need a migration.
"""

from __future__ import annotations

import json
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from reconciler.diff.claims import Proof
from reconciler.history.audit import audit
from reconciler.history.snapshot import read_snapshot
from reconciler.plan.plan import Plan
from reconciler.plan.saved import encode_plan, load, refuse_stale
from reconciler.record.codec import decode, encode, make_record_id
from reconciler.record.decisions import read, write
from reconciler.resource.decisions import AcceptanceStatus
from reconciler.resource.records import Ended
from reconciler.storage import git
from tests.passes.conftest import allow_any_speed
from tests.passes.repository import HERE, Repository
from tests.shared import hash_tree

MADE = HERE / "made_by_0_1"
RECORDS = sorted([*MADE.glob("repository/state/records/*/*.json"), *MADE.glob("harvested/*.json")])
ATTEMPTS = sorted(path.name for path in (MADE / "attempts").iterdir())
RESOURCES = 28
UNTOUCHED = "935ed1d6c91854b55fc9160146598e9c149e65687e5a263e68e3de26ab27edb4"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    shutil.copytree(MADE / "repository", tmp_path / "repository")
    found = Repository(tmp_path / "repository")
    found.commit()
    return found


def test_nobody_has_touched_it() -> None:
    assert hash_tree(MADE) == UNTOUCHED


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_record_keeps_its_bytes(path: Path) -> None:
    data = path.read_bytes()
    record = decode(data, path.name)
    assert encode(record) == data
    if path.parent.name != "harvested":
        assert make_record_id(record.address, record.key, data) == f"{path.parent.name}/{path.stem}"


def test_it_holds_what_a_migration_may_meet(repository: Repository) -> None:
    records = list(repository.records().values())
    assert {str(r.address.kind) for r in records} == {
        *("Dataset", "Model", "Service", "Run", "Score", "ComplianceTest", "Verdict")
    }
    assert {r.ended for r in records} == {Ended.DONE, Ended.FAILED}
    assert {r.values.get("validity", "") for r in records} == {"", "VALID", "INVALID"}
    assert any(r.supersedes for r in records)


def test_nothing_is_to_be_done(repository: Repository) -> None:
    found = repository.look()
    assert not found.damaged
    assert [str(step.change.address) for step in found.plan.steps] == []
    assert found.plan.unchanged == RESOURCES
    assert {finding.kind for finding in found.plan.findings} == {"Invalid", "MissingCell"}
    ((_, acceptance, status),) = found.plan.acceptances
    assert (str(acceptance.cell), status) == ("closed/edge/tiny/Offline", AcceptanceStatus.IN_FORCE)
    assert [str(freeze.cell) for freeze in found.plan.frozen] == ["open/rack/llama3.1-8b/Offline"]


def test_an_audit_contradicts_nothing_of_it(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules of a round may be read otherwise since: that is no edit of a record."""
    allow_any_speed(monkeypatch, percent=10)  # as the round allows, and as its verdicts state
    found = audit(repository.root, read_snapshot(repository.root, git.resolve(repository.root, "HEAD")))
    assert [(c.where, c.what, c.detail) for c in found.claims if c.proof is Proof.CONTRADICTED] == []


def test_its_caches_do_not_matter(repository: Repository) -> None:
    shutil.copytree(MADE / "index", repository.paths.index)
    assert not repository.look().plan.steps
    repository.reconcile()
    assert not repository.look().plan.steps


def test_its_saved_plan_is_still_accepted(repository: Repository) -> None:
    repository.edit("specs/runs.yaml", "fp32, batch_size: 8}", "fp32, batch_size: 4}")
    saved, fresh = load(MADE / "saved.json"), repository.look().plan
    refuse_stale(saved, fresh)
    assert _essence(saved) == _essence(fresh)


def _essence(plan: Plan) -> list[dict[str, Any]]:
    """What its steps do and why, without words for people."""
    names = ("address", "key", "action", "reason", "how", "previous", "shared", "inputs")
    return [{name: step[name] for name in names} for step in encode_plan(plan)["steps"]]


def test_a_saved_plan_keeps_its_document() -> None:
    path = MADE / "saved.json"
    assert json.loads(json.dumps(encode_plan(load(path)))) == json.loads(path.read_bytes())


def test_decisions_keep_their_bytes(repository: Repository) -> None:
    decisions = read(repository.paths, date(2026, 12, 1))
    assert not decisions.damaged
    for path, decision in [*decisions.acceptances.items(), *decisions.freezes.items()]:
        before = (repository.root / path).read_bytes()
        (repository.root / path).unlink()
        assert write(repository.paths, decision) == path
        assert (repository.root / path).read_bytes() == before


@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_finished_attempt_becomes_the_same_record(repository: Repository, name: str) -> None:
    folder = repository.paths.attempts / name
    shutil.copytree(MADE / "attempts" / name, folder)
    (folder / "output").mkdir(exist_ok=True)
    assert repository.reconcile().harvested == 1
    assert not folder.exists()
    expected = (MADE / "harvested" / f"{name}.json").read_bytes()
    assert expected in {path.read_bytes() for path in repository.paths.records.glob("*/*.json")}
