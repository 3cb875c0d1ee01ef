"""Which samples a log of answers may answer, and how many."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from reconciler.loadgen.answers import count_answered, find_wrong_answers
from reconciler.loadgen.log import DetailLog, parse_detail


def accuracy_run(total: object, asked: object, mode: str = "AccuracyOnly", **more: object) -> DetailLog:
    """``more``: the JSON text of other values."""
    values = {"effective_test_mode": f'"{mode}"', "qsl_reported_total_count": total}
    values |= {"effective_accuracy_sample_count": asked} if asked is not None else {}
    return make_log([*values.items(), *more.items()])


def make_log(values: Iterable[tuple[str, object]]) -> DetailLog:
    lines = (f':::MLLOG {{"key": "{key}", "value": {value}, "metadata": {{}}}}\n' for key, value in values)
    return parse_detail("".join(lines).encode())


def told(parts: Iterable[bytes], log: DetailLog, *, whole: bool = True) -> list[str]:
    """Without what all begin with."""
    found = list(find_wrong_answers(parts, log, whole=whole))
    assert all(text.startswith("answers: ") for text in found), found
    return [text.removeprefix("answers: ").removeprefix("mlperf_log_accuracy.json ") for text in found]


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


def test_of_a_truncated_log_only_what_is_there_is_judged() -> None:
    log, few = accuracy_run(4, None), answers(0, 3)
    assert told(few, log) == ["expected those to 4 samples, mlperf_log_accuracy.json answers 2"]
    assert told(few, log, whole=False) == []
    assert told(answers(0, 1, 2, 3, 4), accuracy_run(9, 4), whole=False) == [
        "expected those to 4 samples, mlperf_log_accuracy.json answers 5"
    ]
    unnumbered = [b'{ "qsl_idx" : 1, "data" : "00" },', *answers(0, 2, 3)]
    assert told(unnumbered, log) == ["has 4 answers, and a seq_id of 3"]
    assert told(unnumbered, log, whole=False) == []


@pytest.mark.parametrize(
    ("scenario", "sets", "spare"),
    [("MultiStream", 0, 7), ("MultiStream", 1, 7), ("MultiStream", 2, 14), ("SingleStream", 2, 0), ("Offline", 1, 0)],
)
def test_multi_stream_fills_up_the_last_query_of_each_of_its_sets(scenario: str, sets: int, spare: int) -> None:
    values = [("effective_test_mode", '"AccuracyOnly"'), ("effective_scenario", f'"{scenario}"')]
    loaded = [("loaded_qsl_set", [at]) for at in range(sets)]
    log = make_log([*values, ("qsl_reported_total_count", 30), *loaded])
    assert told(answers(*range(30), *range(spare)), log) == []
    one_more = f"answers {spare + 1} time{'s' * (spare > 0)} a sample that it has answered already"
    beyond = f"has seq_id {30 + spare}, which is more than LoadGen issued"
    assert told(answers(*range(30), *range(spare + 1)), log) == [beyond, one_more]


@pytest.mark.parametrize("stated", ["generated_samples_per_query", "effective_samples_per_query"])
@pytest.mark.parametrize(("group", "sets"), [(8, 1), (262, 1), (262, 3)])
def test_multi_stream_of_queries_of_any_length_fills_its_sets_up(stated: str, group: int, sets: int) -> None:
    """Before release 2 a submitter chose how many samples a query has."""
    values = [("effective_test_mode", '"AccuracyOnly"'), ("effective_scenario", '"MultiStream"'), (stated, group)]
    log = make_log([*values, ("qsl_reported_total_count", 300), *[("generated_query_count", 2)] * sets])
    spare = sets * (group - 1)
    repeated = [sample % 300 for sample in range(spare + 1)]
    assert told(answers(*range(300), *repeated[:-1]), log) == []
    assert told(answers(*range(300), *repeated), log)


@pytest.mark.parametrize(
    ("queries", "each", "wrong"),
    [
        (1, 3, ["has seq_id 3, which is more than LoadGen issued"]),
        (3, 1, ["has seq_id 3, which is more than LoadGen issued"]),
        (2, 2, []),
        (4, 1, []),
        (0, 4, []),  # unknown
    ],
)
def test_a_test_logs_answers_of_samples_that_were_issued(queries: int, each: int, wrong: list[str]) -> None:
    counts = {"generated_query_count": queries, "generated_samples_per_query": each}
    log = accuracy_run(9, None, "PerformanceOnly", **counts)
    assert told(answers(0, 1, 2, 8), log) == wrong


def test_a_seq_id_of_several_answers_is_told_by_how_many() -> None:
    log = accuracy_run(9, None, "PerformanceOnly", generated_query_count=4, generated_samples_per_query=1)
    again = [b'{ "seq_id" : 1, "qsl_idx" : 5, "data" : "00" },']
    assert told([*answers(0, 1), *again], log) == ["has 1 time a seq_id of another answer"]
    assert told([*answers(0, 1), *again, *again], log) == ["has 2 times a seq_id of another answer"]


@pytest.mark.parametrize(("wanted", "wrong"), [(29, False), (30, True), (64, True), ("true", False), (-64, False)])
def test_a_test_that_wants_many_answers_logs_some(wanted: object, wrong: bool) -> None:
    """There is none of thirty by chance."""
    log = accuracy_run(9, None, "PerformanceOnly", effective_accuracy_log_sampling_target=wanted)
    said = [f"has none, and the test logs about {wanted} of them"]
    assert told([b"[", b"]"], log) == said * wrong
    assert told([b"[", b"]"], log, whole=False) == []
    assert told(answers(0), log) == []
    (none,) = told([], accuracy_run(9, None, effective_accuracy_log_sampling_target=wanted))
    assert none.startswith("expected those to 9 samples")


@pytest.mark.parametrize(("total", "judged"), [(50_000_000, True), (50_000_001, False)])
def test_what_no_library_and_no_run_has_is_not_judged(total: int, judged: bool) -> None:
    beyond = [b'{ "seq_id" : 0, "qsl_idx" : %d, "data" : "00" }' % total]
    said = f"answers sample {total}, and the library has {total} samples"
    assert told(beyond, accuracy_run(total, None, "PerformanceOnly")) == [said] * judged
    assert (
        told(beyond, accuracy_run(9, total, "PerformanceOnly"))
        == [f"answers sample {total}, and the library has 9 samples"] * judged
    )
    unissued = [b'{ "seq_id" : %d, "qsl_idx" : 0, "data" : "00" }' % total]
    log = accuracy_run(9, None, "PerformanceOnly", generated_query_count=1, generated_samples_per_query=total)
    assert told(unissued, log) == [f"has seq_id {total}, which is more than LoadGen issued"] * judged


@pytest.mark.parametrize(
    ("total", "read"), [("4", 4), ("4.0", 4), ("0", 0), ("-4", 0), ("true", 0), ('"4"', 0), ("null", 0)]
)
def test_the_size_of_a_library_is_a_number_above_0(total: str, read: int) -> None:
    wrong = [f"answers sample {read}, and the library has {read} samples"] if read else []
    assert told([b'"seq_id" : 0, "qsl_idx" : 4'], accuracy_run(total, None, "PerformanceOnly")) == wrong
    assert told([b'"seq_id" : 0, "qsl_idx" : 4'], accuracy_run(total, 3, "PerformanceOnly")) == wrong


def test_every_damaged_answer_of_many_short_lines_is_counted() -> None:
    """More than are looked at together."""
    lines = [b'"data":"0"'] * 9000
    assert told(lines, accuracy_run(4, None, "PerformanceOnly")) == [
        "has 9000 whose data is not whole bytes in hexadecimal"
    ]
    assert told([b"\n".join(lines[:100])], accuracy_run(4, None, "PerformanceOnly")) == [
        "has 100 whose data is not whole bytes in hexadecimal"
    ]


@pytest.mark.parametrize(
    ("data", "whole"), [("00", True), ("", True), ("aF09", True), ("0", False), ("00g", False), ("0x00", False)]
)
def test_data_is_whole_bytes_in_digits_of_either_size(data: str, whole: bool) -> None:
    line = f'"data" : "{data}"'.encode()
    wrong = ["has 1 whose data is not whole bytes in hexadecimal"] * (not whole)
    assert told([line], accuracy_run(4, None, "PerformanceOnly")) == wrong


def test_samples_are_counted_once_each() -> None:
    assert count_answered([*answers(0, 3, 3), b'"qsl_idx":7 "qsl_idx" : 3', b"[", b'"qsl_idx" : "9"']) == 3
    assert count_answered([]) == 0
