"""Which samples a log of answers may answer, and how many."""

from __future__ import annotations

import pytest

from reconciler.mlperf.loadgen.answers import find_wrong_answers
from reconciler.mlperf.loadgen.log import DetailLog, parse_detail


def accuracy_run(total: int, asked: int | None, mode: str = "AccuracyOnly") -> DetailLog:
    values = {"effective_test_mode": f'"{mode}"', "qsl_reported_total_count": total}
    values |= {"effective_accuracy_sample_count": asked} if asked is not None else {}
    lines = (f':::MLLOG {{"key": "{key}", "value": {value}, "metadata": {{}}}}\n' for key, value in values.items())
    return parse_detail("".join(lines).encode())


def answers(*samples: int) -> list[bytes]:
    return [b'{ "seq_id" : %d, "qsl_idx" : %d, "data" : "00" },\n' % item for item in enumerate(samples)]


@pytest.mark.parametrize(
    ("asked", "samples", "wrong"),
    [
        (2, (0, 3), []),
        (2, (0, 1, 2, 3), ["answers: expected those to 2 samples, mlperf_log_accuracy.json answers 4"]),
        (None, (0, 1, 2, 3), []),
        (None, (0, 3), ["answers: expected those to 4 samples, mlperf_log_accuracy.json answers 2"]),
        (2, (0, 4, 1), ["answers: mlperf_log_accuracy.json answers sample 4, and the library has 4 samples"]),
    ],
    ids=["as many as asked", "more than asked", "all", "not all", "one that is not there"],
)
def test_an_accuracy_run_answers_the_samples_that_it_was_asked(
    asked: int | None, samples: tuple[int, ...], wrong: list[str]
) -> None:
    assert list(find_wrong_answers(answers(*samples), accuracy_run(4, asked))) == wrong


@pytest.mark.parametrize("total", [4, 5000], ids=["few", "more than a page"])
def test_answers_are_told_apart_in_libraries_of_any_size(total: int) -> None:
    log = accuracy_run(total, None)
    assert list(find_wrong_answers(answers(*range(total)), log)) == []
    twice = [f"answers: expected those to {total} samples, mlperf_log_accuracy.json answers {total - 1}"]
    twice.append("answers: mlperf_log_accuracy.json answers 1 time a sample that it has answered already")
    assert list(find_wrong_answers(answers(*range(total - 1), 0), log)) == twice
    assert list(find_wrong_answers(answers(0, 1), accuracy_run(0, None))) == []


def test_answers_of_a_run_that_tells_nothing_of_what_it_issued_are_judged_by_their_samples() -> None:
    log = accuracy_run(4, None, "PerformanceOnly")
    assert list(find_wrong_answers(answers(0, 3, 3), log)) == []
    (wrong,) = find_wrong_answers(answers(0, 4), log)
    assert wrong == "answers: mlperf_log_accuracy.json answers sample 4, and the library has 4 samples"


@pytest.mark.parametrize(
    "text",
    [
        b'{ "seq_id" : 0, "qsl_idx" : 3, "qsl_idx" : 1, "data" : "00" }',
        b'{ "seq_id":0, "qsl_idx":3 }{ "seq_id" :1,"qsl_idx": 1 }',
        b'"qsl_idx" "qsl_idx" : 3, "seq_id" :\t0, "seq_id" : one, "seq_id" : 1, "qsl_idx" : 01',
    ],
    ids=["twice in an entry", "several in a line", "names without a number"],
)
def test_every_sample_that_is_named_counts_wherever_it_stands(text: bytes) -> None:
    wrong = list(find_wrong_answers([b'{ "seq_id" : 2, "qsl_idx" : 0, "data" : "00" },\n', text], accuracy_run(4, 3)))
    assert not [line for line in wrong if "answers 2" in line or "expected those" in line]


def test_what_is_cut_by_the_end_of_a_line_is_not_read_on_in_the_next() -> None:
    log = accuracy_run(4, None)
    assert list(find_wrong_answers([*answers(0, 1, 2, 3), b'"qsl_idx" :', b'9, "seq_id" : ', b"9"], log)) == []
    (wrong,) = find_wrong_answers([*answers(0, 1, 2, 3), b'"data" : "00', b'"'], log)
    assert wrong == "answers: mlperf_log_accuracy.json has 1 whose data is not whole bytes in hexadecimal"


@pytest.mark.parametrize(("size", "read"), [(1 << 16, True), ((1 << 16) + 1, False)])
def test_data_of_long_answers_are_left_to_those_who_score_them(size: int, read: bool) -> None:
    """Half a byte too few."""
    part = b'{ "seq_id" : 0, "qsl_idx" : 0, "data" : "000" },\n'.ljust(size)
    found = list(find_wrong_answers([part], accuracy_run(1, None)))
    assert len(found) == read, found
