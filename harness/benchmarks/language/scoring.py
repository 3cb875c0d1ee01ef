"""The scores of texts, in the format of the language benchmarks' official scripts, and of answers that are right or
wrong (numbers of GSM8K, needles of long texts, questions with several right answers), including the scripts' oddities.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.accuracy import AnswerLog, write_scores
from harness.benchmarks.language.prompt_sets import load_decoder, load_references, load_sentence_splitter
from harness.errors import HarnessError

_DTYPE = "int32"
_KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
_NUMBER = re.compile(r"-?[\d,]*\.?\d+")
_BEFORE_NUMBER = "The answer is"
_NEEDLE = re.compile(r"\w{8}-\w{4}-\w{4}-\w{4}-\w{12}")
_BEFORE_ANSWER = "Answer: "


def score_texts(
    answers: Sequence[str], wanted: Sequence[str], split: Callable[[str], str] = lambda text: text
) -> dict[str, float]:
    """Return metric -> mean percentage of ROUGE; gen_len: characters of all answers, gen_num: number of answers.

    Computed like ``evaluate``, with the same library: words are stemmed, each answer counts equally, percentages have
    four decimals. ROUGE-Lsum treats a line as a sentence; ``split`` puts each sentence on its own line.
    """
    scorer = _make_scorer(_KINDS)
    cleaned = [split(answer.strip()) for answer in answers]
    pairs = zip(cleaned, wanted, strict=True)
    found = [scorer.score(split(target.strip()), answer) for answer, target in pairs]
    means = {kind: round(float(np.mean([item[kind].fmeasure for item in found])) * 100, 4) for kind in _KINDS}
    return {**means, "gen_len": sum(map(len, cleaned)), "gen_num": len(cleaned)}


def score_longest(answer: str, wanted: str) -> float:
    """Return the ROUGE-L of one answer, in percent."""
    return 100 * float(_make_scorer(("rougeL",)).score(wanted, answer)["rougeL"].fmeasure)


@cache
def _make_scorer(kinds: Sequence[str]) -> Any:
    from rouge_score.rouge_scorer import RougeScorer  # only some benchmarks install it

    return RougeScorer(kinds, use_stemmer=True)


def score_summaries(
    log: AnswerLog, dataset: Path, output: Path, *, cleans: bool, quoted: bool = False
) -> Mapping[str, Any]:
    """Score summaries. ``quoted``: the script prints its scores as text; the other scripts also count tokens."""
    texts = read_texts(log, dataset, cleans=cleans)
    wanted = load_references(dataset)["output"]
    scores = score_texts(texts, [wanted[index] for index in log.indices.tolist()], load_sentence_splitter(dataset))
    if not quoted:
        return write_scores({**scores, **_count_tokens(log)}, output)
    write_scores({name: f"{value}" if name.startswith("rouge") else value for name, value in scores.items()}, output)
    return scores


def score_mixed(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Score as evaluate-accuracy.py of language/mixtral-8x7b does, for sets without programs, which would have to run
    in a sandbox: ROUGE of OpenOrca's answers, right numbers of GSM8K's, and counts of all."""
    references = load_references(dataset)
    indices = log.indices.tolist()
    kinds = [references["dataset"][index] for index in indices]
    refuse_answers("MBXP" in kinds, "MBXP", "programs, which only the official script runs in a sandbox")
    wanted = [references["gt_output"][index] for index in indices]
    texts = read_texts(log, dataset, cleans=False)
    summaries, numbers = (
        [(text, right) for text, right, kind in zip(texts, wanted, kinds, strict=True) if kind == chosen]
        for chosen in ("OpenOrca", "GSM8K")
    )
    right = sum(is_right_number(text, number) for text, number in numbers)
    exact = {"gsm8k": 100.0 * right / max(1, len(numbers)), "mbxp": 0}
    split = load_sentence_splitter(dataset)
    scores: dict[str, Any] = {"gen_len": 0}
    if summaries:
        scores = score_texts([text for text, _ in summaries], [str(target) for _, target in summaries], split)
    counts = {"gen_len": scores.pop("gen_len"), "gen_num": len(log.data), **_count_tokens(log)}
    scores.pop("gen_num", None)
    return write_scores({**scores, **exact, **counts}, output)


_PRINTED = {"rouge": "rougeL", "niah_em": "exact_match", "qa_em": "exact_match"}  # a prompt's metric -> name in the log


