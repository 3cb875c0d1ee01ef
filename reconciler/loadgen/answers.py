"""Completeness of an accuracy log: each sample of the dataset once, and no other; and each as the one sample of a query
that LoadGen issued."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from mmap import mmap

from reconciler.loadgen import keys
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_files import ACCURACY_LOG
from reconciler.loadgen.samples import count_padding
from reconciler.loadgen.settings import ACCURACY, LOADGEN_MODE, PERFORMANCE
from reconciler.resource.quantities import show_count

_INDEX = re.compile(rb'"qsl_idx"[^\S\r\n]*+:[^\S\r\n]*+(\d{1,18})(?!\d)')  # within one line
_NUMBER = re.compile(rb'"seq_id"[^\S\r\n]*+:[^\S\r\n]*+(\d{1,18})(?!\d)')
# The hexadecimal digits of an answer, and what ends them: LoadGen writes whole bytes and nothing else.
_DATA = re.compile(rb'"data"[^\S\r\n]*+:[^\S\r\n]*+"([0-9A-Fa-f]*+)(?=("?))')
_LARGEST_READ = 1 << 16  # bytes; scorers and compliance tests read the images and long texts of larger ones
_MOST = 50_000_000  # samples of one library, far above the largest dataset, and answers of one run
_WANTED = keys.EFFECTIVE_ACCURACY_LOG_SAMPLING_TARGET
_SMALL = 65_536  # bytes of memory
_SURE = 30  # answers that a test wants by chance: there is none of them once in e^30 runs


def find_wrong_answers(parts: Iterable[bytes], log: DetailLog, *, whole: bool = True) -> Iterator[str]:
    """Find what is wrong with the log of answers, of which ``parts`` are lines, one or many each; only their numbers
    are read, and whether the data of short ones are bytes.

    An accuracy run answers every sample once, but that MultiStream repeats a few. A test's run logs some of its
    answers; they are of samples that the library has. ``whole``: these are all answers; of a truncated log only what is
    there is judged.
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
    yield from _find_wrong_numbers(issued)
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
    """Short lines as one part, whose ends no answer crosses: each part takes as long as thousands of its bytes."""
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
    """Which numbers below a limit there were; none is remembered where the limit is not known."""

    def __init__(self, limit: int) -> None:
        # A run issues millions of samples, of which a test logs a few: pages of a map cost only where they are written.
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
    """Its group wherever it matches. The name that it begins with is found in a fifth of its time between long
    answers."""
    texts, at = [], part.find(name)
    while at >= 0:
        if found := shape.match(part, at):
            texts.append(found[1])
        at = part.find(name, at + 1)
    return texts


def _find_wrong_numbers(issued: _Seen) -> Iterator[str]:
    """LoadGen numbers the samples that it issues, from 0 on."""
    if issued.beyond >= 0:
        yield f"answers: {ACCURACY_LOG} has seq_id {issued.beyond}, which is more than LoadGen issued"
    if issued.repeated:
        yield f"answers: {ACCURACY_LOG} has {show_count(issued.repeated, 'time')} a seq_id of another answer"


def _count_issued(log: DetailLog, library: int) -> int:
    """At most how many samples were issued; 0 where that is not known, as of a run of both modes: it issues a series
    for each set that it loads, and what it says first is how many the first had."""
    if log.mode == LOADGEN_MODE[ACCURACY]:
        return library + min(count_padding(log), _MOST)
    if log.mode != LOADGEN_MODE[PERFORMANCE]:
        return 0
    issued = _read_count(log, keys.GENERATED_QUERY_COUNT) * _read_count(log, keys.GENERATED_SAMPLES_PER_QUERY)
    return issued if issued <= _MOST else 0


def _read_count(log: DetailLog, key: str) -> int:
    value = log.get(key)
    return int(value) if isinstance(value, (int, Decimal)) and not isinstance(value, bool) and value > 0 else 0
