"""Origin of a log's lines in one run: one process writes all of it, and LoadGen's logger takes the time of its results
once, after the run. So a line of another log, or one that was made up, shows even where its value fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reconciler.loadgen.inconsistency import LOADGEN, Inconsistency
from reconciler.loadgen.log import DetailLog
from reconciler.resource.rules import rule

_RESULT = re.compile(r"result_.*", re.DOTALL)
_STAMP = re.compile(
    rb'(?P<stamp>, "time_ms": (?P<time>[\d.]+), "namespace": "(?P<namespace>[^"\\]*+)",).*?'
    rb'(?P<source>"file": "(?P<file>[^"\\]*+)",)'
)
_WORDS = {"time": "ms of LoadGen's logger", "namespace": "as namespace", "file": "as LoadGen's source file"}


@rule("log.one-run", "lines of one run", sources=LOADGEN)
def find_foreign_lines(log: DetailLog) -> Iterator[Inconsistency]:
    """``RunPerformanceMode`` (loadgen.cc:928 at v5.1.1) logs all results in one entry, which ``LogDetail`` stamps once
    with a time; ``TlsLogger`` (logging.cc:1131) takes the process's number once."""
    if not log.index.one_process:
        yield from _find_other_process(log)
    first, stamps = None, (b"", b"")
    for key, line, text in log.index.list_texts(_RESULT):
        if first is None or stamps[0] not in text or stamps[1] not in text:
            found = _STAMP.search(text)
            if found is not None and first is None:
                first, stamps = (found, line), (found["stamp"], found["source"])
            elif found is not None and first is not None:
                yield from _compare(key, line, found, *first)


def _find_other_process(log: DetailLog) -> Iterator[Inconsistency]:
    texts = log.index.list_texts()
    writer = _read_process(texts[0][2])
    for key, line, text in texts:
        if (process := _read_process(text)) != writer:
            yield Inconsistency(key, f"written by process {process}", f"process {writer} wrote the log", line)


def _read_process(text: bytes) -> str:
    return text.partition(b'"pid": ')[2].partition(b",")[0][:20].decode(errors="replace")


def _compare(
    key: str, line: int, found: re.Match[bytes], first: re.Match[bytes], first_line: int
) -> Iterator[Inconsistency]:
    for name, words in _WORDS.items():
        if found[name] != first[name]:
            stated, derived = (match[name].decode(errors="replace")[:40] for match in (found, first))
            yield Inconsistency(key, f"{stated} {words}", f"another of its results has {derived}", line, first_line)
