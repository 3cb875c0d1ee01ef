"""Parse accuracy.txt: its metrics, its hash line, and the comparison with the round's accuracy bars."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache

from msgspec import Struct

from reconciler.resource.ruled_values import Bar

# Lines of accuracy.txt. Some scorers print one for each of 50,000 samples.

_NEWLINE = re.compile(r"\r\n|\r|\n")


def split_lines(text: str) -> list[str]:
    """Split lines as Python's text mode does, like the checkers; progress bars leave lone carriage returns."""
    return _NEWLINE.split(text) if "\r" in text else text.split("\n")


def find_lines(text: str, *words: str) -> Iterator[tuple[int, str]]:
    """Return each line that contains one of the words, with its 1-based number. Other lines are only counted."""
    plain = "\n".join(split_lines(text)) if "\r" in text else text
    number, begin, end = 1, 0, -1
    for found in re.finditer("|".join(map(re.escape, words)), plain) if words else ():
        if found.start() > end:
            before, begin = begin, plain.rfind("\n", 0, found.start()) + 1
            number, end = number + plain.count("\n", before, begin), plain.find("\n", found.start())
            end = end if end >= 0 else len(plain)
            yield number, plain[begin:end]


# Metrics, and the hash line.

_HASH = re.compile(r"hash=([A-Za-z0-9_]+)\s*$")
_SHA256 = re.compile(r"[0-9A-Fa-f]{64}")
_HASH_BEHIND_TEXT = re.compile(r"(?<=[^\s])hash=([A-Fa-f0-9]{64})[^\S\r\n]*+(?![^\r\n])")
_NUMBER = r"(?P<value>\d+(?:\.\d+)?)"
# NumPy 2 prints scalars in a dict as np.float64(80.2), which the official checkers cannot parse.
_SCALAR = r"(?P<numpy>np\.\w+\()?" + _NUMBER

# Metrics that scripts print as a Python dict on one line, with the metrics' names as keys. Some scripts quote the
# number after any number of spaces; the others put exactly one space before it.
_QUOTED = {
    "ROUGE1": "'rouge1':",
    "ROUGE2": "'rouge2':",
    "ROUGEL": "'rougeL':",
    "ROUGELSUM": "'rougeLsum':",
    "CLIP_SCORE": "'CLIP_SCORE':",
    "FID_SCORE": "'FID_SCORE':",
}
_SPACED = {
    "GEN_LEN": "'gen_len':",
    "TOKENS_PER_SAMPLE": "'tokens_per_sample':",
    "gsm8k_accuracy": "'gsm8k':",
    "mbxp_accuracy": "'mbxp':",
    "exact_match": "'exact_match':",
    "vbench_score": "'vbench_score':",
}
# A word on each metric's line. Searching for it takes 1 % of the time of a regular expression, and some scorers print a
# line for each of 50,000 samples.
_WORDS: Mapping[str, tuple[str, ...]] = {
    **{name: (word,) for name, word in (_QUOTED | _SPACED).items()},
    "acc": ("accuracy",),
    "F1": ("f1",),
    "DICE": ("Accuracy:",),
    "mAP": ("mAP=", "'Total':"),
    "AUC": ("AUC=",),
    "DLRM_NE": ("metric/lifetime_ne/rating:",),
    "DLRM_ACC": ("metric/lifetime_accuracy/rating:",),
    "DLRM_AUC": ("metric/lifetime_gauc/rating:",),
    "WER": ("Word Error Rate:",),
    "ACCURACY": ("Word Error Rate:",),
    "F1_HIERARCHICAL": ('"f1":',),
    "E2E_ACCURACY": ("Accuracy:",),
}

