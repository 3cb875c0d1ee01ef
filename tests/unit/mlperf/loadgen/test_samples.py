"""Lists of loaded samples: one that was summarized before is not read again, whatever log it stands in."""

from __future__ import annotations

import pytest

from reconciler.loadgen import samples
from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.samples import LoadedSamples, summarize_loaded

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
        (("[1,x]",), LoadedSamples(0)),
    ],
)
def test_samples_are_those_of_the_lists_at_each_reading(values: tuple[str, ...], loaded: LoadedSamples) -> None:
    assert [summarize_loaded(lines(*values)) for _ in range(2)] == [loaded, loaded]


def test_a_long_list_is_counted() -> None:
    assert summarize_loaded(lines(str(list(range(30_000))).replace(" ", ""), "[7]")) == LoadedSamples(30_001, 7)


@pytest.mark.parametrize(
    "tail",
    [
        TAIL.replace(', "time_ms"', ', "value": [40,50], "time_ms"'),
        TAIL.replace("}}", ', "value": [40,50]}}'),
    ],
    ids=["second-value", "nested-value"],
)
def test_a_line_that_loadgen_did_not_write_says_nothing_of_other_logs(tail: str) -> None:
    list_of_its_own = f"[6,{len(tail)}]"
    summarize_loaded(lines(list_of_its_own, tail=tail))
    assert summarize_loaded(lines(list_of_its_own)) == LoadedSamples(2, len(tail))


def test_the_second_of_two_values_counts() -> None:
    assert (
        summarize_loaded(lines("[1]", tail=TAIL.replace(', "time_ms"', ', "value": [40,50], "time_ms"'))).greatest == 50
    )


def test_lists_that_differ_in_their_last_sample_are_two() -> None:
    begin = ",".join(map(str, range(100, 200)))
    assert [summarize_loaded(lines(f"[{begin},{last}]")).greatest for last in (201, 301, 201)] == [201, 301, 201]


def test_lists_are_those_of_another_log_where_all_of_them_are() -> None:
    begin = ",".join(map(str, range(300, 400)))
    for lasts in ((501, 502), (501, 503), (504, 503), (501, 502)):
        found = summarize_loaded(lines(*(f"[{begin},{last}]" for last in lasts)))
        assert found == LoadedSamples(102, max(lasts))


def test_lists_of_many_logs_are_forgotten_again() -> None:
    for first in range(40):
        values = [",".join(map(str, range(first, first + 10_000)))] * 10
        assert summarize_loaded(lines(*(f"[{value}]" for value in values))).different == 10_000
    assert samples._KNOWN.held == sum(map(samples._count_bytes, samples._KNOWN.found)) <= samples._HELD


@pytest.mark.parametrize(("first", "loaded"), [("7", LoadedSamples(2, 7)), ("77", LoadedSamples(32_762))])
def test_a_list_is_read_up_to_a_length(first: str, loaded: LoadedSamples) -> None:
    """65,525 bytes; of one that is longer each sample counts."""
    text = f"[{first}," + "1," * 32_760 + "1]"
    assert len(text) == 65_524 + len(first)
    assert summarize_loaded(lines(text)) == loaded


def test_a_long_list_beside_a_line_that_is_none_is_counted() -> None:
    long = "[7," + "1," * 40_000 + "1]"
    assert summarize_loaded(lines(long, '"none"')) == LoadedSamples(40_002)
    assert summarize_loaded(lines("[7,1]", '"none"', "[9]")) == LoadedSamples(3, 9)
