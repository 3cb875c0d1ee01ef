"""The ROUGE of answers, in the line that the official script of a language benchmark prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.language.prompt_sets import load_references
from harness.benchmarks.language.texts import load_decoder, load_sentence_splitter
from harness.errors import HarnessError

RESPONSE_DTYPE = "int32"


def score_summaries(
    log: AnswerLog, dataset: Path, output: Path, *, reference: str, cleans: bool, quoted: bool = False
) -> Mapping[str, Any]:
    """``reference``: the column of the texts that answers are compared with. ``quoted``: the script prints its scores
    as text; the others also count tokens."""
    from harness.benchmarks.language.rouge import score_texts, write_scores

    answers = read_answers(log)
    decode = load_decoder(dataset, cleans=cleans)
    texts = [decode(answer) for answer in answers]
    wanted = load_references(dataset)[reference]
    scores = score_texts(texts, [wanted[index] for index in log.indices.tolist()], load_sentence_splitter(dataset))
    if not quoted:
        return write_scores({**scores, **count_tokens(answers)}, output)
    write_scores({name: f"{value}" if name.startswith("rouge") else value for name, value in scores.items()}, output)
    return scores


def read_answers(log: AnswerLog) -> list[Sequence[int]]:
    """Token ids of each."""
    wrong = [index for index, data in zip(log.indices.tolist(), log.data, strict=True) if len(data) % 4]
    if wrong:
        problem = f"the answer to sample {wrong[0]} does not hold int32 tokens"
        raise HarnessError(problem, "input", "run accuracy again")
    return [np.frombuffer(data, RESPONSE_DTYPE).tolist() for data in log.data]


def count_tokens(answers: Sequence[Sequence[int]]) -> dict[str, Any]:
    count = sum(map(len, answers))
    return {"gen_tok_len": count, "tokens_per_sample": round(count / len(answers), 1)}
