"""What an audit claims of records that somebody edited, or took away: from a commit alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.diff.claims import Proof
from reconciler.history.audit import audit
from reconciler.history.snapshot import read_snapshot
from reconciler.record.codec import decode
from reconciler.record.store import write_record
from reconciler.resource.kinds import Kind
from reconciler.resource.records import IMPORTED, Record, RecordedInput
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths
from tests.passes.repository import Repository
from tests.unit.cli.conftest import CELL, recorded, recorded_once

__all__ = ["recorded", "recorded_once"]

Edit = Callable[[Record], Record]


def rewrite(root: Path, mode: str, edit: Edit) -> Record:
    """The run of this mode with a record of other words, under the name that these give it; in a commit."""
    for path in sorted((root / "state/records/Run").glob("*.json")):
        record = decode(path.read_bytes(), path.name)
        if record.address.mode == mode:
            path.unlink()
            write_record(RepositoryPaths(root), edit(record))
            Repository(root).commit()
            return record
    raise AssertionError(mode)


def find(root: Path, what: str) -> list[tuple[Proof, str]]:
    claims = audit(root, read_snapshot(root, git.resolve(root, "HEAD"))).claims
    found = [claim for claim in claims if claim.what == what]
    assert {claim.where for claim in found} <= {CELL}
    return [(claim.proof, claim.detail) for claim in found]


def ask(**values: object) -> Edit:
    """Inputs with other values than the key was made of."""
    return lambda r: replace(r, inputs={**r.inputs, **{n: RecordedInput(v, "x:1") for n, v in values.items()}})


@pytest.mark.parametrize(
    ("edit", "proof"),
    [
        (lambda r: replace(r, tool="another"), Proof.PROVEN),
        (ask(nothing=None), Proof.PROVEN),
        (ask(scenario="Server"), Proof.CONTRADICTED),
        (ask(more="1"), Proof.CONTRADICTED),
        (lambda r: replace(r, inputs={n: i for n, i in r.inputs.items() if n != "scenario"}), Proof.CONTRADICTED),
    ],
    ids=["same", "unset", "changed", "added", "removed"],
)
def test_a_key_is_that_of_the_inputs_next_to_it(recorded: Path, edit: Edit, proof: Proof) -> None:
    old = rewrite(recorded, "performance", edit)
    ((found, said),) = find(recorded, "performance: inputs")
    assert found is proof
    assert (old.key[:12] in said) is (proof is Proof.PROVEN)
    ((other, _),) = find(recorded, "accuracy: inputs")
    assert other is Proof.PROVEN


ODD = ("scenario", None), ("scenario", "Nowhere"), ("scenario", 7), ("mode", None), ("mode", "odd"), ("mode", ["x"])
ODD += ("min_duration", "long"), ("target_qps", []), ("qsl_rng_seed", "x"), ("audit.mode", {})


@pytest.mark.parametrize(("name", "value"), ODD)
@pytest.mark.parametrize("mode", ["performance", "accuracy"])
def test_inputs_that_no_run_has_are_contradicted(recorded: Path, mode: str, name: str, value: object) -> None:
    rewrite(recorded, mode, ask(**{name: value}))
    ((proof, _),) = find(recorded, f"{mode}: inputs")
    assert proof is Proof.CONTRADICTED


def test_settings_of_a_run_that_does_not_say_its_scenario_are_contradicted(recorded: Path) -> None:
    """And everything else of the commit is audited all the same."""
    rewrite(recorded, "accuracy", lambda r: replace(r, inputs={n: i for n, i in r.inputs.items() if n != "scenario"}))
    ((proof, detail),) = find(recorded, "accuracy: settings")
    assert (proof, "'scenario'" in detail) == (Proof.CONTRADICTED, True)
    ((proof, _),) = find(recorded, "performance: settings")
    assert proof is Proof.PROVEN


@pytest.mark.parametrize("kind", [Kind.MODEL, Kind.DATASET])
def test_what_a_run_was_made_from_is_in_the_commit(recorded: Path, kind: Kind) -> None:
    """Also what that was made from; each is named once."""
    whats = [f"{name}: made from" for name in ("performance", "accuracy", "score")]
    assert all(find(recorded, what) == [] for what in whats)
    (path,) = (recorded / "state/records" / str(kind)).glob("*.json")
    path.unlink()
    Repository(recorded).commit()
    for what in whats:
        ((proof, detail),) = find(recorded, what)
        assert (proof, f"{kind}/{path.stem}" in detail) == (Proof.MISSING, True)


def test_a_record_has_the_marks_that_its_spec_gives_it(recorded: Path) -> None:
    assert find(recorded, "performance: marks") == []
    rewrite(recorded, "performance", lambda r: replace(r, marks=tuple(m for m in r.marks if m != "rehearsal")))
    ((proof, detail),) = find(recorded, "performance: marks")
    assert (proof, "rehearsal" in detail) == (Proof.CONTRADICTED, True)
    assert find(recorded, "accuracy: marks") == []


@pytest.mark.parametrize(
    ("marks", "declared", "proof", "said"),
    [
        ((), {}, Proof.MISSING, ""),
        ((IMPORTED,), {}, Proof.MISSING, ""),
        ((IMPORTED,), {"code": "x", "engine": "y"}, Proof.ATTESTED, "code, engine"),
        ((IMPORTED, "unknown code", "unknown engine"), {"code": "x"}, Proof.MISSING, "code, engine"),
    ],
    ids=["own", "silent", "declared", "unknown"],
)
def test_of_an_imported_run_it_is_said_who_declared_what_it_was_made_from(
    recorded: Path, marks: tuple[str, ...], declared: dict[str, str], proof: Proof, said: str
) -> None:
    def edit(record: Record) -> Record:
        values = {**record.values, "imported": {"declared": declared}}
        return replace(record, marks=(*record.marks, *marks), values=values)

    rewrite(recorded, "performance", edit)
    found = find(recorded, "performance: made from")
    assert [(proof, said in detail) for proof, detail in found] == ([(proof, True)] if said else [])
