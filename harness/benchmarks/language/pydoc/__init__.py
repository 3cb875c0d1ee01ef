"""For tests: paragraphs of Python's documentation, continued by a language model trained here.

The beginnings of 192 paragraphs are the prompts, of different lengths; their continuations are the reference answers.
The other paragraphs train a small transformer with a vocabulary of 1024 tokens, in well under a minute.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from harness.benchmarks import TokenBenchmark
from harness.benchmarks.accuracy import AnswerLog, write_scores
from harness.benchmarks.language.prompt_sets import load_prompts, write_prompts
from harness.benchmarks.language.pydoc.text import END, TOKENIZER, learn_tokenizer, read_passages
from harness.benchmarks.language.scoring import score_texts
from harness.contract import Counter

ANSWER = 16  # tokens
HELD_OUT = 192
_WORDS = 1024
_SHORTEST, _LONGEST = 12, 40  # tokens of a prompt
_CHARACTERS = 330  # of a paragraph with enough tokens for a prompt and its continuation
_STREAM, _TARGETS = "stream.npy", "targets.json"


def build_dataset(_source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write the prompts, the texts that follow them (targets.json), the tokenizer, and the training data (stream.npy).

    ``settings``: seed (of the split and of the ends of prompts).
    """
    seed = int(settings.get("seed", 1))
    passages = read_passages(seed=seed, held_out=HELD_OUT, shortest=_CHARACTERS)
    tokenizer = learn_tokenizer(passages.learned, _WORDS)
    write_beginnings(passages.held_out, tokenizer, (_SHORTEST, _LONGEST), ANSWER, output, seed=seed)
    np.save(output / _STREAM, [token for text in passages.learned for token in (*tokenizer.encode(text).ids, END)])
    counter.bump(len(passages.held_out))


def write_beginnings(
    texts: Sequence[str], tokenizer: Tokenizer, lengths: tuple[int, int], answer: int, output: Path, *, seed: int
) -> None:
    """Write prompts, each the beginning of a text, the ``answer`` tokens that follow it as text, and the tokenizer.

    ``lengths``: the shortest and the longest prompt, in tokens.
    """
    rng = np.random.default_rng(seed)
    prompts, targets = [], []
    for text in texts:
        tokens, cut = tokenizer.encode(text).ids, int(rng.integers(lengths[0], lengths[1] + 1))
        prompts.append(tokens[:cut])
        targets.append(tokenizer.decode(tokens[cut : cut + answer]))
    write_prompts(output, prompts)
    (output / _TARGETS).write_text(json.dumps(targets), encoding="utf-8")
    tokenizer.save(str(output / TOKENIZER))


def build_model(
    _source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """Train, and write the network in OpenVINO's format. ``settings``: seed (of weights and order), steps."""
    from harness.benchmarks.language.pydoc.network import TransformerShape, train, write_model

    stream, steps = np.load(inputs["dataset"] / _STREAM), int(settings.get("steps", 900))
    counter.stage("building", steps)
    parameters = train(
        stream, TransformerShape(_WORDS), seed=int(settings.get("seed", 1)), steps=steps, bump=counter.bump
    )
    write_model(parameters, TransformerShape(_WORDS), output, end=END)
    (output / TOKENIZER).write_bytes((inputs["dataset"] / TOKENIZER).read_bytes())


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return the ROUGE of the answers against the paragraphs' continuations."""
    targets = json.loads((dataset / _TARGETS).read_text(encoding="utf-8"))
    tokenizer = Tokenizer.from_file(str(dataset / TOKENIZER))
    answers = [tokenizer.decode(np.frombuffer(data, np.int32).tolist()) for data in log.data]
    return write_scores(score_texts(answers, [targets[index] for index in log.indices.tolist()]), output)


class Pydoc(TokenBenchmark):
    # At least two: LoadGen cannot compute the time per token of an answer with one.
    generation = {"min_new_tokens": 2, "max_new_tokens": ANSWER, "stop": (END,)}
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_samples = staticmethod(load_prompts)
    score = staticmethod(score)


BENCHMARK = Pydoc()
