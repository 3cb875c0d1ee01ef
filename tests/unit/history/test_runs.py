"""A score in a commit is held against its accuracy.txt: its value, whether the bars are met, and what denies both."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.desired.detail import Detail
from reconciler.diff.change import Chosen
from reconciler.diff.claims import Claim, Proof
from reconciler.history.runs import verify_runs
from reconciler.loadgen.log_files import ACCURACY_TEXT
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Artifact, Ended, Record
from reconciler.resource.ruled_values import AccuracyLogRule, Bar, Metric
from reconciler.rules.context import RuleContext

CELL = Cell("open", "box", "net", "Offline")
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


def verify(text: str | None, record: Record = SCORE) -> tuple[Proof, str]:
    """``text``: accuracy.txt as the commit has it, None where it does not."""
    rules = RuleContext(Metric("key", "unit"), AccuracyLogRule(1, 2, 3), (Bar("acc", Decimal(70)),))
    at: Any = SimpleNamespace(
        records={},
        difference=SimpleNamespace(chosen={CELL: Chosen()}),
        declared=lambda _: SimpleNamespace(address=record.address),
        desired=SimpleNamespace(detail=lambda _: Detail((), rules=rules)),
    )
    (found,) = verify_runs(CELL, "Score", record, at, {} if text is None else {"text": text.encode()})
    assert found == Claim(str(CELL), "accuracy", found.proof, found.detail)
    return found.proof, found.detail


def test_score_that_its_text_bears_out_is_attested_as_the_scorer_s_word() -> None:
    said = "77.5 acc, from accuracy.txt, as the scorer wrote it"
    assert verify("accuracy=77.5%, good=775, total=1000") == (Proof.ATTESTED, said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("accuracy=78.5%, good=785, total=1000", f"{SAID} 78.5 acc", id="another value"),
        pytest.param("tokens: 3", f"{SAID} None: accuracy.txt does not state acc", id="no value"),
        pytest.param(
            "accuracy=77.5%, good=7, total=1000",
            f"{SAID} None: accuracy.txt cannot be: ",
            id="impossible value",
        ),
    ],
)
def test_score_that_its_text_denies_is_contradicted_with_what_is_wrong_with_the_text(text: str, said: str) -> None:
    proof, detail = verify(text)
    assert (proof, detail[: len(said)]) == (Proof.CONTRADICTED, said)
    assert (detail == said) is not said.endswith(": ")


@pytest.mark.parametrize(
    ("value", "recorded", "said"),
    [
        ("77.5", False, "recorded that a bar is not met, accuracy.txt says otherwise: 77.5 acc, from accuracy.txt"),
        ("69.5", True, "recorded that the bars are met, accuracy.txt says otherwise: 69.5 acc, from accuracy.txt"),
        ("69.5", False, ""),
    ],
)
def test_whether_the_bars_are_met_is_derived_again(value: str, recorded: bool, said: str) -> None:
    record = replace(SCORE, values={"metric": {"value": value, "unit": "acc"}, "accuracy_met": recorded})
    proof, detail = verify(f"accuracy={value}%, good={value.replace('.', '')}, total=1000", record)
    assert (proof, detail if said else "") == (Proof.CONTRADICTED if said else Proof.ATTESTED, said)


def test_score_without_its_text_is_missing() -> None:
    assert verify(None) == (Proof.MISSING, "accuracy.txt is not in this commit as recorded")
