"""Read LoadGen's text detail logs from before v1.0: ``"pid": 7, "tid": 7, "ts": 41338ns : name : value``.

They become a ``DetailLog`` with the names that LoadGen has used since. Those releases wrote the verdict and the results
into the summary only, so these are read from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from reconciler.loadgen import keys
from reconciler.loadgen.log import AUDIT_TEXT, TEXT_MARKER, DetailLog
from reconciler.loadgen.log_files import DETAIL
from reconciler.loadgen.log_index import LogIndex
from reconciler.loadgen.log_line import LogLine
from reconciler.loadgen.summary import OLD_WORDS, SummaryLog, list_result_keys
from reconciler.resource.quantities import parse_decimal

_LINE = re.compile(r'"pid": \d+, "tid": \d+, "ts": \d+ns : (?P<text>.*)')
_LONGEST = 4096  # characters of a line that are read; only lists of samples are longer
_DIGITS = 40  # maximum digits of a whole number
_SECTIONS = {"Effective Settings:": "effective_", "Requested Settings:": "requested_"}
# Keys of the lines outside both sections; colons may have a blank before them.
_NAMES = {
    "version": keys.LOADGEN_VERSION,
    "build_date_utc": keys.LOADGEN_BUILD_DATE_UTC,
    "git_commit_date": keys.LOADGEN_GIT_COMMIT_DATE,
    "Date + time of test": keys.TEST_DATETIME,
    "System Under Test (SUT) name": keys.SUT_NAME,
    "Query Sample Library (QSL) name": keys.QSL_NAME,
    "QSL total size": keys.QSL_REPORTED_TOTAL_COUNT,
    "QSL performance size*": keys.QSL_REPORTED_PERFORMANCE_COUNT,
}
_SETTINGS = {"Scenario": "scenario", "Test mode": "test_mode"}
_UNIT = re.compile(r" \((ns|ms)\)$")
_QUERIES = re.compile(r'GeneratedQueries: "queries" : (\d+), "samples per query" : (\d+), "duration" : (\d+)')
_CLOCK = re.compile(r'POWER_(BEGIN|END): .*"time" : (\S+ \S+)')
_HARMLESS = "CAS failed"  # an error of LoadGen's own logger, which the round's checker ignored
PASSED_OVER = "error_passed_over"  # the key of such a line


def is_text_log(data: bytes) -> bool:
    return data.startswith(TEXT_MARKER)


def parse_text_log(data: bytes, summary: SummaryLog | None, file: str = DETAIL) -> DetailLog:
    """Parse a text log. ``summary``: of the same run, None if unreadable; that of an accuracy run has no values."""
    section = ""
    lines: list[LogLine] = []
    number = 0
    for number, raw in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        found = _LINE.match(raw, 0, _LONGEST)
        text = found["text"].strip() if found else ""
        section = _SECTIONS.get(text, section if text else "")
        lines += _read_entries(text, section, number)
    lines += _read_results(summary) if summary else ()
    return DetailLog(file, LogIndex(lines, structured=False), number)


def _read_entries(text: str, section: str, line: int) -> Iterator[LogLine]:
    if AUDIT_TEXT in text:
        yield LogLine("generic_message", text, line, warning=True)
    elif "ERROR" in text:
        harmless = _HARMLESS in text
        yield LogLine(PASSED_OVER if harmless else "error_generic_message", text, line, error=not harmless)
    elif found := _QUERIES.match(text):
        names = (keys.GENERATED_QUERY_COUNT, keys.GENERATED_SAMPLES_PER_QUERY, keys.GENERATED_QUERY_DURATION)
        yield from (LogLine(name, int(value), line) for name, value in zip(names, found.groups(), strict=True))
    elif found := _CLOCK.match(text):
        yield LogLine(f"power_{found[1].lower()}", found[2], line)
    else:
        name, colon, value = text.partition(":")
        if section and value:
            name = _UNIT.sub(r"_\1", name.strip())
            yield LogLine(f"{section}{_SETTINGS.get(name, name)}", _read_value(value), line)
        elif not section and colon and name.strip() in _NAMES:
            yield LogLine(_NAMES[name.strip()], _read_value(value), line)


def _read_value(text: str) -> Any:
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    if text.isdecimal() and len(text) <= _DIGITS:
        return int(text)
    number = parse_decimal(text)
    return OLD_WORDS.get(text, text) if number is None else number


def _read_results(summary: SummaryLog) -> Iterator[LogLine]:
    for name, key in list_result_keys(summary.get("Scenario")):
        said = summary.get(name)
        if said in ("Yes", "No"):
            yield LogLine(key, said == "Yes", 0)
        elif said:
            yield LogLine(key, _read_value(said), 0)
