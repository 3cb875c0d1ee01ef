"""ROUGE of answers against texts, in the format of the language benchmarks' official scripts.

Computed like ``evaluate``, with the same library: words are stemmed, each answer counts equally, percentages have four
decimals. ROUGE-Lsum treats a line as a sentence; ``split`` puts each sentence on its own line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from rouge_score.rouge_scorer import RougeScorer

_KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")


def score_texts(
    answers: Sequence[str], wanted: Sequence[str], split: Callable[[str], str] = lambda text: text
) -> dict[str, float]:
    """Return metric -> mean percentage; gen_len: characters of all answers, gen_num: number of answers."""
    scorer = RougeScorer(_KINDS, use_stemmer=True)
    cleaned = [split(answer.strip()) for answer in answers]
    pairs = zip(cleaned, wanted, strict=True)
    found = [scorer.score(split(target.strip()), answer) for answer, target in pairs]
    means = {kind: round(float(np.mean([item[kind].fmeasure for item in found])) * 100, 4) for kind in _KINDS}
    return {**means, "gen_len": sum(map(len, cleaned)), "gen_num": len(cleaned)}


_LONGEST = RougeScorer(["rougeL"], use_stemmer=True)


def score_longest(answer: str, wanted: str) -> float:
    """Return the ROUGE-L of one answer, in percent."""
    return 100 * float(_LONGEST.score(wanted, answer)["rougeL"].fmeasure)
