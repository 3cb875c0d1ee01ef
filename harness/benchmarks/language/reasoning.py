"""Judge answers to questions with one right answer: a letter, or an integer.

The rules, including their oddities, are those of eval_accuracy.py of language/deepseek-r1 and of language/gpt-oss-120b
in mlcommons/inference. The two search for letters in different places.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.benchmarks.accuracy import AnswerLog, write_scores
from harness.benchmarks.language.prompt_sets import load_references
from harness.benchmarks.language.scoring import count_mean_tokens, read_texts, refuse_answers
from harness.errors import HarnessError

Find = Callable[[str], str | int | None]
PROGRAMS, FORMULAS = "livecodebench", "math500"
_BEGINS, _ENDS = ("['", '["'), ("']", '"]')  # of a list with one text
_BOXED = re.compile(r"\\boxed{\s*(\d+)\s*}")
_NUMBERED = re.compile(r"Answer:\s*(\d+)(?!\.)\b", re.IGNORECASE)
_MOST = 999  # of an AIME answer
_FINAL = re.compile(r"<\|channel\|>final[^<]*<\|message\|>(.*?)(?:<\|return\|>|$)", re.DOTALL)
_BOLD = re.compile(r"\*\*([^*]+)\*\*")


@dataclass(frozen=True, slots=True)
class AnswerJudge:
    """``find``: finds the answer in a text, None if there is none; ``letters``: possible right answers, "" for
    numbers."""

    find: Find
    letters: str = ""

    def is_right(self, text: str, wanted: object) -> bool:
        found = self.find(text.strip())
        if found is None or wanted != wanted:  # not a number, which frames use for missing values
            return False
        if self.letters:
            return str(found) in self.letters and str(found) == str(wanted).upper()
        try:
            return found == int(wanted)  # type: ignore[call-overload, no-any-return]
        except (ValueError, TypeError):
            return False


def choose_judge(judges: Mapping[str, AnswerJudge], name: str) -> AnswerJudge:
    """Choose the judge of the first set whose name is contained in that of the question's set."""
    for known, judge in judges.items():
        if known in name.lower():
            return judge
    raise HarnessError(f"questions of {name!r} cannot be scored here", "input", f"known are {', '.join(judges)}")


def leave_to_script(names: Sequence[str]) -> None:
    """Raise HarnessError if answers are programs or formulas, which are not run or simplified here."""
    known = " ".join(sorted(set(names))).lower()
    refuse_answers(PROGRAMS in known, "LiveCodeBench", "programs, which only the official script runs in a sandbox")
    refuse_answers(FORMULAS in known, "MATH-500", "formulas, which the official script scores with PRM800K's grader")


def find_last_letter(text: str, last: str) -> str | None:
    """Find the letter after the last "ANSWER"; with ten choices (A to J), otherwise the last single one."""
    text = _clean(text)
    found = _find_marked(text, last)
    if found is None and last == "J":
        alone = re.findall(r"\b([A-J])\b", text, re.IGNORECASE)
        return alone[-1].upper() if alone else None
    return found


def find_final_letter(text: str, last: str) -> str | None:
    """Find the letter at the start of the final message, otherwise the first after "Answer" in it, otherwise the one
    after the last "ANSWER" anywhere; with ten choices, otherwise the last single one there."""
    final = _clean(_BOLD.sub(r"\1", read_final(text)))
    begun = re.match(rf"^[^a-zA-Z]*([A-{last}])(?:[^a-zA-Z]|$)", final.strip(), re.IGNORECASE)
    found = begun or re.search(rf"\b(?:Answer|ANSWER)\s*[:.]?\s*([A-{last}])\b", final, re.IGNORECASE)
    if found:
        return found[1].upper()
    marked = _find_marked(_unescape(text), last)
    if marked is None and last == "J":
        alone = re.findall(r"\b([A-J])\b", final, re.IGNORECASE)
        return alone[-1].upper() if alone else None
    return marked


def read_final(text: str) -> str:
    """Read the channel "final", or all of the text if there is none."""
    found = _FINAL.search(text)
    return found[1].strip() if found else text


