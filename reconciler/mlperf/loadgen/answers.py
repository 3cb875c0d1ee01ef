"""Whether an accuracy log answers what its run asked: each sample of the dataset once, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

from reconciler.mlperf.loadgen.log import DetailLog
from reconciler.mlperf.loadgen.settings import ACCURACY, LOADGEN_MODE
from reconciler.mlperf.log_files import ACCURACY_LOG

_INDEX = re.compile(rb'"qsl_idx"[^\S\r\n]*+:[^\S\r\n]*+(\d{1,18})(?!\d)')  # within one line
_SPARE = 7  # samples that MultiStream asks twice in each of its series, so that the last query is whole
_MOST = 50_000_000  # samples of one library, far above the largest dataset


def count_answered(lines: Iterable[bytes]) -> int:
    """How many samples a whole accuracy log answers, each counted once."""
    return len({int(found[1]) for line in lines for found in _INDEX.finditer(line)})


def find_wrong_answers(parts: Iterable[bytes], log: DetailLog, *, whole: bool = True) -> Iterator[str]:
    """What is wrong with the log of answers, of which ``parts`` are lines, one or many each; only the sample numbers
    are read.

    An accuracy run answers every sample once, but that MultiStream repeats a few. A test's run logs some of its
    answers; they are of samples that the library has. ``whole``: these are all answers; of a truncated log only what is
    there is judged.
    """
    accuracy = log.mode == LOADGEN_MODE[ACCURACY]
    total = _read_count(log, "qsl_reported_total_count")
    wanted = _read_count(log, "effective_accuracy_sample_count") or total
    if not total or not wanted or max(total, wanted) > _MOST:
        return
    seen, repeated, stranger = bytearray(max(total, wanted)), 0, -1
    for part in parts:
        for index in map(int, _INDEX.findall(part)):
            if index >= total:
                stranger = index
                continue
            repeated += seen[index]
            seen[index] = 1
    if stranger >= 0:
        yield f"answers: {ACCURACY_LOG} answers sample {stranger}, and the library has {total} samples"
    if not accuracy:
        return
    answered = sum(seen)
    if answered > wanted or (whole and answered != wanted):
        yield f"answers: expected those to {wanted} samples, {ACCURACY_LOG} answers {answered}"
    series = max(1, len(log.all_of("loaded_qsl_set")))
    if repeated > (_SPARE * series if log.scenario == "MultiStream" else 0):
        yield f"answers: {ACCURACY_LOG} answers {repeated} times a sample that it has answered already"


def _read_count(log: DetailLog, key: str) -> int:
    value = log.get(key)
    return int(value) if isinstance(value, (int, Decimal)) and not isinstance(value, bool) and value > 0 else 0
