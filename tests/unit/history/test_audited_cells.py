"""What an audit claims of one cell's records: inputs, logs, marks, and what they were made from."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.diff.change import Chosen
from reconciler.diff.claims import Claim, Proof
from reconciler.history.audit import audit_cell
from reconciler.history.logs import Logs
from reconciler.resource.decisions import Acceptance, AcceptedInput, AcceptedKey, KeyChange
from reconciler.resource.inputs import digest_inputs
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Ended, Record, RecordedInput

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


class NoChecks:
    """In place of what records say of each other."""

    def __init__(self, _: object) -> None:
        pass

    def verify(self, *_: object) -> list[Claim]:
        return []

    verify_others = verify_code = verify_roles = verify


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