# The pattern of a metric's line, matched from the start of the line; numbers are plain decimals.
METRIC_LINES: Mapping[str, re.Pattern[str]] = {
    "acc": re.compile(r"\{?\s*[\"']?accuracy[\"']?\s*[:=]?\s*" + _SCALAR, re.ASCII),
    "F1": re.compile(r"\{\s*[\"']exact_match[\"']\s*:\s*[\d.]+\s*,\s*[\"']f1[\"']\s*:\s*" + _NUMBER, re.ASCII),
    "DICE": re.compile(r"Accuracy:\s*mean\s*=\s*" + _NUMBER, re.ASCII),
    "mAP": re.compile(r".*?(?:mAP=|'Total':\s*)" + _SCALAR, re.ASCII),
    "AUC": re.compile(r"AUC=" + _NUMBER, re.ASCII),
    "DLRM_NE": re.compile(r".*?metric/lifetime_ne/rating:\s*" + _NUMBER, re.ASCII),
    "DLRM_ACC": re.compile(r".*?metric/lifetime_accuracy/rating:\s*" + _NUMBER, re.ASCII),
    "DLRM_AUC": re.compile(r".*?metric/lifetime_gauc/rating:\s*" + _NUMBER, re.ASCII),
    "WER": re.compile(r"Word Error Rate:.*?, accuracy=" + _NUMBER + "%", re.ASCII),
    "ACCURACY": re.compile(r"Word Error Rate:.*?, accuracy=" + _NUMBER + "%", re.ASCII),
    "F1_HIERARCHICAL": re.compile(r"\{.*?\"f1\":\s*" + _NUMBER + r".*\}", re.ASCII),
    "E2E_ACCURACY": re.compile(r"Accuracy:\s*" + _NUMBER, re.ASCII),
    **{name: re.compile(f".*?{word}" + r"\s+'?" + _SCALAR, re.ASCII) for name, word in _QUOTED.items()},
    **{name: re.compile(f".*?{word}" + r"\s" + _SCALAR, re.ASCII) for name, word in _SPACED.items()},
}
# The maximum of each metric; metrics not listed here are unbounded.
_PERCENT = (
    *("acc", "F1", "mAP", "AUC", "ACCURACY", "E2E_ACCURACY", "F1_HIERARCHICAL", "ROUGE1", "ROUGE2", "ROUGEL"),
    *("ROUGELSUM", "WER", "CLIP_SCORE", "gsm8k_accuracy", "mbxp_accuracy", "exact_match", "vbench_score"),
    *("DLRM_ACC", "DLRM_AUC"),
)
_MOST: Mapping[str, Decimal] = {**dict.fromkeys(_PERCENT, Decimal(100)), "DICE": Decimal(1)}
# Values that a model with long answers reaches only by answering the entire validation set.
WHOLE_SET = frozenset({"GEN_LEN", "TOKENS_PER_SAMPLE"})
# Additional values that image classification scorers print with their accuracy in percent.
_COUNTED = re.compile(r"accuracy=(?P<value>[\d.]+)%, good=(?P<good>\d+), total=(?P<total>\d+)", re.ASCII)


class Measured(Struct, frozen=True):
    """Metric as stated in accuracy.txt, with its 1-based line. ``numpy``: written as a NumPy 2 scalar."""

    value: Decimal
    line: int
    numpy: bool = False


class AccuracyReport(Struct, frozen=True):
    """Content of accuracy.txt. Without a hash line, ``hash`` is empty and ``hash_line`` is 0."""

    file: str
    metrics: Mapping[str, tuple[Measured, ...]]
    hash: str = ""
    hash_line: int = 0


class BarCheck(Struct, frozen=True):
    """Result of comparing a metric with its bar. ``measured`` is None if accuracy.txt does not state the metric."""

    bar: Bar
    measured: Decimal | None
    line: int
    met: bool


def parse_accuracy(text: str, metrics: Iterable[str], file: str = "accuracy.txt") -> AccuracyReport:
    """Parse the named metrics and the hash line. Raises ValueError for a metric without a known line format."""
    names = tuple(metrics)
    unknown = [name for name in names if name not in METRIC_LINES]
    if unknown:
        raise ValueError(f"no line shape for metric {', '.join(unknown)}")
    return AccuracyReport(file, *_parse_text(text, names))


@lru_cache(maxsize=32)  # every rule of a cell calls this, and variants of a benchmark have the same texts
def _parse_text(text: str, names: tuple[str, ...]) -> tuple[Mapping[str, tuple[Measured, ...]], str, int]:
    """Parse the named metrics, the hash and its line."""
    found: dict[str, list[Measured]] = {name: [] for name in names}
    for name in names:
        for number, line in find_lines(text, *_WORDS[name]):
            if match := METRIC_LINES[name].match(line):
                found[name].append(Measured(Decimal(match["value"]), number, bool(match.groupdict().get("numpy"))))
    # Some files first state a digest of the log by another algorithm.
    stated = _list_hashes(text)
    digest, digest_line = next((item for item in stated if is_digest(item[0])), stated[0] if stated else ("", 0))
    return {name: tuple(values) for name, values in found.items()}, digest, digest_line