def score_long_texts(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Score as evaluate-accuracy.py of language/llama3.1-405b does."""
    references = load_references(dataset)
    split = load_sentence_splitter(dataset)
    answers = [split(text.strip()) for text in read_texts(log, dataset, cleans=True)]
    judge = {"rouge": score_longest, "niah_em": compare_needles, "qa_em": compare_any}
    found: dict[str, list[float]] = {}
    for index, answer in zip(log.indices.tolist(), answers, strict=True):
        metric, wanted = references["metric"][index], split(references["gt_output"][index].strip())
        if metric not in judge:
            raise HarnessError(f"sample {index} is scored by {metric!r}", "input", f"known are {', '.join(judge)}")
        found.setdefault(_PRINTED[metric], []).append(judge[metric](answer, wanted))
    scores = {name: float(np.mean(values)) for name, values in found.items()}
    counts = {"gen_len": sum(map(len, answers)), "gen_num": len(answers), **_count_tokens(log)}
    return write_scores({**scores, **counts}, output)


def refuse_answers(found: bool, what: str, why: str) -> None:
    """Raise HarnessError if there are answers that cannot be judged here."""
    if found:
        fix = "declare it as harness.score.command (see `reconcile benchmarks show`); the accuracy run is kept"
        raise HarnessError(f"answers to {what} are {why}", "input", fix)


def read_texts(log: AnswerLog, dataset: Path, *, cleans: bool, marks: bool = False) -> list[str]:
    """Read each answer as text. ``cleans`` and ``marks``: as in ``load_decoder``."""
    decode = load_decoder(dataset, cleans=cleans, marks=marks)
    return [decode(answer) for answer in read_answers(log)]


def read_answers(log: AnswerLog) -> list[Sequence[int]]:
    """Return the token ids of each answer."""
    wrong = [index for index, data in zip(log.indices.tolist(), log.data, strict=True) if len(data) % 4]
    if wrong:
        problem = f"the answer to sample {wrong[0]} does not consist of int32 tokens"
        raise HarnessError(problem, "input", "run accuracy again")
    return [np.frombuffer(data, _DTYPE).tolist() for data in log.data]


def count_mean_tokens(log: AnswerLog) -> float:
    return sum(len(data) // 4 for data in log.data) / len(log.data)


def _count_tokens(log: AnswerLog) -> dict[str, Any]:
    count = sum(len(data) // 4 for data in log.data)
    return {"gen_tok_len": count, "tokens_per_sample": round(count / len(log.data), 1)}


def is_right_number(answer: str, wanted: object) -> bool:
    number = _read_number(find_number(answer))
    return number is not None and number == _read_number(wanted)


def find_number(answer: str) -> str:
    """Find the first number after "The answer is", otherwise the last of all, before the model asks itself the next
    question; "" if there is none."""
    text = answer.split("\nQ:")[0]
    marked = _NUMBER.findall(text.split(_BEFORE_NUMBER)[-1]) if _BEFORE_NUMBER in text else []
    found = marked[:1] or _NUMBER.findall(text)[-1:]
    return found[0].replace(",", "") if found else ""


def _read_number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def compare_needles(answer: str, wanted: str) -> float:
    """Return a percentage. Each identifier found counts by the share of its expected characters that it contains
    anywhere."""
    found = _NEEDLE.findall(answer)
    if not found:
        return 0.0
    shares = [
        sum(sign.lower() in needle.lower() for sign in target) / len(target)
        for needle, target in zip(found, _NEEDLE.findall(wanted), strict=False)
    ]
    return round(sum(shares) / len(found) * 100, 2)


def compare_any(answer: str, wanted: str) -> float:
    """Return 100 if one of ``wanted``'s answers, separated by bars, is in the text after the last "Answer: "."""
    said = answer.rpartition(_BEFORE_ANSWER)[2]
    if said in wanted:
        return 100.0
    plain = _squeeze(said)
    return 100.0 if any(_squeeze(entry) in plain for entry in wanted.split("|")) else 0.0


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text).lower()


# The rules, including their oddities, are those of eval_accuracy.py of language/deepseek-r1 and of language/gpt-
# oss-120b in mlcommons/inference. The two search for letters in different places.

Find = Callable[[str], str | int | None]
PROGRAMS, FORMULAS = "livecodebench", "math500"
_BEGINS, _ENDS = ("['", '["'), ("']", '"]')  # around the text in a list with one text
_BOXED = re.compile(r"\\boxed{\s*(\d+)\s*}")
_NUMBERED = re.compile(r"Answer:\s*(\d+)(?!\.)\b", re.IGNORECASE)
_MOST = 999  # the largest AIME answer
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
    """Choose the judge of the first set whose name occurs in the name of the question's set."""
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
    except (IndexError, ValueError):  # there is no number, or it has more digits than Python reads
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
    tokens, which the script does not print but the rounds limit."""
    names, right = (Counter(found) for found in _judge_answers(GPT_OSS_JUDGES, log, dataset, marks=True))
    points, most = (sum(tally[name] / _REPEATS.get(name, 1) for name in sorted(names)) for tally in (right, names))
    percent, tokens = f"{points / most * 100:.3f}", count_mean_tokens(log)
    lines = f"'exact_match': {percent}\n{{'tokens_per_sample': {tokens}}}\n"
    (output / "accuracy.txt").write_text(lines, encoding="ascii")
    return {"exact_match": float(percent), "tokens_per_sample": tokens}


def _judge_answers(
    judges: Mapping[str, AnswerJudge], log: AnswerLog, dataset: Path, *, marks: bool = False
) -> tuple[list[str], list[str]]:
    """Return each answer's set, in lower case, and the sets of the right answers. Programs must be run to be judged,
    and formulas must be simplified. If the dataset has any, as the published ones do, the official script scores."""
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
