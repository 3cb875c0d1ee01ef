"""What an audit claims of one cell's records: inputs, logs, marks, and what they were made from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.desired.detail import Detail
from reconciler.diff.change import Chosen
from reconciler.diff.claims import Claim, Proof
from reconciler.history.audit import audit_cell, verify_described
from reconciler.history.logs import Logs
from reconciler.history.runs import verify_runs
from reconciler.loadgen.log_files import ACCURACY_TEXT
from reconciler.resource.decisions import Acceptance, AcceptedInput, AcceptedKey, KeyChange
from reconciler.resource.inputs import Role, digest_inputs
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Artifact, Ended, Record, RecordedFact, RecordedInput
from reconciler.resource.ruled_values import AccuracyLogRule, Bar, Metric
from reconciler.resource.settings import SystemSettings
from reconciler.rules.context import RuleContext

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
        list_declared=lambda _: None if asked is None else SimpleNamespace(address=TEST, key=asked),
        desired=SimpleNamespace(detail=lambda _: SimpleNamespace(marks=marks)),
    )
    found = list(audit_cell(CELL, at, Logs(blobs or {}, Reader()), published=True, checks=NoChecks(at)))  # type: ignore[arg-type]
    assert {reported.where for reported in found} <= {str(CELL)}
    return {reported.what: (reported.proof, reported.detail) for reported in found}


def test_inputs_that_the_key_or_the_spec_denies_are_contradicted() -> None:
    edited = replace(RECORD, inputs={"target_qps": RecordedInput("200", "")})
    for found in (claim(edited), claim(RECORD, asked="b" * 64), claim(RECORD, asked=None)):
        assert {what: proof for what, (proof, _) in found.items()} == {"TEST04: inputs": Proof.CONTRADICTED}
    assert claim(RECORD, asked="b" * 64) == claim(RECORD, asked=None) != claim(edited)


@pytest.mark.parametrize(
    ("address", "before", "counts"), [(TEST, KEY, True), (TEST, "a" * 64, False), (Address(Kind.RUN, "x"), KEY, False)]
)
def test_accepted_inputs_count_for_the_accepted_record(address: Address, before: str, counts: bool) -> None:
    inputs = {"target_qps": AcceptedInput("100", "200", "specs/a.yaml:3")}
    keys = (AcceptedKey(address, KeyChange(before, "b" * 64), inputs),)
    accepted = Acceptance(CELL, "it is as fast", "Ann <ann@lab>", "2026-03-01", date(2026, 4, 1), "", keys)
    proof, detail = claim(RECORD, asked="b" * 64, accepted=accepted)["TEST04: inputs"]
    assert proof is (Proof.ACCEPTED if counts else Proof.CONTRADICTED)
    said = "target_qps 100 → 200, until 2026-04-01, by Ann: it is as fast"
    assert detail.endswith(said) is counts


COUNT, NODES = "accelerators_per_node", "number_of_nodes"


def verify(described: dict[str, object], ran: dict[str, object], placed: object = None) -> list[tuple[str, Proof, str]]:
    systems = {"box": SystemSettings(description=described), "other": SystemSettings(description={COUNT: "99"})}
    at: Any = SimpleNamespace(desired=SimpleNamespace(submission=SimpleNamespace(systems=systems)))
    record: Any = SimpleNamespace(
        inputs={f"hardware.{name}": RecordedInput(value, "specs/a.yaml:1") for name, value in ran.items()},
        facts={} if placed is None else {"machine.nodes": RecordedFact(placed, Role.NOTE)},
    )
    found = list(verify_described(CELL, "performance", record, at))
    assert {claim.where for claim in found} <= {str(CELL)}
    return [(claim.what, claim.proof, claim.detail) for claim in found]


def of(field: str, stated: str, ran: str) -> tuple[str, Proof, str]:
    return (f"performance: {field}", Proof.CONTRADICTED, {stated, ran})


@pytest.mark.parametrize(
    ("described", "ran", "claims"),
    [
        ({COUNT: "8", NODES: "2"}, {"count": 8, "nodes": 2}, []),
        ({COUNT: " 8 ", NODES: 2}, {"count": "8", "nodes": "2"}, []),
        ({COUNT: "4"}, {"count": 8, "nodes": 2}, [of(COUNT, "4", "8")]),
        ({NODES: "4", COUNT: "1"}, {"count": 8, "nodes": 2}, [of(COUNT, "1", "8"), of(NODES, "4", "2")]),
        ({COUNT: "eight", NODES: ""}, {"count": 8, "nodes": 2}, []),
        ({COUNT: "4"}, {}, []),
        ({}, {"count": 8}, []),
    ],
    ids=["alike", "as text", "another count", "both", "in words", "not declared", "not described"],
)
def test_counts_of_a_description_are_those_that_the_run_declared(
    described: dict[str, object], ran: dict[str, object], claims: list[tuple[str, Proof, set[str]]]
) -> None:
    found = verify(described, ran)
    assert [(what, proof, set(re.findall(r"\d+", detail))) for what, proof, detail in found] == claims


@pytest.mark.parametrize(
    ("described", "ran", "placed", "said"),
    [
        ({NODES: "2"}, {}, ["a", "b"], False),
        ({NODES: "2"}, {}, ["a", "b", "c"], True),
        ({NODES: "2"}, {"nodes": 2}, ["a", "b", "c"], False),
        ({COUNT: "2"}, {}, ["a", "b", "c"], False),
        ({NODES: "2"}, {}, [], False),
        ({NODES: "2"}, {}, "abc", False),
        ({NODES: "2"}, {}, None, False),
    ],
    ids=["as many", "more", "declared", "not described", "nowhere", "in words", "not noted"],
)
def test_nodes_that_no_one_declared_are_those_that_a_run_was_placed_on(
    described: dict[str, object], ran: dict[str, object], placed: object, said: bool
) -> None:
    found = verify(described, ran, placed)
    assert [(what, proof) for what, proof, _ in found] == [(f"performance: {NODES}", Proof.MISSING)] * said
    assert all({"2", "3"} <= set(re.findall(r"\d+", detail)) for *_, detail in found)


SCORE = Record(
    Address(Kind.SCORE, str(CELL)),
    "k",
    1,
    Ended.DONE,
    "2026-03-01T12:00:00Z",
    1,
    "",
    {},
    values={"metric": {"value": "77.5", "unit": "acc"}, "accuracy_met": True},
    artifacts=(Artifact(ACCURACY_TEXT, "text", 1, "logs"),),
)


SAID = "recorded 77.5 acc, accuracy.txt says"


def verify_of_runs(text: str | None, record: Record = SCORE) -> tuple[Proof, str]:
    """``text``: accuracy.txt as the commit has it, None where it does not."""
    rules = RuleContext(Metric("key", "unit"), AccuracyLogRule(1, 2, 3), (Bar("acc", Decimal(70)),))
    at: Any = SimpleNamespace(
        records={},
        difference=SimpleNamespace(chosen={CELL: Chosen()}),
        list_declared=lambda _: SimpleNamespace(address=record.address),
        desired=SimpleNamespace(detail=lambda _: Detail((), rules=rules)),
    )
    (found,) = verify_runs(CELL, "Score", record, at, {} if text is None else {"text": text.encode()})
    assert found == Claim(str(CELL), "accuracy", found.proof, found.detail)
    return found.proof, found.detail


def test_score_that_its_text_bears_out_is_attested_as_the_scorer_s_word() -> None:
    said = "77.5 acc, from accuracy.txt, as the scorer wrote it"
    assert verify_of_runs("accuracy=77.5%, good=775, total=1000") == (Proof.ATTESTED, said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("accuracy=78.5%, good=785, total=1000", f"{SAID} 78.5 acc", id="another value"),
        pytest.param("tokens: 3", f"{SAID} None: accuracy.txt does not state acc", id="no value"),
        pytest.param(
            "accuracy=77.5%, good=7, total=1000",
            f"{SAID} None: no scorer writes accuracy.txt:1: ",
            id="impossible value",
        ),
    ],
)
def test_score_that_its_text_denies_is_contradicted_with_what_is_wrong_with_the_text(text: str, said: str) -> None:
    proof, detail = verify_of_runs(text)
    assert (proof, detail[: len(said)]) == (Proof.CONTRADICTED, said)
    assert (detail == said) is not said.endswith(": ")


@pytest.mark.parametrize(
    ("value", "recorded", "said"),
    [
        ("77.5", False, ": 77.5 acc, from accuracy.txt"),
        ("69.5", True, ": 69.5 acc, from accuracy.txt"),
        ("69.5", False, ""),
    ],
)
def test_whether_the_bars_are_met_is_derived_again(value: str, recorded: bool, said: str) -> None:
    record = replace(SCORE, values={"metric": {"value": value, "unit": "acc"}, "accuracy_met": recorded})
    proof, detail = verify_of_runs(f"accuracy={value}%, good={value.replace('.', '')}, total=1000", record)
    assert (proof, detail.endswith(said)) == (Proof.CONTRADICTED if said else Proof.ATTESTED, True)


def test_score_without_its_text_is_missing() -> None:
    proof, detail = verify_of_runs(None)
    assert (proof, "accuracy.txt" in detail) == (Proof.MISSING, True)
