"""A verdict over answers, taken again: as what they were read, which of them the commit has, and what is attested."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.diff.change import Chosen
from reconciler.diff.claims import Proof
from reconciler.history.audit import verify_verdict
from reconciler.loadgen.log_files import ACCURACY_LOG, DETAIL, SUMMARY
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Artifact, Ended, Record, RecordedInput
from reconciler.rules.compliance.definition import AuditVerdict, RunLogs, VerdictInputs
from reconciler.rules.compliance.judging import judge
from tests.unit.tree.small_cells import log

CELL = Cell("closed", "box", "net", "Offline")
CUT = b"[\n{\n\n...\n\n}\n]\n"  # as the rules let large logs be published
EQUAL = [7, 8]
HIGH = [7, 8 + 256]  # unequal, but for their first bytes


def write_detail(rate: float = 1000.0) -> bytes:
    logged = {
        "loadgen_version": "6.0",
        "effective_scenario": "Offline",
        "result_validity": "VALID",
        "result_samples_per_second": rate,
    }
    return log(*logged.items()).encode()


def write_answers(values: Sequence[int], code: str = "i", later: int = 0) -> bytes:
    """LoadGen's accuracy log of answers of one token, with their number and the first one, or one so much later."""
    entries = (
        {
            "seq_id": at,
            "qsl_idx": at,
            "data": struct.pack(f"<{code}", value).hex(),
            "token_data": struct.pack(f"<{code}", value + later).hex(),
            "token_count": 1,
        }
        for at, value in enumerate(values)
    )
    return ("[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n").encode()


def take(
    test: str,
    *,
    audit: bytes,
    accuracy: bytes = write_answers(EQUAL),
    dtype: str = "",
    reports: Mapping[str, str] | None = None,
    without: Sequence[str] = (),
    instead: bytes = b"",
    edit: Mapping[str, Any] | None = None,
    of: str = "Offline",
) -> tuple[Proof, AuditVerdict]:
    """What is claimed of a verdict that was made of these answers, and the verdict. ``without``: runs whose accuracy
    log the commit does not have, and what it has ``instead``; ``edit``: values of the record; ``of``: the scenario
    whose runs were made."""
    answers = {"audit": audit, "accuracy": accuracy, "performance": b""}
    runs = {name: RunLogs(write_detail(), b"x", data.splitlines if data else None) for name, data in answers.items()}
    made = judge(
        test,
        VerdictInputs(
            audit=runs["audit"],
            performance=runs["performance"],
            accuracy=runs["accuracy"],
            scenario=of,
            dtype=dtype,
            metrics=("acc",),
            reports=reports or {},
        ),
    )
    logs: dict[str, bytes] = {}

    def make(kind: Kind, part: str, files: Mapping[str, bytes], **fields: Any) -> Record:
        logs.update({f"{part}/{name}": data for name, data in files.items()})
        artifacts = tuple(Artifact(name, f"{part}/{name}", 1, "logs") for name in files)
        address = Address(kind, f"{replace(CELL, scenario=of)}/{part}")
        inputs = {"test": RecordedInput(test, "")}
        return Record(address, "k", 1, Ended.DONE, "2026-03-01", 1, "", inputs, artifacts=artifacts, **fields)

    kinds = {"audit": Kind.COMPLIANCE_TEST, "accuracy": Kind.RUN, "performance": Kind.RUN}
    records = {}
    for name, data in answers.items():
        kept = instead if name in without else data
        files = {DETAIL: write_detail(), SUMMARY: b"x", **({ACCURACY_LOG: kept} if kept else {})}
        records[f"{name}/1"] = make(kinds[name], name, files)
    texts = {name: text.encode() for name, text in {**made.files, **(reports or {})}.items()}
    values = {"passed": made.passed, "figures": dict(made.figures), **(edit or {})}
    upstream = {name: f"{name}/1" for name in answers}
    record = make(Kind.VERDICT, test, texts, values=values, upstream=upstream)
    rules = SimpleNamespace(bars=[SimpleNamespace(metric="acc")])
    at: Any = SimpleNamespace(
        records=records,
        list_declared=lambda _: SimpleNamespace(address=record.address),
        desired=SimpleNamespace(detail=lambda _: SimpleNamespace(rules=rules)),
    )
    chosen = Chosen("accuracy/1", "performance/1", "", ((test, "audit/1"),))
    claim = verify_verdict(CELL, test, record, chosen, at, logs)
    return claim.proof, made


@pytest.mark.parametrize(
    ("audit", "dtype", "passed"),
    [
        pytest.param(EQUAL, "", True, id="equal"),
        pytest.param(EQUAL, "int32", True, id="equal as numbers"),
        pytest.param(HIGH, "", True, id="first bytes alone are equal"),
        pytest.param(HIGH, "int32", False, id="numbers differ"),
        pytest.param([7, 9], "", False, id="bytes differ"),
    ],
)
def test_answers_are_compared_again_as_what_they_were_read(audit: list[int], dtype: str, passed: bool) -> None:
    proof, made = take("TEST01", audit=write_answers(audit), dtype=dtype)
    assert made.passed is passed
    assert proof is Proof.PROVEN


def test_tokens_are_read_again_as_what_they_were_read() -> None:
    proof, made = take("TEST06", audit=write_answers(EQUAL, "q"), dtype="int64", of="Server")
    assert made.figures["dtype"] == "int64"
    assert proof is Proof.PROVEN


@pytest.mark.parametrize(("of", "passed"), [("Server", False), ("Offline", True)])
def test_tokens_are_judged_again_by_the_scenario_of_their_run(of: str, passed: bool) -> None:
    """An inferred cell shows the tests of another, whose first tokens may matter."""
    proof, made = take("TEST06", audit=write_answers(EQUAL, later=1), of=of)
    assert made.passed is passed
    assert proof is Proof.PROVEN


def test_a_type_that_the_answers_do_not_have_is_a_lie() -> None:
    """Passed off as bytes, they would be equal."""
    _, made = take("TEST01", audit=write_answers(HIGH), dtype="int32")
    figures = {**made.figures, "accuracy.compared as": "byte, first element"}
    said = take("TEST01", audit=write_answers(HIGH), dtype="int32", edit={"figures": figures})[0]
    assert said is Proof.CONTRADICTED


@pytest.mark.parametrize("without", [("audit",), ("accuracy",), ("audit", "accuracy")], ids="+".join)
@pytest.mark.parametrize("instead", [b"", CUT], ids=["gone", "truncated"])
def test_a_comparison_of_absent_answers_is_attested(without: tuple[str, ...], instead: bytes) -> None:
    """Its figures are those of the record; the rest is made again."""
    audit = write_answers(EQUAL)
    _, made = take("TEST01", audit=audit, dtype="int32")
    figures = {
        name.removeprefix("accuracy."): text for name, text in made.figures.items() if name.startswith("accuracy.")
    }
    known = {"reasons": [], "figures": figures}
    said = take("TEST01", audit=audit, dtype="int32", without=without, instead=instead, edit={"answers": known})[0]
    assert said is Proof.ATTESTED
    unlike = {"reasons": ["1 of 2 answers differ"], "figures": figures}
    said = take("TEST01", audit=audit, dtype="int32", without=without, instead=instead, edit={"answers": unlike})[0]
    assert said is Proof.CONTRADICTED
    said = take("TEST01", audit=audit, dtype="int32", without=without, instead=instead)[0]
    assert said is Proof.ATTESTED
