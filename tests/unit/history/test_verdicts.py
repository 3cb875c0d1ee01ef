"""Verdicts of compliance tests taken again from what a commit has: as recorded, edited, or with something missing."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from reconciler.diff.change import Chosen
from reconciler.diff.claims import Proof
from reconciler.history.audit import verify_imported, verify_verdict
from reconciler.loadgen.log_files import ACCURACY_LOG, DETAIL, SUMMARY
from reconciler.resource.canonical import digest
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Artifact, Ended, Record, RecordedInput
from reconciler.resource.settings import CellSettings
from reconciler.rules.compliance.definition import AuditVerdict
from reconciler.rules.compliance.entries import Entry
from reconciler.rules.compliance.published import Judged
from reconciler.rules.compliance.test06 import judge_test06
from reconciler.rules.compliance.test07 import judge_test07
from reconciler.rules.compliance.test09 import judge_test09

CELL = Cell("closed", "box", "gpt-oss-120b", "Offline")
LENGTHS = [struct.pack(f"<{count}i", *range(count)) for count in (3, 5)]
ANSWERS = json.dumps([{"seq_id": n, "qsl_idx": n, "data": data.hex()} for n, data in enumerate(LENGTHS)])


class Case(Struct, frozen=True):
    """A verdict as recorded, and what the commit has of it and of the run that it judges."""

    record: Record
    files: dict[str, str]
    run_files: dict[str, str]

    def verify(self, *, without: str = "", published: str = "Test/1") -> Proof:
        logs: dict[str, bytes] = {}

        def keep(files: dict[str, str]) -> tuple[Artifact, ...]:
            for name, text in files.items():
                if name != without:
                    logs[f"digest of {name}"] = text.encode()
            return tuple(Artifact(name, f"digest of {name}", 1, "logs") for name in files)

        name = self.record.address.part
        run = replace(
            self.record, address=Address(Kind.COMPLIANCE_TEST, f"{CELL}/{name}"), artifacts=keep(self.run_files)
        )
        record = replace(self.record, artifacts=keep(self.files))
        at: Any = SimpleNamespace(records={"Test/1": run}, list_declared=lambda _: None)
        claim = verify_verdict(CELL, name, record, Chosen(tests=((name, published),)), at, logs)
        assert (claim.where, claim.what) == (str(CELL), f"{name} verdict")
        return claim.proof


def record(test: str, verdict: AuditVerdict, **limits: str) -> Case:
    inputs = {"test": test, **{f"limit.{name}": value for name, value in limits.items()}}
    values = {
        "passed": verdict.passed,
        "reasons": list(verdict.reasons),
        "notes": list(verdict.notes),
        "figures": dict(verdict.figures),
    }
    found = Record(
        Address(Kind.VERDICT, f"{CELL}/{test}"),
        "k" * 64,
        1,
        Ended.DONE,
        "2026-01-02",
        1.0,
        "a",
        {name: RecordedInput(value, "round v6.1") for name, value in inputs.items()},
        values=values,
        upstream={"audit": "Test/1"},
    )
    logs = {DETAIL: "", SUMMARY: "", **({ACCURACY_LOG: ANSWERS} if test == "TEST09" else {})}
    return Case(found, dict(verdict.files), logs)


SCORED = record(
    "TEST07", judge_test07("'exact_match': 65.1, of 4388 samples", Decimal("60.698")), least_accuracy="60.698"
)
COUNTED = record(
    "TEST09",
    judge_test09([Entry(n, data) for n, data in enumerate(LENGTHS)], Decimal("3.5"), Decimal("4.5")),
    least_mean_tokens="3.5",
    most_mean_tokens="4.5",
)


def test_an_honest_verdict_is_borne_out() -> None:
    assert SCORED.verify() is Proof.ATTESTED
    assert COUNTED.verify() is Proof.PROVEN


def state(**values: Any) -> Callable[[Case], Case]:
    return lambda case: replace(case, record=replace(case.record, values={**case.record.values, **values}))


def write(old: str, new: str) -> Callable[[Case], Case]:
    def change(case: Case) -> Case:
        assert any(old in text for text in case.files.values())
        return replace(case, files={name: text.replace(old, new) for name, text in case.files.items()})

    return change


@pytest.mark.parametrize(
    ("case", "lie"),
    [
        (SCORED, state(passed=False)),
        (SCORED, state(figures={"accuracy": "99.9"})),
        (SCORED, write("'exact_match': 65.1", "'exact_match': 60.1")),
        (COUNTED, state(passed=False)),
        (COUNTED, write("TEST PASS", "TEST FAIL")),
        (COUNTED, write("4.00", "4.10")),
        (COUNTED, write("3.5", "in words")),
    ],
    ids=["failed", "other figure", "other score", "counted failed", "other word", "other number", "no number"],
)
def test_a_verdict_that_its_files_deny_is_contradicted(case: Case, lie: Callable[[Case], Case]) -> None:
    assert lie(case).verify() is Proof.CONTRADICTED


def test_a_verdict_of_another_run_than_is_published_is_contradicted() -> None:
    assert SCORED.verify(published="Test/2") is Proof.CONTRADICTED


@pytest.mark.parametrize("lost", [DETAIL, SUMMARY])
def test_a_verdict_without_the_logs_of_its_run_is_missing(lost: str) -> None:
    assert COUNTED.verify(without=lost) is Proof.MISSING


def test_a_verdict_over_answers_that_are_not_here_is_attested() -> None:
    assert COUNTED.verify(without=ACCURACY_LOG) is Proof.ATTESTED


LONG = [struct.pack(f"<{count}q", *range(10, 10 + count)) for count in (3, 5)]


def record_tokens(dtype: str) -> Case:
    """TEST06 over answers of 64-bit tokens, read as this type."""
    verdict = judge_test06([Entry(n, data, len(data) // 8) for n, data in enumerate(LONG)], "Offline", dtype=dtype)
    lines = [
        {"seq_id": n, "qsl_idx": n, "data": data.hex(), "token_count": len(data) // 8} for n, data in enumerate(LONG)
    ]
    return replace(record("TEST06", verdict), run_files={DETAIL: "", SUMMARY: "", ACCURACY_LOG: json.dumps(lines)})


def test_answers_are_read_again_as_the_verdict_says_that_it_read_them() -> None:
    """Which default applied then is in no input."""
    case = record_tokens("int64")
    assert case.verify() is Proof.PROVEN
    assert record_tokens("int32").verify() is Proof.PROVEN
    for figures in ({}, {"dtype": "int16"}, {"compared as": "int64, first element"}):
        assert state(figures=figures)(case).verify() is Proof.CONTRADICTED
    first = state(figures={"accuracy.compared as": "int64, first element"})(case)
    assert first.verify() is Proof.PROVEN


OUTPUT = "verify_output_len.txt"
LENGTH_OF_ROUND = 1250  # tokens: within what v6.1 asks of this test


def import_test(
    test: str, files: dict[str, str], *, without: str = "", key: str = "", cell: Cell = CELL, official: str = ""
) -> dict[str, Proof]:
    """What is claimed of a test whose folder came as it is. ``without``: a file that the commit lost; ``official``: the
    benchmark that the spec enters the cell's as."""
    artifacts = tuple(Artifact(n, f"{at:064}", 1, "logs") for at, n in enumerate(files))
    listed = digest([[a.name, a.sha256] for a in artifacts])
    came = replace(
        COUNTED.record,
        address=Address(Kind.COMPLIANCE_TEST, f"{CELL}/{test}"),
        key=key or listed,
        artifacts=(*artifacts, Artifact("weights.bin", "f" * 64, 1, "objects")) if key == "other" else artifacts,
    )
    logs = {a.sha256: files[a.name].encode() for a in artifacts if a.name != without}
    settings = CellSettings({"benchmark.official": official} if official else {})
    desired = SimpleNamespace(
        submission=SimpleNamespace(round="v6.1"), detail=lambda _: SimpleNamespace(settings=settings)
    )
    at: Any = SimpleNamespace(records={}, desired=desired)
    claims = list(verify_imported(cell, test, came, Chosen(), at, logs))
    assert {claim.where for claim in claims} == {str(cell)}
    return {claim.what: claim.proof for claim in claims}


