"""Which samples a log of answers may answer, and how many."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from reconciler.loadgen.answers import LoadedSamples, find_wrong_answers, summarize_loaded
from reconciler.loadgen.log import DetailLog, parse_detail


def accuracy_run(total: object, asked: object, mode: str = "AccuracyOnly", **more: object) -> DetailLog:
    """``more``: the JSON text of other values."""
    values = {"effective_test_mode": f'"{mode}"', "qsl_reported_total_count": total}
    values |= {"effective_accuracy_sample_count": asked} if asked is not None else {}
    return make_log([*values.items(), *more.items()])


def make_log(values: Iterable[tuple[str, object]]) -> DetailLog:
    lines = (f':::MLLOG {{"key": "{key}", "value": {value}, "metadata": {{}}}}\n' for key, value in values)
    return parse_detail("".join(lines).encode())


def find(parts: Iterable[bytes], log: DetailLog, *, whole: bool = True) -> list[list[int]]:
    """The numbers in what is said of each mistake."""
    found = list(find_wrong_answers(parts, log, whole=whole))
    assert all(text.startswith("answers: ") for text in found), found
    return [[int(number) for number in re.findall(r"\d+", text)] for text in found]


def answers(*samples: int) -> list[bytes]:
    return [b'{ "seq_id" : %d, "qsl_idx" : %d, "data" : "00" },\n' % item for item in enumerate(samples)]


@pytest.mark.parametrize(
    ("asked", "samples", "wrong"),
    [
        (2, (0, 3), []),
        (2, (0, 1, 2, 3), [[2, 4]]),
        (None, (0, 1, 2, 3), []),
        (None, (0, 3), [[4, 2]]),
        (2, (0, 4, 1), [[4, 4]]),
    ],
    ids=["as many as asked", "more than asked", "all", "not all", "one that is not there"],
)
def test_an_accuracy_run_answers_as_asked(asked: int | None, samples: tuple[int, ...], wrong: list[list[int]]) -> None:
    assert find(answers(*samples), accuracy_run(4, asked)) == wrong


@pytest.mark.parametrize("total", [4, 5000], ids=["few", "more than a page"])
def test_answers_are_distinguished_in_libraries_of_any_size(total: int) -> None:
    log = accuracy_run(total, None)
    assert list(find_wrong_answers(answers(*range(total)), log)) == []
    assert find(answers(*range(total - 1), 0), log) == [[total, total - 1], [1]]
    assert list(find_wrong_answers(answers(0, 1), accuracy_run(0, None))) == []


def test_what_is_cut_by_the_end_of_a_line_is_not_read_on_in_the_next() -> None:
    log = accuracy_run(4, None)
    assert list(find_wrong_answers([*answers(0, 1, 2, 3), b'"qsl_idx" :', b'9, "seq_id" : ', b"9"], log)) == []
    assert find([*answers(0, 1, 2, 3), b'"data" : "00', b'"'], log) == [[1]]


def test_of_a_truncated_log_only_what_is_there_is_judged() -> None:
    log, few = accuracy_run(4, None), answers(0, 3)
    assert find(few, log) == [[4, 2]]
    assert find(few, log, whole=False) == []
    assert find(answers(0, 1, 2, 3, 4), accuracy_run(9, 4), whole=False) == [[4, 5]]
    unnumbered = [b'{ "qsl_idx" : 1, "data" : "00" },', *answers(0, 2, 3)]
    assert find(unnumbered, log) == [[4, 3]]
    assert find(unnumbered, log, whole=False) == []


@pytest.mark.parametrize(
    ("scenario", "sets", "spare"),
    [("MultiStream", 0, 7), ("MultiStream", 1, 7), ("MultiStream", 2, 14), ("SingleStream", 2, 0), ("Offline", 1, 0)],
)
def test_multi_stream_fills_up_the_last_query_of_each_of_its_sets(scenario: str, sets: int, spare: int) -> None:
    values = [("effective_test_mode", '"AccuracyOnly"'), ("effective_scenario", f'"{scenario}"')]
    loaded = [("loaded_qsl_set", [at]) for at in range(sets)]
    log = make_log([*values, ("qsl_reported_total_count", 30), *loaded])
    assert find(answers(*range(30), *range(spare)), log) == []
    assert find(answers(*range(30), *range(spare + 1)), log) == [[30 + spare], [spare + 1]]


@pytest.mark.parametrize("stated", ["generated_samples_per_query", "effective_samples_per_query"])
@pytest.mark.parametrize(("group", "sets"), [(8, 1), (262, 1), (262, 3)])
def test_multi_stream_of_queries_of_any_length_fills_its_sets_up(stated: str, group: int, sets: int) -> None:
    """Before release 2 a submitter chose how many samples a query has."""
    values = [("effective_test_mode", '"AccuracyOnly"'), ("effective_scenario", '"MultiStream"'), (stated, group)]
    log = make_log([*values, ("qsl_reported_total_count", 300), *[("generated_query_count", 2)] * sets])
    spare = sets * (group - 1)
    repeated = [sample % 300 for sample in range(spare + 1)]
    assert find(answers(*range(300), *repeated[:-1]), log) == []
    assert find(answers(*range(300), *repeated), log)


@pytest.mark.parametrize(
    ("queries", "each", "wrong"),
    [
        (1, 3, [[3]]),
        (3, 1, [[3]]),
        (2, 2, []),
        (4, 1, []),
        (0, 4, []),  # unknown
    ],
)
def test_a_test_logs_answers_of_samples_that_were_issued(queries: int, each: int, wrong: list[list[int]]) -> None:
    counts = {"generated_query_count": queries, "generated_samples_per_query": each}
    log = accuracy_run(9, None, "PerformanceOnly", **counts)
    assert find(answers(0, 1, 2, 8), log) == wrong


def test_a_seq_id_of_several_answers_is_identified_by_how_many() -> None:
    log = accuracy_run(9, None, "PerformanceOnly", generated_query_count=4, generated_samples_per_query=1)
    again = [b'{ "seq_id" : 1, "qsl_idx" : 5, "data" : "00" },']
    assert find([*answers(0, 1), *again], log) == [[1]]
    assert find([*answers(0, 1), *again, *again], log) == [[2]]


@pytest.mark.parametrize(("total", "judged"), [(50_000_000, True), (50_000_001, False)])
def test_what_no_library_and_no_run_has_is_not_judged(total: int, judged: bool) -> None:
    beyond = [b'{ "seq_id" : 0, "qsl_idx" : %d, "data" : "00" }' % total]
    assert find(beyond, accuracy_run(total, None, "PerformanceOnly")) == [[total, total]] * judged
    assert find(beyond, accuracy_run(9, total, "PerformanceOnly")) == [[total, 9]] * judged
    unissued = [b'{ "seq_id" : %d, "qsl_idx" : 0, "data" : "00" }' % total]
    log = accuracy_run(9, None, "PerformanceOnly", generated_query_count=1, generated_samples_per_query=total)
    assert find(unissued, log) == [[total]] * judged


def test_every_damaged_answer_of_many_short_lines_is_counted() -> None:
    """More than are looked at together."""
    lines = [b'"data":"0"'] * 9000
    assert find(lines, accuracy_run(4, None, "PerformanceOnly")) == [[9000]]
    assert find([b"\n".join(lines[:100])], accuracy_run(4, None, "PerformanceOnly")) == [[100]]


@pytest.mark.parametrize(
    ("data", "whole"), [("00", True), ("", True), ("aF09", True), ("0", False), ("00g", False), ("0x00", False)]
)
def test_data_is_whole_bytes_in_digits_of_either_size(data: str, whole: bool) -> None:
    line = f'"data" : "{data}"'.encode()
    assert find([line], accuracy_run(4, None, "PerformanceOnly")) == [[1]] * (not whole)


TAIL = (
    ', "time_ms": 0.5, "namespace": "mlperf::logging", "event_type": "POINT_IN_TIME", "metadata": {"is_error": false, '
    '"is_warning": false, "file": "loadgen.cc", "line_no": 7, "pid": 1, "tid": 2}}'
)


def lines(*values: str, tail: str = TAIL) -> DetailLog:
    text = "".join(f':::MLLOG {{"key": "loaded_qsl_set", "value": {value}{tail}\n' for value in values)
    return parse_detail(text.encode())


@pytest.mark.parametrize(
    ("values", "loaded"),
    [
        (("[3,1,2]",), LoadedSamples(3, 3)),
        (("[]",), LoadedSamples(0)),
        (("[1,2]", "[2,5]"), LoadedSamples(3, 5)),
        (("[-4,-2,7]",), LoadedSamples(3, 7, -2)),
        (('[1,"x",9]',), LoadedSamples(2, 9)),
        (("[1,[2,3]]",), LoadedSamples(1, 1)),
    ],
)
def test_samples_are_those_of_the_lists_at_each_reading(values: tuple[str, ...], loaded: LoadedSamples) -> None:
    assert [summarize_loaded(lines(*values)) for _ in range(2)] == [loaded, loaded]


def test_lists_are_those_of_another_log_where_all_of_them_are() -> None:
    begin = ",".join(map(str, range(300, 400)))
    for lasts in ((501, 502), (501, 503), (504, 503), (501, 502)):
        found = summarize_loaded(lines(*(f"[{begin},{last}]" for last in lasts)))
        assert found == LoadedSamples(102, max(lasts))
