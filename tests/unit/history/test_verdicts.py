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
from reconciler.history.verdicts import verify_verdict
from reconciler.mlperf.compliance.entries import Entry
from reconciler.mlperf.compliance.test07 import judge_test07
from reconciler.mlperf.compliance.test09 import judge_test09
from reconciler.mlperf.compliance.verdict import AuditVerdict
from reconciler.mlperf.log_files import ACCURACY_LOG, DETAIL, SUMMARY
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Artifact, Ended, Record, RecordedInput

CELL = Cell("closed", "box", "gpt-oss-120b", "Offline")
SCORED = judge_test07("'exact_match': 65.1, of 4388 samples", Decimal("60.698"))
LENGTHS = [struct.pack(f"<{count}i", *range(count)) for count in (3, 5)]
COUNTED = judge_test09([Entry(n, data) for n, data in enumerate(LENGTHS)], Decimal("3.5"), Decimal("4.5"))
LIMITS = {
    "TEST07": {"limit.least_accuracy": "60.698"},
    "TEST09": {"limit.least_mean_tokens": "3.5", "limit.most_mean_tokens": "4.5"},
}
ANSWERS = json.dumps([{"seq_id": n, "qsl_idx": n, "data": data.hex()} for n, data in enumerate(LENGTHS)])


class Case(Struct, frozen=True):
    """A verdict as recorded, and what the commit has of it and of the run that it judges."""

    record: Record
    files: dict[str, str]
    run_files: dict[str, str]

    def verify(self, *, without: str = "", published: str = "Test/1") -> tuple[Proof, str]:
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
        at: Any = SimpleNamespace(records={"Test/1": run}, declared=lambda _: None)
        claim = verify_verdict(CELL, name, record, Chosen(tests=((name, published),)), at, logs)
        assert (claim.where, claim.what) == (str(CELL), f"{name} verdict")
        return claim.proof, claim.detail


def record(verdict: AuditVerdict) -> Case:
    inputs = {"test": verdict.test, **LIMITS[verdict.test]}
    values = {
        "passed": verdict.passed,
        "reasons": list(verdict.reasons),
        "notes": list(verdict.notes),
        "figures": dict(verdict.figures),
    }
    found = Record(
        Address(Kind.VERDICT, f"{CELL}/{verdict.test}"),
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
    logs = {DETAIL: "", SUMMARY: "", **({ACCURACY_LOG: ANSWERS} if verdict.test == "TEST09" else {})}
    return Case(found, dict(verdict.files), logs)


def test_an_honest_verdict_is_borne_out() -> None:
    attested = "TEST PASS, from its logs; the accuracy as the scorer wrote it"
    assert record(SCORED).verify() == (Proof.ATTESTED, attested)
    assert record(COUNTED).verify() == (Proof.PROVEN, "TEST PASS, from its logs")


def test_a_failure_is_borne_out_too() -> None:
    scored = judge_test07("'exact_match': 60.1", Decimal("60.698"))
    assert not scored.passed
    assert record(scored).verify()[1].startswith("TEST FAIL, from its logs")
    assert record(judge_test09([], Decimal("3.5"), Decimal("4.5"))).verify()[0] is Proof.CONTRADICTED


def state(**values: Any) -> Callable[[Case], Case]:
    return lambda case: replace(case, record=replace(case.record, values={**case.record.values, **values}))


def write(old: str, new: str) -> Callable[[Case], Case]:
    def change(case: Case) -> Case:
        assert any(old in text for text in case.files.values())
        return replace(case, files={name: text.replace(old, new) for name, text in case.files.items()})

    return change


@pytest.mark.parametrize(
    ("verdict", "lie", "said"),
    [
        (SCORED, state(passed=False), "recorded TEST FAIL, the logs say TEST PASS"),
        (SCORED, state(figures={"accuracy": "99.9"}), "recorded accuracy: 99.9, the logs say 65.1"),
        (SCORED, write("'exact_match': 65.1", "'exact_match': 60.1"), "recorded TEST PASS, the logs say the accuracy"),
        (COUNTED, state(passed=False), "recorded TEST FAIL, the logs say TEST PASS"),
        (COUNTED, write("TEST PASS", "TEST FAIL"), "does not say what the logs say: TEST PASS"),
        (COUNTED, write("4.00", "4.10"), "says 4.10, the logs say 4.00"),
        (COUNTED, write("3.5", "in words"), "says nothing, the logs say 3.5"),
    ],
    ids=["failed", "other figure", "other score", "counted failed", "other word", "other number", "no number"],
)
def test_a_verdict_that_its_files_deny_is_contradicted(
    verdict: AuditVerdict, lie: Callable[[Case], Case], said: str
) -> None:
    proof, detail = lie(record(verdict)).verify()
    assert proof is Proof.CONTRADICTED
    assert said in detail


def test_words_of_another_release_are_no_lie() -> None:
    """Numbers count, wherever they stand."""
    text = next(iter(COUNTED.files.values()))
    turned = "\n".join(["Of another release", *reversed(text.splitlines())])
    assert write(text, turned)(record(COUNTED)).verify()[0] is Proof.PROVEN


def test_a_verdict_of_another_run_than_is_published_is_contradicted() -> None:
    said = "it is of another audit run than is published"
    assert record(SCORED).verify(published="Test/2") == (Proof.CONTRADICTED, said)


@pytest.mark.parametrize("lost", [DETAIL, SUMMARY])
def test_a_verdict_without_the_logs_of_its_run_is_missing(lost: str) -> None:
    said = f"not in this commit as recorded: the audit run's {lost}"
    assert record(COUNTED).verify(without=lost) == (Proof.MISSING, said)


def test_a_verdict_over_answers_that_are_not_here_is_attested() -> None:
    said = "TEST PASS, as recorded: the whole accuracy log of the audit run is not in this commit"
    assert record(COUNTED).verify(without=ACCURACY_LOG) == (Proof.ATTESTED, said)
