"""A run's loaded samples, and checks that its accuracy log is complete: each sample of the dataset appears exactly
once, as the only sample of a query that LoadGen issued."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from mmap import mmap

from msgspec import Struct

from reconciler.loadgen import keys
from reconciler.loadgen.inconsistency import read_integer
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_files import ACCURACY_LOG
from reconciler.loadgen.settings import ACCURACY, LOADGEN_MODE, PERFORMANCE
from reconciler.resource.quantities import show_count

_INDEX = re.compile(rb'"qsl_idx"[^\S\r\n]*+:[^\S\r\n]*+(\d{1,18})(?!\d)')  # must match within one line
_NUMBER = re.compile(rb'"seq_id"[^\S\r\n]*+:[^\S\r\n]*+(\d{1,18})(?!\d)')
# The hexadecimal digits of an answer and their terminator: LoadGen writes complete bytes and nothing else.
_DATA = re.compile(rb'"data"[^\S\r\n]*+:[^\S\r\n]*+"([0-9A-Fa-f]*+)(?=("?))')
_LARGEST_READ = 1 << 16  # bytes; scorers and compliance tests read the images and long texts of larger ones
_MOST = 50_000_000  # maximum samples of one library, far above the largest dataset, and maximum answers of one run
_WANTED = keys.EFFECTIVE_ACCURACY_LOG_SAMPLING_TARGET
_SMALL = 65_536  # bytes of memory
_SURE = 30  # expected number of answers at which a log without any is an error: by chance, once in e^30 runs


def find_wrong_answers(parts: Iterable[bytes], log: DetailLog, *, whole: bool = True) -> Iterator[str]:
    """Find errors in the log of answers. ``parts``: one or more lines each. Only their numbers are read, and short data
    is checked to consist of complete bytes.

    An accuracy run answers every sample once, except that MultiStream repeats a few. A test's run logs some of its
    answers, to samples of the library. ``whole``: these are all answers; for a truncated log, only the available ones
    are checked.
    """
    accuracy = log.mode == LOADGEN_MODE[ACCURACY]
    total = _read_count(log, keys.QSL_REPORTED_TOTAL_COUNT)
    wanted = _read_count(log, keys.EFFECTIVE_ACCURACY_SAMPLE_COUNT) or total
    if not total or not wanted or max(total, wanted) > _MOST:
        return
    samples, issued = _Seen(max(total, wanted)), _Seen(_count_issued(log, max(total, wanted)))
    damaged = 0
    for part in _gather(parts):
        if len(part) <= _LARGEST_READ:
            damaged += sum(1 for digits, end in _DATA.findall(part) if not end or len(digits) % 2)
        samples.add(_find_all(_INDEX, b'"qsl_idx"', part))
        issued.add(_find_all(_NUMBER, b'"seq_id"', part))
    if samples.beyond >= 0:
        yield f"answers: {ACCURACY_LOG} answers sample {samples.beyond}, and the library has {total} samples"
    if issued.beyond >= 0:  # LoadGen numbers samples from 0
        yield f"answers: {ACCURACY_LOG} has seq_id {issued.beyond}, which is more than LoadGen issued"
    if issued.repeated:
        yield f"answers: {ACCURACY_LOG} has {show_count(issued.repeated, 'time')} a seq_id of another answer"
    if damaged:
        yield f"answers: {ACCURACY_LOG} has {damaged} whose data is not whole bytes in hexadecimal"
    if whole and issued.found != samples.found:
        yield f"answers: {ACCURACY_LOG} has {samples.found} answers, and a seq_id of {issued.found}"
    if not accuracy:
        if whole and not samples.found and _read_count(log, _WANTED) >= _SURE:
            yield f"answers: {ACCURACY_LOG} has none, and the test logs about {_read_count(log, _WANTED)} of them"
        return
    if samples.different > wanted or (whole and samples.different != wanted):
        yield f"answers: expected those to {wanted} samples, {ACCURACY_LOG} answers {samples.different}"
    if samples.repeated > count_padding(log):
        times = show_count(samples.repeated, "time")
        yield f"answers: {ACCURACY_LOG} answers {times} a sample that it has answered already"


def _gather(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Join short lines into parts without splitting an answer, because one part takes as long as thousands of bytes."""
    pending, size = list[bytes](), 0
    for part in parts:
        if pending and size + len(part) > _LARGEST_READ:
            yield b"\n".join(pending)
            pending, size = [], 0
        pending.append(part)
        size += len(part) + 1
    if pending:
        yield b"\n".join(pending)


