"""What an audit claims of one cell's records: inputs, logs, marks, and what they were made from."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.diff.change import Chosen
from reconciler.diff.claims import Proof
from reconciler.history.audit import audit_cell
from reconciler.history.logs import Logs
from reconciler.resource.decisions import Acceptance, AcceptedInput, AcceptedKey, KeyChange
from reconciler.resource.inputs import digest_inputs
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import IMPORTED, Artifact, Ended, Record, RecordedInput
from reconciler.storage.files import hash_bytes
from tests.unit.history.test_audit_order import NoChecks

CELL = Cell("open", "box", "net", "Offline")
TEST = Address(Kind.COMPLIANCE_TEST, f"{CELL}/TEST04")
KEY = digest_inputs(Kind.COMPLIANCE_TEST, {"target_qps": "100"})
RECORD = Record(
    TEST,
    KEY,
    1,
    Ended.DONE,
    "2026-03-01T12:00:00Z",
    1,
    "",
    {"target_qps": RecordedInput("100", ""), "no": RecordedInput(None, "")},
)


class Reader:
    """Each log is its own blob."""

    def read(self, wanted: Iterable[str]) -> dict[str, bytes]:
        return {name: name.encode() for name in wanted}


def claim(
    record: Record,
    *,
    asked: str | None = KEY,
    marks: tuple[str, ...] = (),
    others: dict[str, Record] | None = None,
    blobs: dict[str, str] | None = None,
    accepted: Acceptance | None = None,
) -> dict[str, tuple[Proof, str]]:
    """What is claimed of a test's record. ``asked``: the key that the spec asks for, None where it asks for no test;
    ``marks``: what the spec makes of it."""
    chosen = {CELL: Chosen(tests=(("TEST04", "Test/a"), ("TEST01", "Test/none")))}
    at: Any = SimpleNamespace(
        difference=SimpleNamespace(chosen=chosen, accepted={CELL: accepted} if accepted else {}),
        records={"Test/a": record, **(others or {})},
        declared=lambda _: None if asked is None else SimpleNamespace(address=TEST, key=asked),
        desired=SimpleNamespace(detail=lambda _: SimpleNamespace(marks=marks)),
    )
    found = list(audit_cell(CELL, at, Logs(blobs or {}, Reader()), published=True, checks=NoChecks(at)))  # type: ignore[arg-type]
    assert {told.where for told in found} <= {str(CELL)}
    return {told.what: (told.proof, told.detail) for told in found}


def test_inputs_are_proven_where_they_give_the_key_that_the_spec_asks_for() -> None:
    assert claim(RECORD) == {"TEST04: inputs": (Proof.PROVEN, f"2 inputs give key {KEY[:12]}, as the spec does")}


def test_inputs_that_the_key_or_the_spec_denies_are_contradicted() -> None:
    edited = replace(RECORD, inputs={"target_qps": RecordedInput("200", "")})
    wrong = "the key is not that of the inputs it lists"
    assert claim(edited) == {"TEST04: inputs": (Proof.CONTRADICTED, wrong)}
    others = "the spec of this commit asks for other inputs"
    assert claim(RECORD, asked="b" * 64) == {"TEST04: inputs": (Proof.CONTRADICTED, others)}
    assert claim(RECORD, asked=None) == {"TEST04: inputs": (Proof.CONTRADICTED, others)}


@pytest.mark.parametrize(
    ("address", "before", "counts"), [(TEST, KEY, True), (TEST, "a" * 64, False), (Address(Kind.RUN, "x"), KEY, False)]
)
def test_inputs_that_were_accepted_count_for_the_record_that_was_accepted(
    address: Address, before: str, counts: bool
) -> None:
    inputs = {"target_qps": AcceptedInput("100", "200", "specs/a.yaml:3")}
    keys = (AcceptedKey(address, KeyChange(before, "b" * 64), inputs),)
    accepted = Acceptance(CELL, "it is as fast", "Ann <ann@lab>", "2026-03-01", date(2026, 4, 1), "", keys)
    said = "not those that the spec asks for: target_qps 100 → 200, until 2026-04-01, by Ann: it is as fast"
    expected = (
        (Proof.ACCEPTED, said) if counts else (Proof.CONTRADICTED, "the spec of this commit asks for other inputs")
    )
    assert claim(RECORD, asked="b" * 64, accepted=accepted) == {"TEST04: inputs": expected}


def test_logs_are_what_was_recorded_or_are_told() -> None:
    good, edited, lost = (hash_bytes(data) for data in (b"good", b"edited", b"lost"))
    kept = [("good.txt", good), ("edited.txt", edited), ("lost.txt", lost)]
    artifacts = (*(Artifact(name, sha256, 1, "logs") for name, sha256 in kept), Artifact("model", lost, 1, "objects"))
    found = claim(replace(RECORD, artifacts=artifacts), blobs={good: "good", edited: "other"})
    del found["TEST04: inputs"]
    assert found == {
        "TEST04: good.txt": (Proof.PROVEN, f"SHA-256 {good[:12]}"),
        "TEST04: edited.txt": (Proof.CONTRADICTED, f"the bytes are not those that were recorded as {edited[:12]}"),
        "TEST04: lost.txt": (Proof.MISSING, f"state/logs/{lost[:12]} is not in this commit"),
    }


def test_what_a_record_was_made_from_is_in_the_commit() -> None:
    engine = replace(RECORD, address=Address(Kind.ENGINE, "e"), upstream={"model": "Model/m"})
    model = replace(engine, address=Address(Kind.MODEL, "m"), upstream={"dataset": "Dataset/d", "engine": "Engine/e"})
    record = replace(RECORD, upstream={"engine": "Engine/e"})
    told = "TEST04: made from"
    assert claim(record)[told] == (Proof.MISSING, "the record of its engine is not in this commit: Engine/e")
    assert claim(record, others={"Engine/e": engine})[told] == (
        Proof.MISSING,
        "the record of its model is not in this commit: Model/m",
    )
    both = {"Engine/e": engine, "Model/m": model}
    assert claim(record, others=both)[told][1] == "the record of its dataset is not in this commit: Dataset/d"
    assert told not in claim(record, others={**both, "Dataset/d": RECORD})


@pytest.mark.parametrize(
    ("given", "marks", "lost"),
    [
        ((), (), ""),
        (("rehearsal",), ("rehearsal",), ""),
        ((), ("rehearsal",), ""),
        (("rehearsal",), (), "rehearsal"),
        (("rehearsal", "synthetic"), ("synthetic",), "rehearsal"),
        (("rehearsal", "synthetic"), (), "rehearsal and synthetic"),
    ],
)
def test_marks_that_the_spec_gives_stand_in_the_record(
    given: tuple[str, ...], marks: tuple[str, ...], lost: str
) -> None:
    found = claim(replace(RECORD, marks=marks), marks=given)
    said = (Proof.CONTRADICTED, f"the spec makes it {lost}, and the record does not say so")
    assert found.get("TEST04: marks") == (said if lost else None)


@pytest.mark.parametrize(
    ("marks", "declared", "said"),
    [
        ((), {"code": "x"}, None),
        ((IMPORTED,), {}, None),
        ((IMPORTED,), {"code": "x", "model": "y"}, (Proof.ATTESTED, "code, model as declared by a person")),
        ((IMPORTED, "unknown code"), {}, (Proof.MISSING, "nobody has declared its code")),
        (
            (IMPORTED, "unknown code", "unknown model"),
            {"x": ""},
            (Proof.MISSING, "nobody has declared its code, model"),
        ),
    ],
)
def test_imported_run_is_as_good_as_what_a_person_declared(
    marks: tuple[str, ...], declared: dict[str, str], said: tuple[Proof, str] | None
) -> None:
    run = replace(
        RECORD, address=Address(Kind.RUN, f"{CELL}/x"), marks=marks, values={"imported": {"declared": declared}}
    )
    assert claim(run, marks=("rehearsal",) if marks else ()).get("TEST04: made from") == said
