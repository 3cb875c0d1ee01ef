"""The normalized entropy of TEST08, worked out by hand."""

from __future__ import annotations

import math
import struct

import pytest

from reconciler.rules.compliance.entries import Entry
from reconciler.rules.compliance.test08 import compute_entropy, judge_test08


def cross(*chances: float) -> float:
    """What is lost where these were the chances given to what came true."""
    return -math.fsum(map(math.log, chances))


def spread(share: float) -> float:
    """The entropy of a label that is 1 in this share of all cases."""
    return -share * math.log(share) - (1 - share) * math.log(1 - share)


@pytest.mark.parametrize(
    ("predictions", "labels", "weights", "expected"),
    [
        ((0.5, 0.5), (1, 0), (1, 1), 1.0),
        ((0.8, 0.4), (1, 0), (1, 1), cross(0.8, 0.6) / (2 * math.log(2))),
        ((0.8, 0.4), (0, 1), (1, 1), cross(0.2, 0.4) / (2 * math.log(2))),
        ((0.8, 0.4), (1, 0), (2, 1), cross(0.8, 0.8, 0.6) / (3 * spread(2 / 3))),
        ((0.8, 0.4, 0.3), (1, 1, 0), (1, 0, 1), cross(0.8, 0.7) / (2 * math.log(2))),
        ((0.9, 0.2, 0.7), (1, 0, 1), (1, 1, 1), cross(0.9, 0.8, 0.7) / (3 * spread(2 / 3))),
        ((0.25, 0.25, 0.25, 0.25), (1, 0, 0, 0), (1, 1, 1, 1), 1.0),
    ],
    ids=["coin", "balanced", "turned", "weighted", "one without weight", "three", "their mean"],
)
def test_entropy_of_labels_in_two_classes(
    predictions: tuple[float, ...], labels: tuple[float, ...], weights: tuple[float, ...], expected: float
) -> None:
    assert compute_entropy(predictions, labels, weights) == pytest.approx(expected, rel=1e-4)


def answer(index: int, time: int, query: int, *numbers: float) -> Entry:
    return Entry(index, struct.pack(f"<{2 + len(numbers)}f", time, query, *numbers))


def test_entropy_without_any_weight_is_zero() -> None:
    assert compute_entropy((0.8, 0.4), (1, 0), (0, 0)) == 0.0


def test_entropy_of_certain_predictions_is_finite() -> None:
    right, wrong = (compute_entropy(predictions, (1, 0), (1, 1)) for predictions in ((1.0, 0.0), (0.0, 1.0)))
    assert 0 < right < 1e-5
    assert 20 < wrong < 25  # each is taken for 1e-7 off, and log(1e-7) is -16.1


@pytest.mark.parametrize(
    ("accuracy", "audit"),
    [
        ([answer(0, 1, 7, 0.5, 1, 1, 2)], []),  # one prediction, and two are said to be there
        ([Entry(4, b"")], []),
        ([], [Entry(0, struct.pack("<f", 1))]),
        ([], [Entry(0, b"abc")]),
        ([], [Entry(0, struct.pack("<2f", float("inf"), 1))]),
        ([], [Entry(0, struct.pack("<2f", float("nan"), 1))]),
    ],
    ids=["too few numbers", "none", "no query", "no numbers", "no time", "not a number"],
)
def test_answers_that_are_no_predictions_are_not_compared(accuracy: list[Entry], audit: list[Entry]) -> None:
    whole = [answer(1, 2, 7, 0.9, 1, 1, 1)]
    assert judge_test08(whole, [answer(1, 2, 7, 0.9)]).passed
    found = judge_test08([*whole, *accuracy], [answer(1, 2, 7, 0.9), *audit])
    assert len(found.reasons) == 1
    assert not found.passed
