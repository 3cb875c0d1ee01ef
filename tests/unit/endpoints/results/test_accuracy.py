"""Scores of the endpoints harness: which count, what they are together, and which bars they meet."""

from __future__ import annotations

from decimal import Decimal

import pytest

from reconciler.endpoints.results.accuracy import judge_accuracy_scores, read_score
from reconciler.resource.ruled_values import Bar
from reconciler.storage.documents import ResultDocument


def results(*scores: object) -> ResultDocument:
    return ResultDocument({"accuracy_scores": list(scores)})


def rouge(one: object, **more: object) -> dict[str, object]:
    return {"score": {"rouge1": one, **more}}


LEAST, MOST = Bar("acc", least=Decimal(90)), Bar("length", most=Decimal(100))


@pytest.mark.parametrize(
    ("score", "binds", "met", "accuracy_met"),
    [
        ({"acc": 90, "length": 100}, True, [True, True], True),
        ({"acc": 89.99, "length": 100}, True, [False, True], False),
        ({"acc": 90, "length": 100.01}, True, [True, False], False),
        ({"acc": 89, "length": 101}, False, [False, False], True),
        ({"acc": 91}, True, [True], True),
    ],
)
def test_every_bar_that_has_a_figure_is_to_be_met_where_bars_bind(
    score: dict[str, float], binds: bool, met: list[bool], accuracy_met: bool
) -> None:
    found = judge_accuracy_scores(results({"score": score}), (LEAST, MOST), single=False, binds=binds)
    assert [bar["met"] for bar in found["bars"]] == met
    assert found["accuracy_met"] is accuracy_met
    assert found["metric"] == {"value": f"{score['acc']:g}", "unit": "acc"}
    bounds = [(bar["metric"], bar["least"], bar["most"]) for bar in found["bars"]]
    assert bounds == [("acc", "90", None), ("length", None, "100")][: len(met)]


def test_scores_without_a_bar_are_reported_as_their_mean() -> None:
    found = judge_accuracy_scores(results({"score": 0.5}, {"score": 1}), (LEAST,), single=False, binds=True)
    assert found == {"metric": {"value": "0.75", "unit": "score"}, "bars": [], "accuracy_met": True}
    parts = judge_accuracy_scores(results({"score": {"other": 1}}), (LEAST,), single=False, binds=True)
    assert parts == {"metric": None, "bars": [], "accuracy_met": True}


@pytest.mark.parametrize("scores", [(), ({"score": None},), ({"score": 1}, {"dataset_name": "q"})])
def test_a_dataset_without_a_score_is_refused(scores: tuple[dict[str, object], ...]) -> None:
    with pytest.raises(ValueError, match="not every accuracy dataset has a score"):
        judge_accuracy_scores(results(*scores), (LEAST,), single=True, binds=True)


def test_of_two_parts_that_are_named_after_a_bar_the_first_by_its_name_counts() -> None:
    for number in range(12):
        first, last = f"b{number}_a{number}", f"a{number}"
        assert read_score(results({"score": {first: 1, last: 2}}), first, single=False) == 2, first
        assert read_score(results({"score": {last: 1, f"0_{last}": 2}}), f"0_{last}", single=False) == 2, last


def test_a_score_is_reported_in_ten_digits_and_of_those_that_are_numbers_alone() -> None:
    entries = results({"score": 1}, {"score": 0}, {"score": 0}, {"score": {"other": 7}})
    found = judge_accuracy_scores(entries, (LEAST,), single=False, binds=True)
    assert found["metric"] == {"value": "0.3333333333", "unit": "score"}