def _list_hashes(text: str) -> list[tuple[str, int]]:
    """List the hashes of the accuracy log, each with its line."""
    stated = [(found[1], number) for number, line in find_lines(text, "hash=") if (found := _HASH.match(line))]
    own = hash_results(text) if len(stated) > 1 else frozenset[str]()
    return [item for item in stated if item[0].lower() not in own] or stated


def hash_results(text: str) -> frozenset[str]:
    """Return the SHA-256 of each result that the file states. The qwen3-vl scorer writes it under the name that the
    official scripts use for the accuracy log's hash."""
    return frozenset(hashlib.sha256(line.encode()).hexdigest() for line in split_lines(text) if line.startswith("{"))


def list_digests(text: str) -> tuple[str, ...]:
    """Return every SHA-256 that the file states for the accuracy log, in lower case: one, unless it was scored
    twice."""
    return tuple(stated.lower() for stated, _ in _list_hashes(text) if is_digest(stated))


def names_another_log(text: str, digest: str) -> bool:
    """Return True if a different SHA-256 follows other text on a line, where the scripts do not look for it. This
    happens when the scorer's last line has no line end and the truncation script appends the hash to it."""
    return any(found[1].lower() != digest.lower() for found in _HASH_BEHIND_TEXT.finditer(text))


def is_digest(text: str) -> bool:
    """Return True for a SHA-256 in upper or lower case."""
    return _SHA256.fullmatch(text) is not None


def check_bars(report: AccuracyReport, bars: Iterable[Bar]) -> tuple[BarCheck, ...]:
    """Compare each metric with its bar, including both ends; the worst of several stated values counts. As in the
    official checkers, metrics with only an upper limit may be absent, because some scorers do not count tokens."""
    checks = []
    for bar in bars:
        values = report.metrics.get(bar.metric, ())
        failing = [item for item in values if not bar.admits(item.value)]
        shown = next(iter(failing or values), None)
        if shown is not None:
            checks.append(BarCheck(bar, shown.value, shown.line, met=not failing))
        elif bar.least is not None:
            checks.append(BarCheck(bar, None, 0, met=False))
    return tuple(checks)


class Impossible(Struct, frozen=True):
    """A value that no scorer can have computed: line ``line`` (1-based) of ``file`` states ``stated``; ``why`` says why
    that is impossible."""

    file: str
    line: int
    stated: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.stated}{self.why}"


def find_impossible(text: str, report: AccuracyReport, samples: int = 0) -> Iterator[Impossible]:
    """Find values that are out of range, that differ from an earlier value, or that disagree with their counts or
    table; and counts that differ from the number of samples that the run answered (``samples``, 0 if unknown)."""
    for metric, values in report.metrics.items():
        most = _MOST.get(metric)
        for item in values:
            if most is not None and item.value > most:
                yield Impossible(report.file, item.line, f"{metric} {item.value}", f" is more than {most}")
            if not agree(item.value, values[0].value):
                other = f", and line {values[0].line} states {values[0].value}"
                yield Impossible(report.file, item.line, f"{metric} {item.value}", other)
    stated = {metric: [(item.value, item.line) for item in items] for metric, items in report.metrics.items()}
    for metric, value, number, why in find_denied(stated, text):
        yield Impossible(report.file, number, f"{metric} {value}", f", and {why}")
    for number, line in find_lines(text, "accuracy="):
        if found := _COUNTED.match(line):
            for why in _find_miscounted(found, samples):
                yield Impossible(report.file, number, f"accuracy={found['value']}%", f": {why}")


def _find_miscounted(found: re.Match[str], samples: int) -> Iterator[str]:
    good, total = int(found["good"]), int(found["total"])
    shown = Decimal(found["value"].rstrip(".") or 0) if found["value"].count(".") <= 1 else Decimal(-1)
    if total <= 0 or good > total:
        yield f"{good} of {total} cannot be"
    elif abs(shown - Decimal(100) * good / total) > compute_last_digit(shown):
        yield f"{good} of {total} are {Decimal(100) * good / total:.3f}%"
    if samples and total != samples:
        yield f"it counts {total} samples, and the run answered {samples}"


def add_hash(text: str, digest: str) -> str:
    """Return accuracy.txt with exactly one hash line, after a blank line at the end; an older hash line is removed."""
    kept = [line for line in split_lines(text) if not _HASH.match(line)]
    body = "\n".join(kept).rstrip()
    return f"{body}\n\nhash={digest}\n" if body else f"hash={digest}\n"


