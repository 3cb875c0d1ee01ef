"""Values of accuracy.txt related to a metric: those that are the same, or that the metric is computed from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from reconciler.rules.accuracy_lines import find_lines, split_lines

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
_NUMBER = r"(\d{1,9}(?:\.\d{1,30})?)"
_ERRORS = re.compile(rf"Word Error Rate: {_NUMBER}%, accuracy=", re.ASCII)
_PARTS = re.compile(rf"Accuracy: mean = [\d.]+, kidney = {_NUMBER}, tumor = {_NUMBER}", re.ASCII)
_AREA = re.compile(rf"\s*\"roc_auc\": {_NUMBER}", re.ASCII)
_CLOSE = Decimal("0.001")  # percent; both are floating point
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
            found = _ERRORS.match(lines[number - 1])
            wrong = Decimal(found[1]) if found else Decimal(0)
            if found and abs(100 - wrong - value) > max(
                _CLOSE, (compute_last_digit(value) + compute_last_digit(wrong)) / 2
            ):
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
