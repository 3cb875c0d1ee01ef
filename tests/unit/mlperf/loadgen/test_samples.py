"""Lists of loaded samples: one that was summarized before is not read again, whatever log it stands in."""

from __future__ import annotations

import pytest

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


def test_lists_are_those_of_another_log_where_all_of_them_are() -> None:
    begin = ",".join(map(str, range(300, 400)))
    for lasts in ((501, 502), (501, 503), (504, 503), (501, 502)):
        found = summarize_loaded(lines(*(f"[{begin},{last}]" for last in lasts)))
        assert found == LoadedSamples(102, max(lasts))