def lay_out(count: int = LENGTH_OF_ROUND, said: str = "TEST PASS") -> dict[str, str]:
    """The folder of TEST09 with two answers of so many tokens."""
    data = bytes(4 * count).hex()
    answers = [{"seq_id": n, "qsl_idx": n, "data": data} for n in (0, 1)]
    return {"accuracy/mlperf_log_accuracy.json": json.dumps(answers), OUTPUT: f"Mean output tokens: {count}\n{said}\n"}


def test_an_imported_test_is_judged_by_the_logs_that_came_with_it() -> None:
    found = import_test("TEST09", lay_out())
    assert found == {"TEST09: inputs": Proof.PROVEN, "TEST09 verdict": Proof.PROVEN}


def test_an_imported_pass_that_its_logs_deny_is_contradicted() -> None:
    assert import_test("TEST09", lay_out(10))["TEST09 verdict"] is Proof.CONTRADICTED
    assert import_test("TEST09", lay_out(10, "TEST FAIL"))["TEST09 verdict"] is Proof.PROVEN


def test_an_imported_pass_by_a_type_that_is_too_short_is_attested(monkeypatch: pytest.MonkeyPatch) -> None:
    again = AuditVerdict(("3 answers differ",), files={OUTPUT: "TEST FAIL: 3 answers differ\n"}, by_type=True)
    judged = Judged(OUTPUT, said=True, found=False, again=again, sure=True)
    monkeypatch.setattr("reconciler.history.audit.judge_files", lambda _: [judged])
    assert import_test("TEST09", lay_out())["TEST09 verdict"] is Proof.ATTESTED


@pytest.mark.parametrize("lost", lay_out())
def test_an_imported_test_that_lost_a_log_has_no_verdict(lost: str) -> None:
    assert import_test("TEST09", lay_out(), without=lost)["TEST09 verdict"] is Proof.MISSING
