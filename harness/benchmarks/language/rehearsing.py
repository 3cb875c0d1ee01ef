"""A small set of prompts and a small network of the published architecture, for any benchmark that continues texts.

The texts are Python's own documentation, cut to lengths as the published prompts have them, a good deal shorter in all;
the tokenizer is learned from them. The answers of the network are the references.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from harness.benchmarks.language.decoder_layers import DecoderShape
from harness.benchmarks.language.generated_decoder import OwnAnswers, write_decoder
from harness.benchmarks.language.generated_frames import write_frame
from harness.benchmarks.language.prompts import draw_lengths
from harness.benchmarks.language.pydoc.text import END, learn_tokenizer, read_passages
from harness.benchmarks.language.texts import SENTENCES, TOKENIZER, TOKENIZER_FACTS
from harness.contract import Counter

_WORDS = 1024

Row = dict[str, Any]
Encode = Callable[[Tokenizer, Mapping[str, Any]], list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedPrompts:
    """``mean`` and ``longest``: tokens of prompts. ``least`` and ``most``: tokens of answers. ``model``: the folder of
    the network. ``finish``: the row of a text, without what the answer gives; ``refer``: what it gives, and whether
    the row is one: where it is none, another text is taken. ``encode``: makes tokens of a row where they are not its
    text's. ``liked``: texts of tokens that answers often have."""

    shape: DecoderShape
    model: str
    mean: int
    longest: int
    least: int
    most: int
    finish: Callable[[str, list[int], int], Row]
    refer: Callable[[Row, str], bool | None]
    encode: Encode | None = None
    liked: tuple[str, ...] = ()
    beams: int = 1


def write_prompts_and_network(
    made: GeneratedPrompts, data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter
) -> list[Row]:
    """The rows, which the benchmark writes in its own format; all else is written here."""
    rng = np.random.default_rng(seed)
    passages = read_passages(seed=seed, held_out=0, shortest=0).learned
    tokenizer = learn_tokenizer(passages, _WORDS)
    model = models / made.model
    model.mkdir(parents=True)
    liked = tuple(sorted({tokenizer.encode(text).ids[0] for text in made.liked}))
    shape = replace(made.shape, vocabulary=tokenizer.get_vocab_size(), liked=liked)
    if size == "full":
        shape = replace(shape, width=1024, heads=16, groups=8, layers=16, inner=4096, rotated=64)
    write_decoder(shape, model, rng, end=END)
    for folder in (data, model):
        _write_tokenizer(tokenizer, folder)
    _write_sentence_tables(passages, data / "nltk_data" / SENTENCES)
    lengths = draw_lengths(rng, count, made.mean, made.longest)
    source = TextSource(passages, tokenizer, rng)
    decoder = OwnAnswers(model)
    rows: list[Row] = []
    counter.stage("building", count)
    while len(rows) < count:
        text, tokens = source.cut(lengths[len(rows)])
        row = made.finish(text, tokens, len(rows))
        prompt = made.encode(tokenizer, row) if made.encode else tokens
        answer = answer_prompt(decoder, made, prompt)
        if made.refer(row, tokenizer.decode(answer, skip_special_tokens=True)) is not False:
            rows.append(row)
            counter.bump(1)
    return rows


def answer_prompt(decoder: OwnAnswers, made: GeneratedPrompts, prompt: list[int]) -> list[int]:
    if made.beams == 1:
        return decoder.answer(prompt, least=made.least, most=made.most, end=END)
    return decoder.answer_by_beams(prompt, beams=made.beams, least=made.least, most=made.most, end=END)


def write_rehearsal_in_frame(made: GeneratedPrompts, file: str, data: Path, models: Path, **asked: Any) -> None:
    """As ``write_prompts_and_network``, with the rows in a pickled frame, as most datasets of prompts are published."""
    rows = write_prompts_and_network(made, data, models, **asked)
    write_frame(data / file, {name: [row[name] for row in rows] for name in rows[0]})


class TextSource:
    """The documentation, from which any number of tokens can be cut."""

    def __init__(self, passages: Sequence[str], tokenizer: Tokenizer, rng: np.random.Generator) -> None:
        self._tokenizer, self._rng = tokenizer, rng
        self._stream: list[int] = tokenizer.encode(" ".join(passages)).ids

    def cut(self, length: int) -> tuple[str, list[int]]:
        """So many tokens from anywhere, and the text that they are."""
        start = int(self._rng.integers(0, len(self._stream) - length))
        tokens = self._stream[start : start + length]
        return self._tokenizer.decode(tokens), tokens


def _write_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """As transformers reads it, too."""
    tokenizer.save(str(folder / TOKENIZER))
    facts = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    facts["eos_token"] = tokenizer.id_to_token(END)
    (folder / TOKENIZER_FACTS).write_text(json.dumps(facts), encoding="utf-8")


def _write_sentence_tables(passages: Sequence[str], folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, text in learn_sentences(passages).items():
        (folder / name).write_text(text, encoding="utf-8")


def learn_sentences(passages: Sequence[str]) -> dict[str, str]:
    """Learn the ends of sentences in these texts with NLTK, as it keeps such tables."""
    from nltk.tokenize.punkt import PunktTrainer  # which brings SciPy and scikit-learn along

    learned = PunktTrainer("\n".join(passages)).get_params()
    pairs = {"collocations.tab": learned.collocations, "ortho_context.tab": learned.ortho_context.items()}
    lines = {name: [f"{first}\t{second}" for first, second in sorted(found)] for name, found in pairs.items()}
    lines |= {"sent_starters.txt": sorted(learned.sent_starters), "abbrev_types.txt": sorted(learned.abbrev_types)}
    return {name: "".join(f"{line}\n" for line in found) for name, found in lines.items()}
