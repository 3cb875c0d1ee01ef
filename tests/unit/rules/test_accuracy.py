"""accuracy.txt, the hash line and the truncated log."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.diff.run_selection import list_contradictions
from reconciler.loadgen.log_files import hash_log
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Judgement
from reconciler.resource.ruled_values import Bar
from reconciler.rules.accuracy import (
    METRIC_LINES,
    WHOLE_SET,
    add_hash,
    check_bars,
    find_impossible,
    list_digests,
    parse_accuracy,
)
from reconciler.rules.results.format import Kept
from reconciler.rules.results.loadgen_logs import judge_kept
from reconciler.rules.rounds import list_rounds, load_ruleset
from tests.unit.loadgen.conftest import Run
from tests.unit.loadgen.truncation import truncate_log

RULE = load_ruleset("v6.1").accuracy_log


@pytest.mark.parametrize(
    ("metric", "line", "value"),
    [
        ("acc", "accuracy=76.456%, good=38228, total=50000", "76.456"),
        ("acc", '{"accuracy": 76.4, "good": 1}', "76.4"),
        ("acc", "the accuracy=76", None),
        ("acc", "accuracy=n/a", None),
        ("F1", '{"exact_match": 83.6, "f1": 90.8}', "90.8"),
        ("F1", '{"f1": 90.8, "exact_match": 83.6}', None),
        ("DICE", "Accuracy: mean = 0.86170, kidney tumor = 0.8", "0.86170"),
        ("mAP", "result {'Total': 0.54}", "0.54"),
        ("mAP", "mAP@0.5: 12", None),
        ("AUC", "AUC=80.31%, samples=1", "80.31"),
        ("ACCURACY", "Word Error Rate: 2.06%, accuracy=97.9%", "97.9"),
        ("F1_HIERARCHICAL", '{"precision": 0.8, "f1": 0.79, "n": 1}', "0.79"),
        ("E2E_ACCURACY", "Accuracy: mean = 0.86", None),
        ("ROUGE1", "{'rouge1': '44.43', 'rouge2': 22}", "44.43"),
        ("ROUGELSUM", "{'rougeL': 28.6, 'rougeLsum': 42.1}", "42.1"),
        ("GEN_LEN", "{'gen_len':  8167644}", None),
        ("FID_SCORE", "{'FID_SCORE': '23.4'}", "23.4"),
        ("acc", "'accuracy' : 76", "76"),
        ("acc", "accuracy 76.", "76"),
        ("DICE", "mean = 0.86170", None),
        ("mAP", "noise mAP=37.5", "37.5"),
        ("AUC", "the AUC=80", None),
        ("DLRM_ACC", "step metric/lifetime_accuracy/rating: 0.69", "0.69"),
        ("DLRM_ACC", "metric/lifetime_gauc/rating: 0.69", None),
        ("WER", "Word Error Rate: 2.06%, accuracy=97.9", None),
        ("F1_HIERARCHICAL", '{"f1": 0.79', None),
        ("ROUGE2", "{'rouge1': 44, 'rouge2': 22.5}", "22.5"),
        ("ROUGE2", "{'rouge2':22.5}", None),
        ("ROUGEL", "{'rougeL':   '28.6', 'rougeLsum': 42.1}", "28.6"),
        ("TOKENS_PER_SAMPLE", "{'tokens_per_sample': '294.4'}", None),
        ("gsm8k_accuracy", "{'gsm8k': 73.7, 'mbxp': 60.1}", "73.7"),
        ("mbxp_accuracy", "{'gsm8k': 73.7, 'mbxp': 60.1}", "60.1"),
    ],
)
def test_metric_lines(metric: str, line: str, value: str | None) -> None:
    report = parse_accuracy(f"noise\n{line}\n", [metric])
    assert [item.value for item in report.metrics.get(metric, ())[:1]] == ([] if value is None else [Decimal(value)])


@pytest.mark.parametrize("name", list_rounds())
def test_every_bar_of_every_benchmark_has_a_line_shape(name: str) -> None:
    for rules in load_ruleset(name).benchmarks.values():
        assert {bar.metric for bar in rules.list_bars()} <= set(METRIC_LINES)


def test_parse_accuracy_finds_the_hash_on_its_own_line() -> None:
    report = parse_accuracy("x hash=1\naccuracy=1\n\nhash=ab12\n", ["acc"])
    assert (report.hash, report.hash_line) == ("ab12", 4)
    assert parse_accuracy("accuracy=1 hash=2", ["acc"]).hash == ""
    assert parse_accuracy("50%\raccuracy=1\r\nhash=c3\r\n", ["acc"]).hash_line == 3


def test_parse_accuracy_takes_a_sha256_before_other_digests() -> None:
    sha256 = "AB" * 32
    report = parse_accuracy(f"accuracy=1\nhash={'9' * 40}\nhash={sha256}\nhash={'0' * 64}\n", ["acc"])
    assert (report.hash, report.hash_line) == (sha256, 3)


def test_parse_accuracy_passes_over_the_hash_of_a_result() -> None:
    """One scorer writes the hash of its own line as that of the log is written; it counts where nothing else does."""
    result, own = '{"f1": 0.5}', "CD" * 32
    scored = f"Results\n\n{result}\n\nhash={hashlib.sha256(result.encode()).hexdigest()}"
    report = parse_accuracy(f"{scored}\nhash={own}\n", ["F1_HIERARCHICAL"])
    assert (report.hash, report.hash_line) == (own, 6)
    assert list_digests(f"{scored}\nhash={own}\n") == (own.lower(),)
    assert parse_accuracy(scored, []).hash_line == 5


def test_every_digest_of_a_log_is_listed() -> None:
    assert list_digests(f"hash=12\nhash={'AB' * 32}\nhash={'0' * 64}\n") == ("ab" * 32, "0" * 64)


def test_parse_accuracy_refuses_a_metric_that_no_one_described() -> None:
    with pytest.raises(ValueError, match="vibes"):
        parse_accuracy("", ["vibes"])


@pytest.mark.parametrize(
    ("text", "met", "measured", "line"),
    [
        ("accuracy=75.6954", True, "75.6954", 1),
        ("accuracy=75.6953", False, "75.6953", 1),
        ("accuracy=80\naccuracy=70", False, "70", 2),
        ("accuracy=91", False, "91", 1),
        ("nothing", False, None, 0),
    ],
)
def test_check_bars(text: str, met: bool, measured: str | None, line: int) -> None:
    bar = Bar("acc", Decimal("75.6954"), Decimal(90))
    (check,) = check_bars(parse_accuracy(text, ["acc"]), [bar])
    assert (check.met, check.line) == (met, line)
    assert check.measured == (None if measured is None else Decimal(measured))


@given(st.binary(max_size=200), st.integers(0, 200))
def test_truncation_keeps_both_ends(seed: bytes, repeats: int) -> None:
    log = (seed or b"x") * repeats
    kept = truncate_log(log, RULE)
    if len(log) < RULE.whole_below:
        assert kept == log
        return
    assert kept == log[:4096] + b"\n\n...\n\n" + log[-4096:]


@given(st.text(alphabet="ab=\n\r# hash", max_size=60))
@example("\r\r\n=")
def test_with_hash_gives_one_hash_line_however_often(text: str) -> None:
    once = add_hash(text, "a1b2")
    assert add_hash(once, "a1b2") == once
    assert parse_accuracy(once, []).hash == "a1b2"
    assert once.count("\nhash=a1b2\n") + once.startswith("hash=a1b2\n") == 1


HASH_PIECES = st.sampled_from(["hash=", "ab1", "hash=ab1", "\n", "\r", "\r\n", " ", "\t", "\x0b", "\u2028", "é", "_"])


@given(st.lists(HASH_PIECES, max_size=20).map("".join))
def test_the_first_hash_is_that_of_the_first_line_that_is_one(text: str) -> None:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    hashes = ((re.fullmatch(r"hash=([A-Za-z0-9_]+)\s*", line), at) for at, line in enumerate(lines, start=1))
    report = parse_accuracy(text, ())
    shown = next(((found[1], at) for found, at in hashes if found), ("", 0))
    assert (report.hash, report.hash_line) == shown


def test_hash_of_a_real_log_is_that_of_the_original(loadgen_run: Callable[[str], Run]) -> None:
    log = loadgen_run("offline-accuracy").bytes("accuracy.json")
    assert len(log) > RULE.limit
    assert hash_log(log) == hashlib.sha256(log).hexdigest() != hash_log(truncate_log(log, RULE))
    assert truncate_log(log, RULE).startswith(b'[\n{ "seq_id" : 0')


def find(metric: str, text: str, samples: int = 0) -> list[str]:
    return [str(item) for item in find_impossible(text, parse_accuracy(text, [metric]), samples)]


STATED = {
    "acc": "accuracy={}",
    "F1": "{{'exact_match': 1, 'f1': {}}}",
    "mAP": "mAP={}",
    "AUC": "AUC={}",
    "WER": "Word Error Rate: none, accuracy={}%",
    "ACCURACY": "Word Error Rate: none, accuracy={}%",
    "E2E_ACCURACY": "Accuracy: {}",
    "F1_HIERARCHICAL": '{{"f1": {}}}',
    "DLRM_ACC": "metric/lifetime_accuracy/rating: {}",
    "DLRM_AUC": "metric/lifetime_gauc/rating: {}",
    "ROUGE1": "'rouge1': {}",
    "ROUGE2": "'rouge2': {}",
    "ROUGEL": "'rougeL': {}",
    "ROUGELSUM": "'rougeLsum': {}",
    "CLIP_SCORE": "'CLIP_SCORE': {}",
    "gsm8k_accuracy": "'gsm8k': {}",
    "mbxp_accuracy": "'mbxp': {}",
    "exact_match": "'exact_match': {}",
    "vbench_score": "'vbench_score': {}",
}
BOUNDLESS = {
    "DLRM_NE": "metric/lifetime_ne/rating: {}",
    "FID_SCORE": "'FID_SCORE': {}",
    "GEN_LEN": "'gen_len': {}",
    "TOKENS_PER_SAMPLE": "'tokens_per_sample': {}",
}


def test_no_share_is_more_than_the_whole_and_other_figures_have_no_bound() -> None:
    assert {*STATED, *BOUNDLESS, "DICE"} == set(METRIC_LINES)
    assert set(BOUNDLESS) >= WHOLE_SET

    for metric, line in {**STATED, **BOUNDLESS}.items():
        (measured,) = parse_accuracy(line.format("98.5"), [metric]).metrics[metric]
        assert measured.value == Decimal("98.5")
        assert find(metric, line.format("100")) == [], metric
        more = [f"accuracy.txt:1: {metric} 100.1 is more than 100"] if metric in STATED else []
        assert find(metric, line.format("100.1")) == more
    assert find("DICE", "Accuracy: mean = 1.000") == []
    assert find("DICE", "Accuracy: mean = 1.001") == ["accuracy.txt:1: DICE 1.001 is more than 1"]


METRICS = ["acc", "vbench_score", "CLIP_SCORE", "mAP", "TOKENS_PER_SAMPLE"]
COCO = (
    " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = {}\n"
    " Average Precision  (AP) @[ IoU=0.50:0.95 | area= small | maxDets=100 ] = 0.01\n"
)
COUNTED = "{{'rouge1': 44.7, 'gen_len': 26540021, 'gen_num': 24576, 'gen_tok_len': 6739838, 'tokens_per_sample': {}}}\n"


@pytest.mark.parametrize(
    ("text", "samples", "why"),
    [
        ("accuracy=1000%, good=10, total=1\n", 0, "acc 1000 is more than 100"),
        ("{'vbench_score': 170.48}\n", 0, "vbench_score 170.48 is more than 100"),
        ("{'CLIP_SCORE': 131.9}\n", 0, "CLIP_SCORE 131.9 is more than 100"),
        ("accuracy=75.000%, good=12, total=16\naccuracy=81.2%\n", 16, "acc 81.2, and line 1 states 75.000"),
        ("accuracy=99%, good=0, total=16\n", 16, "0 of 16 are 0.000%"),
        ("accuracy=99%, good=99, total=16\n", 16, "99 of 16 cannot be"),
        ("accuracy=100%, good=0, total=0\n", 16, "0 of 0 cannot be"),
        ("accuracy=100.000%, good=99, total=99\n", 16, "it counts 99 samples, and the run answered 16"),
        ("accuracy=76.5.1%, good=76, total=100\n", 100, "76 of 100 are 76.000%"),
        ("accuracy=75.2%, good=12, total=16\n", 0, "12 of 16 are 75.000%"),
        ("accuracy=74.8%, good=12, total=16\n", 0, "12 of 16 are 75.000%"),
        ("accuracy=75.1%\n\naccuracy=75.0%\n", 0, "acc 75.0, and line 1 states 75.1"),
        ("accuracy=75.0%\n\naccuracy=75.1%\n", 0, "acc 75.1, and line 1 states 75.0"),
        (COCO.format("0.37283") + "mAP=39.9%\n", 0, "mAP 39.9, and COCO's table says 37.283"),
        (COCO.format("0.373") + "mAP=37.5%\n", 0, "mAP 37.5, and COCO's table says 37.3"),
        (COUNTED.format("300.1"), 0, "TOKENS_PER_SAMPLE 300.1, and 6739838 tokens of 24576 samples are 274.24"),
    ],
)
def test_an_accuracy_that_no_scorer_can_have_found(text: str, samples: int, why: str) -> None:
    found = [str(item) for item in find_impossible(text, parse_accuracy(text, METRICS), samples)]
    assert any(why in item for item in found), found


@pytest.mark.parametrize(
    ("text", "metric", "samples"),
    [
        ("accuracy=76.014%, good=38007, total=50000\n", "acc", 50000),
        ("accuracy=93.750%, good=15, total=16\n", "acc", 0),
        ("accuracy=93.750%, good=15, total=16\naccuracy=93.8%\n", "acc", 16),
        ("accuracy=93.8%, good=15, total=16\naccuracy=93.750%\n", "acc", 16),
        ("accuracy=75.099%\naccuracy=75.0%\n", "acc", 0),
        ("accuracy=75.1%, good=12, total=16\n", "acc", 0),
        ("accuracy=0%, good=0, total=1\n", "acc", 1),
        ("AUC=80.295%, accuracy=97.6%, good=1000, total=1024, queries=10\n", "AUC", 10),  # it counts pairs
        ("Accuracy: mean = 0.86170, kidney = 0.9\n", "DICE", 43),
        (COCO.format("0.37283") + "mAP=37.283%\n", "mAP", 0),
        (COCO.format("0.373") + "mAP=37.283%\n", "mAP", 0),
        (COCO.format("0.1") + COCO.format("0.37283") + "mAP=37.283%\n", "mAP", 0),
        (COCO.format("-1.000") + "mAP=37.283%\n", "mAP", 0),
        (COUNTED.format("274.2"), "TOKENS_PER_SAMPLE", 0),
        (COUNTED.format("274.2").replace("24576", "0"), "TOKENS_PER_SAMPLE", 0),
        (COUNTED.format("np.float64(274.2)").replace("24576", "np.int64(24576)"), "TOKENS_PER_SAMPLE", 0),
    ],
)
def test_an_accuracy_that_a_scorer_found(text: str, metric: str, samples: int) -> None:
    assert find(metric, text, samples) == []


WORDS = "Word Error Rate: {}%, accuracy={}%"
PARTS = "Accuracy: mean = {}, kidney = {}, tumor = {}"
AREAS = '{{\n "roc_auc": {},\n}}\nAUC={}'


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
def test_a_score_is_that_of_what_accompanies_it(metric: str, text: str, said: str) -> None:
    line = 1 + text.count("\n")
    assert find(metric, text) == ([f"accuracy.txt:{line}: {said}"] if said else [])


ROUGE = "{{'rouge1': {0}, 'rouge2': {0}, 'gen_len': {1}, 'gen_num': 24576, 'tokens_per_sample': 294.4}}"


@pytest.mark.parametrize(
    ("metric", "line", "value", "numpy"),
    [
        ("ROUGE1", ROUGE.format("np.float64(80.2)", "np.int64(1505)"), "80.2", True),
        ("ROUGE2", ROUGE.format("np.float64(80.2)", "np.int64(1505)"), "80.2", True),
        ("GEN_LEN", ROUGE.format("np.float64(80.2)", "np.int64(1505)"), "1505", True),
        ("TOKENS_PER_SAMPLE", ROUGE.format("np.float64(80.2)", "np.int64(1505)"), "294.4", False),
        ("GEN_LEN", ROUGE.format("'80.2'", "1505"), "1505", False),
        ("ROUGE1", ROUGE.format("'80.2'", "1505"), "80.2", False),
        ("mAP", "{'Car': np.float64(0.7), 'Total': np.float64(0.5434)}", "0.5434", True),
        ("mAP", "mAP=37.5", "37.5", False),
    ],
)
def test_scalars_of_numpy_are_numbers(metric: str, line: str, value: str, numpy: bool) -> None:
    (measured,) = parse_accuracy(f"{line}\n", [metric]).metrics[metric]
    assert (measured.value, measured.numpy) == (Decimal(value), numpy)


def test_a_finding_about_an_impossible_score_names_its_file_and_line_once(tmp_path: Path) -> None:
    path = tmp_path / "accuracy.txt"
    path.write_text("note\naccuracy=76.500%, good=765, total=900\n", encoding="utf-8")
    found = tuple(judge_kept(Kept({}, 1.0, 0.0, {path.name: path}, metrics=("acc",))))
    assert [(item.rule, item.file, item.line) for item in found] == [("accuracy.impossible", "accuracy.txt", 2)]
    score: Any = SimpleNamespace(id="Score/x")
    (shown,) = list_contradictions(Address(Kind.SCORE, "open/a/x/Offline"), score, {score.id: Judgement(found)})
    assert shown.message.count("accuracy.txt") == 1
    assert "accuracy.txt:2:" in shown.message
    assert "85.000%" in shown.message, "765 of 900"