class _Seen:
    """Set of seen numbers below a limit; stores nothing if the limit is unknown."""

    def __init__(self, limit: int) -> None:
        # A run issues millions of samples, of which a test logs a few: a memory map uses only the pages that are
        # written.
        self._seen: bytearray | mmap = mmap(-1, limit) if limit > _SMALL else bytearray(limit)
        self._limit = limit
        self.found = self.different = self.repeated = 0
        self.beyond = -1

    def add(self, texts: list[bytes]) -> None:
        seen, limit = self._seen, self._limit
        self.found += len(texts)
        if not limit:
            return
        below = repeated = 0
        for number in map(int, texts):
            if number < limit:
                below += 1
                repeated += seen[number]
                seen[number] = 1
            else:
                self.beyond = number
        self.repeated += repeated
        self.different += below - repeated


def _find_all(shape: re.Pattern[bytes], name: bytes, part: bytes) -> list[bytes]:
    """Return the group of every match. Between long answers, it takes only a fifth of the time to search for the
    match's leading name first."""
    texts, at = [], part.find(name)
    while at >= 0:
        if found := shape.match(part, at):
            texts.append(found[1])
        at = part.find(name, at + 1)
    return texts


def _count_issued(log: DetailLog, library: int) -> int:
    """Return an upper bound of the number of samples issued. Return 0 if it is unknown, as for a run of both modes,
    which issues a series for each loaded set and logs the first set's count first."""
    if log.mode == LOADGEN_MODE[ACCURACY]:
        return library + min(count_padding(log), _MOST)
    if log.mode != LOADGEN_MODE[PERFORMANCE]:
        return 0
    issued = _read_count(log, keys.GENERATED_QUERY_COUNT) * _read_count(log, keys.GENERATED_SAMPLES_PER_QUERY)
    return issued if issued <= _MOST else 0


def _read_count(log: DetailLog, key: str) -> int:
    value = log.get(key)
    return int(value) if isinstance(value, (int, Decimal)) and not isinstance(value, bool) and value > 0 else 0


# Loaded samples of a run, as listed in its log: megabytes for some benchmarks.

_GROUP = 8  # samples per MultiStream query if the log states no number, as since release 2
_SHORT = 1 << 16  # bytes of a list that is read; longer lists are only counted


class LoadedSamples(Struct, frozen=True):
    """Summary of loaded samples. ``different``: number of samples loaded; in short lists, repeats are not counted.
    Short lists also have the greatest index and the greatest negative index, or None if there is none."""

    different: int
    greatest: int | None = None
    negative: int | None = None


def summarize_loaded(log: DetailLog) -> LoadedSamples:
    """Summarise all lines of ``keys.LOADED_QSL_SET``."""
    entries = log.list_entries(keys.LOADED_QSL_SET)
    indices = set[int]().union(*(entry.read_integers() for entry in entries if len(entry.raw) <= _SHORT))
    others = sum(entry.raw.count(b",") + 1 for entry in entries if len(entry.raw) > _SHORT)
    negative = max((index for index in indices if index < 0), default=None) if min(indices, default=0) < 0 else None
    return LoadedSamples(len(indices) + others, max(indices, default=None), negative)


def count_padding(log: DetailLog) -> int:
    """Return the maximum number of samples that a MultiStream run loads twice. An accuracy run also queries them twice.

    LoadGen pads each loaded set by up to one sample less than the query size (``GenerateLoadableSets``), so that the
    set's last query is complete. Before release 2 the submitter chose the query size.
    """
    if log.scenario != "MultiStream":
        return 0
    stated = (read_integer(log, f"{prefix}_samples_per_query") for prefix in ("generated", "effective"))
    group = next((number for number in stated if number is not None and number > 0), _GROUP)
    sets = max(len(log.list_entries(keys.LOADED_QSL_SET)), len(log.list_entries(keys.GENERATED_QUERY_COUNT)), 1)
    return sets * (group - 1)
