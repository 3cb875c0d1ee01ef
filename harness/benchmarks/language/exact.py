"""Answers that are right or wrong: numbers of GSM8K, needles of long texts, questions with several right answers.

As evaluate-accuracy.py of language/mixtral-8x7b and of language/llama3.1-405b judges them, oddities included.
"""

from __future__ import annotations

import re

_NUMBER = re.compile(r"-?[\d,]*\.?\d+")
_MARK = "The answer is"
_NEEDLE = re.compile(r"\w{8}-\w{4}-\w{4}-\w{4}-\w{12}")
_ANSWER = "Answer: "


def is_right_number(answer: str, wanted: object) -> bool:
    number = _read_number(find_number(answer))
    return number is not None and number == _read_number(wanted)


def find_number(answer: str) -> str:
    """The first one behind "The answer is", else the last of all, before the model asks itself the next question; ""
    where there is none."""
    text = answer.split("\nQ:")[0]
    marked = _NUMBER.findall(text.split(_MARK)[-1]) if _MARK in text else []
    found = marked[:1] or _NUMBER.findall(text)[-1:]
    return found[0].replace(",", "") if found else ""


def _read_number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def compare_needles(answer: str, wanted: str) -> float:
    """Percent. Each identifier found counts by how many characters of the wanted one in its place it has anywhere."""
    found = _NEEDLE.findall(answer)
    if not found:
        return 0.0
    shares = [
        sum(sign.lower() in needle.lower() for sign in target) / len(target)
        for needle, target in zip(found, _NEEDLE.findall(wanted), strict=False)
    ]
    return round(sum(shares) / len(found) * 100, 2)


def compare_any(answer: str, wanted: str) -> float:
    """100 where one of the answers that ``wanted`` has between bars is in the text behind the last "Answer: "."""
    said = answer.rpartition(_ANSWER)[2]
    if said in wanted:
        return 100.0
    plain = _squeeze(said)
    return 100.0 if any(_squeeze(entry) in plain for entry in wanted.split("|")) else 0.0


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text).lower()
