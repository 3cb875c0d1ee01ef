"""What stands beside a metric in accuracy.txt, and denies it."""

from __future__ import annotations

import pytest

from reconciler.rules.accuracy import find_impossible, parse_accuracy

WORDS = "Word Error Rate: {}%, accuracy={}%"
PARTS = "Accuracy: mean = {}, kidney = {}, tumor = {}"
AREAS = '{{\n "roc_auc": {},\n}}\nAUC={}'


def find(metric: str, text: str) -> list[str]:
    return [str(item) for item in find_impossible(text, parse_accuracy(text, [metric]))]


@pytest.mark.parametrize(
    ("metric", "text", "said"),
    [
        ("ACCURACY", WORDS.format("2.25", "97.75"), ""),
        ("ACCURACY", WORDS.format("2.1593688438002605", "97.84063115619975"), ""),  # of floating point
        ("ACCURACY", WORDS.format("2.25", "97.8"), ""),  # fewer digits
        ("ACCURACY", WORDS.format("2.5", "97.47"), ""),
        ("DICE", PARTS.format("0.862", "0.935", "0.788"), ""),
        ("ACCURACY", WORDS.format("2.25", "98.75"), "ACCURACY 98.75, and 2.25% of the words are wrong"),
        ("WER", WORDS.format("2.25", "98.75"), "WER 98.75, and 2.25% of the words are wrong"),
        ("DICE", PARTS.format("0.86114", "0.9347", "0.7876"), ""),  # of parts that are rounded
        ("DICE", PARTS.format("0.87", "0.9347", "0.7876"), "DICE 0.87, and the mean of its parts is 0.86115"),
        ("DICE", "Accuracy: mean = 0.87", ""),
        ("AUC", AREAS.format("80.23785", "80.23785"), ""),
        ("AUC", AREAS.format("80.23785", "80.238"), ""),
        ("AUC", AREAS.format("80.23785", "80.338"), "AUC 80.338, and roc_auc is 80.23785"),
        ("AUC", "AUC=80.338", ""),
    ],
)
def test_a_score_is_that_of_what_stands_beside_it(metric: str, text: str, said: str) -> None:
    line = 1 + text.count("\n")
    assert find(metric, text) == ([f"accuracy.txt:{line}: {said}"] if said else [])
