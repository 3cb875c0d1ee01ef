"""What a log says of latencies and of its own release, from the figures alone."""

from __future__ import annotations

import datetime
import hashlib
from decimal import Decimal

import pytest

from reconciler.loadgen.consistency import find_inconsistencies
from reconciler.loadgen.inconsistency import read_elapsed_seconds
from reconciler.loadgen.log import DetailLog, parse_detail
from tests.unit.loadgen.test_contradictions import make_log

RELEASE = "6.0.1 @ 0123456789"
NAMES = {
    "latency_ns": ("result_min_latency_ns", "result_{}_percentile_latency_ns", "result_max_latency_ns"),
    "query_latency_ns": (
        "result_min_query_latency_ns",
        "result_{}_percentile_per_query_latency_ns",
        "result_max_query_latency_ns",
    ),
}


@pytest.mark.parametrize("part", NAMES)
@pytest.mark.parametrize(
    ("figures", "wrong"),
    [
        pytest.param({"least": 1, "50.00": 2, "99.90": 2, "most": 3}, (), id="rising"),
        pytest.param({"least": 2, "50.00": 1, "most": 3}, ("50.00", "least", 2), id="below the least"),
        pytest.param({"50.00": 2, "90.00": 1, "most": 3}, ("90.00", "50.00", 2), id="falling"),
        pytest.param({"97.00": 2, "99.00": 3, "99.90": 2}, ("99.90", "99.00", 3), id="falling at the end"),
        pytest.param({"99.90": 4, "most": 3}, ("most", "99.90", 4), id="beyond the greatest"),
        pytest.param({"least": 4, "most": 3}, ("most", "least", 4), id="nothing between"),
    ],
)
def test_percentiles_do_not_fall(part: str, figures: dict[str, int], wrong: tuple[str, str, int] | tuple[()]) -> None:
    least, ranked, most = NAMES[part]

    def name(figure: str) -> str:
        return {"least": least, "most": most}.get(figure, ranked.format(figure))

    log = make_log(RELEASE, effective_scenario="MultiStream", **{name(at): value for at, value in figures.items()})
    found = [
        (item.key, item.derived, item.line, item.other)
        for item in find_inconsistencies(log)
        if item.key in map(name, figures)
    ]
    if not wrong:
        assert found == []
    else:
        late, early, value = name(wrong[0]), name(wrong[1]), wrong[2]
        assert found == [(late, f"{early} is {value}", log.find_line_number(late), log.find_line_number(early))]


@pytest.mark.parametrize(
    ("version", "listed", "wrong"),
    [
        (RELEASE, b"6.0.1\n", False),
        (RELEASE, b"6.0.1", False),
        (RELEASE, b"6.0.1\r\n", False),
        (RELEASE, b"6.0.2\n", True),
        (RELEASE, None, False),
        ("6.0.1", b"6.0.1\n", False),
        (6.0, b"6.0.1\n", False),
    ],
    ids=["fits", "without a line end", "of Windows", "of another", "not listed", "without a commit", "no text"],
)
def test_the_release_is_the_number_among_its_sources(version: object, listed: bytes | None, wrong: bool) -> None:
    digests = {"/VERSION.txt": hashlib.sha1(listed).hexdigest()} if listed else {"/loadgen.cc": "0" * 40}
    log = make_log(version, loadgen_file_sha1=digests)  # type: ignore[arg-type]
    found = [item for item in find_inconsistencies(log) if "VERSION.txt" in item.derived]
    assert [(item.key, item.derived, item.line, item.other) for item in found] == [
        (
            "loadgen_version",
            "VERSION.txt of its sources states another",
            log.find_line_number("loadgen_version"),
            log.find_line_number("loadgen_file_sha1"),
        )
    ] * wrong


@pytest.mark.parametrize("sources", [None, [], "text", {"/VERSION.txt": 7}], ids=["none", "list", "text", "number"])
def test_sources_that_are_listed_otherwise_say_nothing_of_the_release(sources: object) -> None:
    log = make_log(RELEASE, **({} if sources is None else {"loadgen_file_sha1": sources}))
    assert not [item for item in find_inconsistencies(log) if "VERSION.txt" in item.derived]


ENDED = datetime.datetime(2023, 2, 22, 8, 55, 8, 0)


@pytest.mark.parametrize(
    ("apart", "reported"),
    [
        (0, False),
        (5, False),
        (450, False),  # LoadGen may write a trace for as long
        (13 * 3600, False),
        (-20_700, False),  # 5:45 h
        (26 * 3600, False),
        (26 * 3600 + 900, True),
        (-26 * 3600 + 900, False),
        (-26 * 3600, True),
    ],
)
def test_loadgens_date_is_local_time_of_some_zone(apart: int, reported: bool) -> None:
    """Its logger had run for 20 s when the run ended."""
    dated = f"{ENDED - datetime.timedelta(seconds=20 + apart):%Y-%m-%dT%H:%M:%SZ}"
    ended = f"{ENDED:%m-%d-%Y %H:%M:%S}.000"
    log = make_log("6.0 @ abc", test_datetime=dated, power_end=ended)
    found = [item for item in find_inconsistencies(log) if "LoadGen's logger had run" in item.derived]
    derived = f"test_datetime is {dated}, and LoadGen's logger had run for 20.0005 s"
    lines = log.find_line_number("power_end"), log.find_line_number("test_datetime")
    assert [(item.key, item.stated, item.derived, item.line, item.other, bool(item.premise)) for item in found] == (
        [("power_end", ended, derived, *lines, True)] if reported else []
    )


def make_log_inconsistency(**values: str) -> DetailLog:
    """Of the JSON text of values."""
    return parse_detail(
        "".join(f':::MLLOG {{"key": "{key}", "value": {text}}}\n' for key, text in values.items()).encode()
    )


def test_a_run_lasts_from_its_beginning_to_its_end() -> None:
    begun, ended = '"11-22-2026 12:00:00.250"', '"11-22-2026 12:00:10.500"'
    assert read_elapsed_seconds(make_log_inconsistency(power_begin=begun, power_end=ended)) == Decimal("10.25")
    for values in ({"power_begin": begun}, {"power_end": ended}, {"power_begin": begun, "power_end": '"late"'}):
        assert read_elapsed_seconds(make_log_inconsistency(**values)) is None