# Values related to a metric: those that are the same, or that the metric is computed from.
#
# COCO's table, the counts behind tokens per sample, the word error rate, the two parts of a mean, and the area that a
# second script prints. They agree with all 164 published scores of retinanet, 536 with such counts, 39 of whisper, 84
# of 3d-unet and 36 of dlrm with both areas.
_COCO = re.compile(
    r"\s*Average Precision\s+\(AP\) @\[ IoU=0\.50:0\.95 \| area=\s*all \|[^]]*+\] = (\d\.\d{1,9})$", re.ASCII
)
_TOTALS = {
    name: re.compile(rf"'{name}':\s(?:np\.\w+\()?(\d{{1,18}})(?![\d.])", re.ASCII)
    for name in ("gen_num", "gen_tok_len")
}
_DIGITS = r"(\d{1,9}(?:\.\d{1,30})?)"
_ERRORS = re.compile(rf"Word Error Rate: {_DIGITS}%, accuracy=", re.ASCII)
_PARTS = re.compile(rf"Accuracy: mean = [\d.]+, kidney = {_DIGITS}, tumor = {_DIGITS}", re.ASCII)
_AREA = re.compile(rf"\s*\"roc_auc\": {_DIGITS}", re.ASCII)
_CLOSE = Decimal("0.001")  # percent; both values are floating point
_ROUNDED = Decimal("0.0002")  # for a mean of two numbers with four digits

_IN_A_LINE = frozenset({"TOKENS_PER_SAMPLE", "WER", "ACCURACY", "DICE"})  # related values are on the same line

Values = Mapping[str, Sequence[tuple[Decimal, int]]]  # metric → its values, each with its 1-based line


def find_denied(values: Values, text: str) -> Iterator[tuple[str, Decimal, int, str]]:
    """Yield the metric, value and line of each mismatch, and the related value."""
    if "mAP" in values:
        yield from _deny_by(values["mAP"], "mAP", "COCO's table says", _find_all(_COCO, text, "Average Precision", 2))
    if "AUC" in values:
        yield from _deny_by(values["AUC"], "AUC", "roc_auc is", _find_all(_AREA, text, '"roc_auc"'))
    lines = split_lines(text) if not _IN_A_LINE.isdisjoint(values) else []
    for value, number in values.get("TOKENS_PER_SAMPLE", ()):
        line = lines[number - 1]
        samples, tokens = (int(found[1]) if (found := shape.search(line)) else 0 for shape in _TOTALS.values())
        if samples and tokens and not agree(value, Decimal(tokens) / samples):
            why = f"{tokens} tokens of {samples} samples are {Decimal(tokens) / samples:.2f}"
            yield "TOKENS_PER_SAMPLE", value, number, why
    for metric in ("WER", "ACCURACY"):
        for value, number in values.get(metric, ()):
            if found := _ERRORS.match(lines[number - 1]):
                wrong = Decimal(found[1])
                close = max(_CLOSE, (compute_last_digit(value) + compute_last_digit(wrong)) / 2)
                if abs(100 - wrong - value) > close:
                    yield metric, value, number, f"{found[1]}% of the words are wrong"
    for value, number in values.get("DICE", ()):
        found = _PARTS.match(lines[number - 1])
        parts = [Decimal(part) for part in found.groups()] if found else [value]
        mean = sum(parts, Decimal(0)) / len(parts)
        if abs(mean - value) > max(_ROUNDED, (compute_last_digit(value) + max(map(compute_last_digit, parts))) / 2):
            yield "DICE", value, number, f"the mean of its parts is {mean}"


def _deny_by(
    values: Sequence[tuple[Decimal, int]], metric: str, words: str, stated: Sequence[Decimal]
) -> Iterator[tuple[str, Decimal, int, str]]:
    for value, number in values if stated else ():
        if not any(agree(value, other) for other in stated):
            yield metric, value, number, f"{words} {stated[0]}"


def _find_all(shape: re.Pattern[str], text: str, word: str, scale: int = 0) -> list[Decimal]:
    return [Decimal(found[1]).scaleb(scale) for _, line in find_lines(text, word) if (found := shape.match(line))]


def agree(one: Decimal, other: Decimal) -> bool:
    """Return True if two values may be the same number, printed with different precision."""
    return one == other or abs(one - other) < max(compute_last_digit(one), compute_last_digit(other))


def compute_last_digit(value: Decimal) -> Decimal:
    """Compute the value of one unit in the last digit."""
    return Decimal(1).scaleb(int(value.as_tuple().exponent))
