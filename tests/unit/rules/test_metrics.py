"""Each metric of accuracy.txt: the line that states it, as NumPy 2 prints it too, and the most that it can be."""

from __future__ import annotations

from decimal import Decimal

import pytest

from reconciler.rules.accuracy import METRIC_LINES, find_impossible, parse_accuracy

_WORDS = "Word Error Rate: none, accuracy={}%"
LINES = {
    "acc": "accuracy={}%",
    "F1": '{{"exact_match": 83.6, "f1": {}}}',
    "DICE": "Accuracy: mean = {}, tumor = 0.8",
    "mAP": "mAP={}",
    "AUC": "AUC={}%",
    "DLRM_NE": "step metric/lifetime_ne/rating: {}",
    "DLRM_ACC": "step metric/lifetime_accuracy/rating: {}",
    "DLRM_AUC": "step metric/lifetime_gauc/rating: {}",
    "WER": _WORDS,
    "ACCURACY": _WORDS,
    "F1_HIERARCHICAL": '{{"f1": {}}}',
    "E2E_ACCURACY": "Accuracy: {}",
    **{
        metric: f"{{{{'x': 1, '{key}': {{}}}}}}"
        for metric, key in {
            "ROUGE1": "rouge1",
            "ROUGE2": "rouge2",
            "ROUGEL": "rougeL",
            "ROUGELSUM": "rougeLsum",
            "CLIP_SCORE": "CLIP_SCORE",
            "FID_SCORE": "FID_SCORE",
            "GEN_LEN": "gen_len",
            "TOKENS_PER_SAMPLE": "tokens_per_sample",
            "gsm8k_accuracy": "gsm8k",
            "mbxp_accuracy": "mbxp",
            "exact_match": "exact_match",
            "vbench_score": "vbench_score",
        }.items()
    },
}
UNBOUNDED = {"DLRM_NE", "FID_SCORE", "GEN_LEN", "TOKENS_PER_SAMPLE"}
PLAIN = {"F1", "DICE", "AUC", "DLRM_NE", "DLRM_ACC", "DLRM_AUC", "WER", "ACCURACY", "F1_HIERARCHICAL", "E2E_ACCURACY"}


def find(metric: str, text: str, samples: int = 0) -> list[str]:
    return [str(item) for item in find_impossible(text, parse_accuracy(text, [metric]), samples)]


@pytest.mark.parametrize("metric", METRIC_LINES)
def test_metric_is_read_from_its_line_and_is_no_more_than_it_can_be(metric: str) -> None:
    most = 1_000_000 if metric in UNBOUNDED else 1 if metric == "DICE" else 100
    for value in (f"{most}", "0.5"):
        text = f"noise\n{LINES[metric].format(value)}\n"
        (measured,) = parse_accuracy(text, [metric]).metrics[metric]
        assert (str(measured.value), measured.line, measured.numpy) == (value, 2, False)
        assert find(metric, text) == []
    beyond = find(metric, LINES[metric].format(f"{most}.01"))
    assert beyond == ([] if metric in UNBOUNDED else [f"accuracy.txt:1: {metric} {most}.01 is more than {most}"])


@pytest.mark.parametrize("metric", METRIC_LINES)
def test_scalar_of_numpy_is_read_where_the_scorer_prints_one(metric: str) -> None:
    found = parse_accuracy(LINES[metric].format("np.float64(0.25)"), [metric]).metrics[metric]
    assert [(item.value, item.numpy) for item in found] == ([] if metric in PLAIN else [(Decimal("0.25"), True)])


@pytest.mark.parametrize(
    ("first", "second", "agree"),
    [
        ("75.000", "75.0", True),
        ("75.049", "75.0", True),
        ("75.099", "75.0", True),
        ("75.1", "75.0", False),
        ("74.9", "75.0", False),
        ("75.9", "75", True),
        ("74.01", "75", True),
        ("76", "75", False),
    ],
)
def test_second_value_is_the_first_with_more_or_fewer_digits(first: str, second: str, agree: bool) -> None:
    for one, other in ((first, second), (second, first)):
        reported = f"accuracy.txt:3: acc {other}, and line 1 states {one}"
        assert find("acc", f"accuracy={one}%\n\naccuracy={other}%\n") == ([] if agree else [reported])


@pytest.mark.parametrize(
    ("line", "samples", "why"),
    [
        ("accuracy=75.000%, good=12, total=16", 16, []),
        ("accuracy=75.000%, good=12, total=16", 0, []),
        ("accuracy=75.1%, good=12, total=16", 0, []),
        ("accuracy=75.2%, good=12, total=16", 0, ["12 of 16 are 75.000%"]),
        ("accuracy=74.8%, good=12, total=16", 0, ["12 of 16 are 75.000%"]),
        ("accuracy=100.%, good=16, total=16", 0, []),
        ("accuracy=0%, good=0, total=1", 1, []),
        ("accuracy=0%, good=0, total=0", 0, ["0 of 0 cannot be"]),
        ("accuracy=100%, good=17, total=16", 0, ["17 of 16 cannot be"]),
        ("accuracy=75.000%, good=12, total=16", 15, ["it counts 16 samples, and the run answered 15"]),
        (
            "accuracy=80%, good=12, total=16",
            17,
            ["12 of 16 are 75.000%", "it counts 16 samples, and the run answered 17"],
        ),
    ],
)
def test_accuracy_is_that_of_its_counts(line: str, samples: int, why: list[str]) -> None:
    stated = line.partition(",")[0]
    assert find("acc", f"noise\n{line}\n", samples) == [f"accuracy.txt:2: {stated}: {reason}" for reason in why]
