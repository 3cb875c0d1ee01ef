"""What a log says of latencies and of its own release, from the figures alone."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from reconciler.loadgen.consistency import find_inconsistencies
from reconciler.loadgen.inconsistency import elapsed_seconds
from reconciler.loadgen.log import DetailLog, parse_detail
from tests.unit.loadgen.test_contradictions import make_log

RELEASE = "6.0.1 @ 0123456789"


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
    assert elapsed_seconds(make_log_inconsistency(power_begin=begun, power_end=ended)) == Decimal("10.25")
    for values in ({"power_begin": begun}, {"power_end": ended}, {"power_begin": begun, "power_end": '"late"'}):
        assert elapsed_seconds(make_log_inconsistency(**values)) is None