def find_whole_number(text: str) -> int | None:
    """Find a number of 0 to 999: the last in a box, otherwise the last after "Answer:"."""
    found = _BOXED.findall(text) or _NUMBERED.findall(text)
    try:
        number = int(found[-1])
    except (IndexError, ValueError):  # none, or with more digits than Python reads
        return None
    return number if number <= _MOST else None


def _find_marked(text: str, last: str) -> str | None:
    mark = rf"\b(?:ANSWER|FINAL\s*ANSWER)\b\s*[:=]?\s*(?:\(?\s*([A-{last}])\s*\)?)(?:\s*$|[^A-Za-z])"
    found = re.findall(mark, text, re.IGNORECASE)
    return found[-1].upper() if found else None


def _clean(text: str) -> str:
    """Remove the brackets of a list with one text."""
    listed = text.startswith(_BEGINS) and text.endswith(_ENDS)
    return _unescape(text[2:-2].strip() if listed else text)


def _unescape(text: str) -> str:
    return text.replace(r"\n", "\n").replace(r"\'", "'")


_FOUR, _TEN = "ABCD", "ABCDEFGHIJ"
DEEPSEEK_JUDGES: Mapping[str, AnswerJudge] = {
    "gpqa": AnswerJudge(partial(find_last_letter, last="D"), _FOUR),
    "mmlu_pro": AnswerJudge(partial(find_last_letter, last="J"), _TEN),
    "aime": AnswerJudge(find_whole_number),
}
GPT_OSS_JUDGES: Mapping[str, AnswerJudge] = {
    "gpqa": AnswerJudge(partial(find_final_letter, last="D"), _FOUR),
    "mmlu_pro": AnswerJudge(partial(find_final_letter, last="J"), _TEN),
    "aime": AnswerJudge(find_whole_number),
    "mmlu": AnswerJudge(partial(find_final_letter, last="J"), _TEN),
}
_REPEATS = {"aime25": 8, "gpqa_diamond": 5, "livecodebench_v6": 3}  # how often each question of a set is repeated


def score_reasoning(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Score as eval_accuracy.py of language/deepseek-r1 does, for sets without programs and formulas."""
    names, right = _judge_answers(DEEPSEEK_JUDGES, log, dataset)
    scores = {"exact_match": 100.0 * len(right) / len(names), "tokens_per_sample": count_mean_tokens(log)}
    return write_scores({**scores, "num-samples": len(names)}, output)


def score_repeated_questions(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Score as eval_mlperf_accuracy.py of language/gpt-oss-120b does, for sets without programs. Add the mean number of
    tokens, which it does not print and the rounds limit."""
    names, right = (Counter(found) for found in _judge_answers(GPT_OSS_JUDGES, log, dataset, marks=True))
    points, most = (sum(tally[name] / _REPEATS.get(name, 1) for name in sorted(names)) for tally in (right, names))
    percent, tokens = f"{points / most * 100:.3f}", count_mean_tokens(log)
    lines = f"'exact_match': {percent}\n{{'tokens_per_sample': {tokens}}}\n"
    (output / "accuracy.txt").write_text(lines, encoding="ascii")
    return {"exact_match": float(percent), "tokens_per_sample": tokens}


def _judge_answers(
    judges: Mapping[str, AnswerJudge], log: AnswerLog, dataset: Path, *, marks: bool = False
) -> tuple[list[str], list[str]]:
    """Return the set of each answer, in lower case, and those of the right ones. Programs must be run to be judged, and
    formulas simplified: if the dataset has any, like the published ones, the official script scores."""
    references = load_references(dataset)
    indices = log.indices.tolist()
    names = [references["dataset"][index].lower() for index in indices]
    leave_to_script(names)
    texts = read_texts(log, dataset, cleans=False, marks=marks)
    wanted = [references["ground_truth"][index] for index in indices]
    right = [
        name
        for name, text, answer in zip(names, texts, wanted, strict=True)
        if choose_judge(judges, name).is_right(text, answer)
    ]
    return names, right
