"""Scores of the endpoints harness: which count, what they are together, and which bars they meet."""

from __future__ import annotations

from decimal import Decimal

from reconciler.endpoints.results.accuracy import judge_accuracy_scores
from reconciler.resource.ruled_values import Bar
from reconciler.storage.documents import ResultDocument


def results(*scores: object) -> ResultDocument:
    return ResultDocument({"accuracy_scores": list(scores)})


LEAST, MOST = Bar("acc", least=Decimal(90)), Bar("length", most=Decimal(100))


def test_a_score_is_reported_in_ten_digits_and_of_those_that_are_numbers_alone() -> None:
    entries = results({"score": 1}, {"score": 0}, {"score": 0}, {"score": {"other": 7}})
    found = judge_accuracy_scores(entries, (LEAST,), single=False, binds=True)
    assert found["metric"] == {"value": "0.3333333333", "unit": "score"}
