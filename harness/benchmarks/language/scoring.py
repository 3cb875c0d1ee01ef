"""The scores of texts, in the lines that the official scripts of the language benchmarks print."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.accuracy import AnswerLog, write_scores
from harness.benchmarks.language.prompt_sets import load_references
from harness.benchmarks.language.texts import load_decoder, load_sentence_splitter
from harness.errors import HarnessError

RESPONSE_DTYPE = "int32"


def score_summaries(
    log: AnswerLog, dataset: Path, output: Path, *, reference: str, cleans: bool, quoted: bool = False
) -> Mapping[str, Any]:
    """``reference``: the column of the texts that answers are compared with. ``quoted``: the script prints its scores
    as text; the others also count tokens."""
    from harness.benchmarks.language.rouge import score_texts

    texts = read_texts(log, dataset, cleans=cleans)
    wanted = load_references(dataset)[reference]
    scores = score_texts(texts, [wanted[index] for index in log.indices.tolist()], load_sentence_splitter(dataset))
    if not quoted:
        return write_scores({**scores, **_count_tokens(log)}, output)
    write_scores({name: f"{value}" if name.startswith("rouge") else value for name, value in scores.items()}, output)
    return scores


def score_mixed(
    log: AnswerLog,
    texts: Sequence[str],
    wanted: Sequence[str],
    split: Callable[[str], str],
    exact: Mapping[str, Any],
    output: Path,
) -> Mapping[str, Any]:
    """ROUGE of some of the answers, what ``exact`` says of others, and counts of all."""
    from harness.benchmarks.language.rouge import score_texts

    scores = score_texts(texts, wanted, split) if texts else {"gen_len": 0}
    counts = {"gen_len": scores.pop("gen_len"), "gen_num": len(log.data), **_count_tokens(log)}
    scores.pop("gen_num", None)
    return write_scores({**scores, **exact, **counts}, output)


def write_counted(log: AnswerLog, scores: Mapping[str, float], texts: Sequence[str], output: Path) -> Mapping[str, Any]:
    """Scores with what answers hold in all."""
    counts = {"gen_len": sum(map(len, texts)), "gen_num": len(texts), **_count_tokens(log)}
    return write_scores({**scores, **counts}, output)


def compare_longest(answer: str, wanted: str) -> float:
    """ROUGE-L in percent."""
    from harness.benchmarks.language.rouge import score_longest

    return score_longest(answer, wanted)


def refuse_programs(found: bool, what: str) -> None:
    """Raises HarnessError where answers are programs: nothing here runs them."""
    refuse_answers(found, what, "programs, which only the official script runs, in a sandbox")


def refuse_answers(found: bool, what: str, why: str) -> None:
    """Raises HarnessError where there are answers that nothing here judges."""
    if found:
        raise HarnessError(
            f"answers to {what} are {why}",
            "input",
            "declare it as harness.score.command (`reconcile benchmarks show` says how); the accuracy run is kept",
        )


def read_texts(log: AnswerLog, dataset: Path, *, cleans: bool, marks: bool = False) -> list[str]:
    """Read each answer as text. ``cleans`` and ``marks``: as of ``load_decoder``."""
    decode = load_decoder(dataset, cleans=cleans, marks=marks)
    return [decode(answer) for answer in read_answers(log)]


def read_answers(log: AnswerLog) -> list[Sequence[int]]:
    """Token ids of each."""
    wrong = [index for index, data in zip(log.indices.tolist(), log.data, strict=True) if len(data) % 4]
    if wrong:
        problem = f"the answer to sample {wrong[0]} does not hold int32 tokens"
        raise HarnessError(problem, "input", "run accuracy again")
    return [np.frombuffer(data, RESPONSE_DTYPE).tolist() for data in log.data]


def count_mean_tokens(log: AnswerLog) -> float:
    return sum(len(data) // 4 for data in log.data) / len(log.data)


def _count_tokens(log: AnswerLog) -> dict[str, Any]:
    count = sum(len(data) // 4 for data in log.data)
    return {"gen_tok_len": count, "tokens_per_sample": round(count / len(log.data), 1)}
