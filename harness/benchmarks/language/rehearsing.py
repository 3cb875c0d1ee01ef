"""A small set of prompts and a small network for each language benchmark.

The texts are Python's own documentation, cut to a distribution of lengths like the published one, but much shorter; the
tokenizer is learned from them. The network's answers are the references.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as op
import openvino_genai as genai
from tokenizers import Tokenizer

from harness.benchmarks.language.decoder_graph import DecoderGraph, DecoderShape, Layers
from harness.benchmarks.language.paragraphs import END, learn_tokenizer, read_paragraphs
from harness.benchmarks.language.prompt_sets import SENTENCES, TOKENIZER, TOKENIZER_FACTS, PromptSet, draw_lengths
from harness.benchmarks.language.scoring import DEEPSEEK_JUDGES, GPT_OSS_JUDGES, AnswerJudge, choose_judge, find_number
from harness.benchmarks.language.tables import write_frame
from harness.contract import Counter

_WORDS = 1024

Row = dict[str, Any]


def _refer(row: Row, answer: str, *, column: str = "output") -> None:
    row[column] = answer


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedPrompts:
    """``mean`` and ``longest``: tokens of prompts. ``least`` and ``most``: tokens of answers. ``finish``: makes a row
    from a text, its tokens and its number, without the columns that depend on the answer; ``refer``: adds those
    columns, and returns whether the row is valid. If it is not, another text is used. ``liked``: texts of tokens that
    answers often contain."""

    shape: DecoderShape
    mean: int
    longest: int
    finish: Callable[[str, list[int], int], Row]
    refer: Callable[[Row, str], bool | None] = _refer
    least: int = 8
    most: int = 24
    liked: tuple[str, ...] = ()
    beams: int = 1

    def open_network(self, folder: Path) -> OwnAnswers:
        return OwnAnswers(folder, least=self.least, most=self.most, beams=self.beams)


def write_rehearsal(
    name: str,
    sets: Sequence[PromptSet],
    data: Path,
    models: Path,
    *,
    count: int,
    seed: int,
    size: str,
    counter: Counter,
) -> None:
    """Write the rehearsal. ``sets``: the set of accuracy runs, and, if there are more, those of performance runs and of
    a compliance test. LoadGen and TEST07 then request the published number of answers, so the few questions are
    repeated."""
    published, *others = sets
    made, rng = GENERATED[name], np.random.default_rng(seed)
    passages = read_paragraphs()
    tokenizer = learn_tokenizer(passages, _WORDS)
    model = models / PurePath(published.checkpoints[0]).name
    model.mkdir(parents=True)
    liked = tuple(sorted({tokenizer.encode(text).ids[0] for text in made.liked}))
    shape = replace(made.shape, vocabulary=tokenizer.get_vocab_size(), liked=liked)
    if size == "full":
        shape = replace(shape, width=1024, heads=16, groups=8, layers=16, inner=4096)
    write_decoder(shape, model, rng, end=END)
    _write_texts(data, model, tokenizer, passages)
    total = 2 * count if others else count
    lengths = draw_lengths(rng, total, made.mean, made.longest)
    stream = tokenizer.encode(" ".join(passages)).ids
    decoder = made.open_network(model)
    rows: list[Row] = []
    counter.stage("building", total)
    while len(rows) < total:
        start = int(rng.integers(0, len(stream) - lengths[len(rows)]))
        tokens = stream[start : start + lengths[len(rows)]]
        row = made.finish(tokenizer.decode(tokens), tokens, len(rows))
        answer = decoder.answer(published.encode(tokenizer, row) if published.encode else tokens)
        if made.refer(row, tokenizer.decode(answer, skip_special_tokens=True)) is not False:
            rows.append(row)
            counter.bump(1)
    if not others:
        _write_rows(data, published, rows)
        return
    performed, compliance = others
    _write_rows(data, published, list(islice(cycle(rows[:count]), published.samples)))
    _write_rows(data, performed, [{"input_tokens": row["input_tokens"]} for row in rows[count:]])
    _write_rows(data, compliance, list(islice(cycle(rows), compliance.samples)))


def _write_rows(data: Path, published: PromptSet, rows: Sequence[Row]) -> None:
    """Write rows in a format that needs no library."""
    path = data / published.within / next(name for name in published.files if not name.endswith(".parquet"))
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")
    else:
        write_frame(path, {name: [row[name] for row in rows] for name in rows[0]})


def _write_texts(data: Path, model: Path, tokenizer: Tokenizer, passages: Sequence[str]) -> None:
    """Write the tokenizer to both folders, so that transformers reads it too, and the tables of sentences."""
    facts = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    facts["eos_token"] = tokenizer.id_to_token(END)
    for folder in (data, model):
        tokenizer.save(str(folder / TOKENIZER))
        (folder / TOKENIZER_FACTS).write_text(json.dumps(facts), encoding="utf-8")
    (data / "nltk_data" / SENTENCES).mkdir(parents=True)
    for table, text in learn_sentences(passages).items():
        (data / "nltk_data" / SENTENCES / table).write_text(text, encoding="utf-8")


def learn_sentences(passages: Sequence[str]) -> dict[str, str]:
    """Learn sentence ends in these texts with NLTK, in its own table format."""
    from nltk.tokenize.punkt import PunktTrainer  # slow, since it imports SciPy and scikit-learn

    learned = PunktTrainer("\n".join(passages)).get_params()
    pairs = {"collocations.tab": learned.collocations, "ortho_context.tab": learned.ortho_context.items()}
    lines = {name: [f"{first}\t{second}" for first, second in sorted(found)] for name, found in pairs.items()}
    lines |= {"sent_starters.txt": sorted(learned.sent_starters), "abbrev_types.txt": sorted(learned.abbrev_types)}
    return {name: "".join(f"{line}\n" for line in found) for name, found in lines.items()}


def _refer_number(row: Row, answer: str) -> None:
    """Use the answer itself as the reference, or the number that it contains, if there is one."""
    number = find_number(answer)
    row.update(dataset="GSM8K", gt_output=number) if number else row.update(gt_output=answer)


def _refer_letter(row: Row, answer: str, *, judges: Mapping[str, AnswerJudge]) -> bool:
    row["ground_truth"] = choose_judge(judges, row["dataset"]).find(answer.strip())
    return row["ground_truth"] is not None


def _finish_article(text: str, tokens: list[int], _number: int) -> Row:
    instruction = {"llama": "Summarize the following news article in 128 tokens."}
    return {"instruction": instruction, "input": text, "tok_input": tokens, "output": ""}


def _finish_openorca(text: str, tokens: list[int], _number: int) -> Row:
    asked = {"system_prompt": "You are an AI assistant.", "question": text, "input": f"[INST] {text} [/INST]"}
    return {**asked, "output": "", "tok_input": tokens, "tok_input_length": len(tokens), "origin": "flan"}


def _finish_mixed(text: str, tokens: list[int], number: int) -> Row:
    asked = {"dataset": "OpenOrca", "id": f"made_{number}", "question": text, "input": text}
    return {**asked, "tok_input": tokens, "tok_input_len": len(tokens), "gt_output": ""}


def _finish_long_text(text: str, tokens: list[int], number: int) -> Row:
    metric = ("rouge", "qa_em")[number % 2]
    return {"input": text, "tok_input": tokens, "tok_input_len": len(tokens), "gt_output": "", "metric": metric}


def _finish_templated(text: str, tokens: list[int], _number: int) -> Row:
    asked = {"text_input": text, "question": text, "templated_text_input": text}
    return {**asked, "ground_truth": "", "dataset": "mmlu_pro", "tok_input": tokens, "tok_input_len": len(tokens)}


_ARTICLES = GeneratedPrompts(
    shape=DecoderShape(vocabulary=0),
    mean=51,  # a sixteenth of the published 819
    longest=170,
    most=16,
    finish=_finish_article,
)
GENERATED: Mapping[str, GeneratedPrompts] = {
    "gptj": GeneratedPrompts(
        shape=DecoderShape(vocabulary=0, ends=0.0),
        mean=51,
        longest=120,
        least=0,  # OpenVINO GenAI supports no minimum with beams
        most=16,
        beams=4,
        finish=lambda text, _tokens, _number: {
            "instruction": "Summarize the following news article:",
            "input": text,
            "output": "",
        },
    ),
    "llama3_1_8b": _ARTICLES,
    "llama3_1_8b_edge": _ARTICLES,
    "llama2_70b": GeneratedPrompts(
        shape=DecoderShape(vocabulary=0, heads=8, groups=2),
        mean=32,
        longest=1024 // 16,
        finish=_finish_openorca,
    ),
    "mixtral_8x7b": GeneratedPrompts(
        shape=DecoderShape(vocabulary=0, layers=4),  # some of this network's answers are numbers
        mean=32,
        longest=1024 // 16,
        most=16,
        finish=_finish_mixed,
        refer=_refer_number,
    ),
    "llama3_1_405b": GeneratedPrompts(
        shape=DecoderShape(vocabulary=0, layers=3, heads=8, groups=1),
        mean=9400 // 32,
        longest=20_000 // 32,
        finish=_finish_long_text,
        refer=partial(_refer, column="gt_output"),
    ),
    # Questions with ten choices. The answers are letters; the last single one counts as right.
    "deepseek_r1": GeneratedPrompts(
        shape=DecoderShape(vocabulary=0, heads=4),
        mean=48,
        longest=3140 // 16,
        finish=_finish_templated,
        refer=partial(_refer_letter, judges=DEEPSEEK_JUDGES),
        liked=tuple(f" {letter}" for letter in "abcdefghij"),
    ),
    # Four choices. Scores differ so much that the likeliest token is always drawn.
    "gpt_oss_120b": GeneratedPrompts(
        shape=DecoderShape(vocabulary=0, heads=8, groups=2, sharpness=1e4),
        mean=16,
        longest=48,
        least=2,
        most=6,
        finish=lambda text, tokens, _number: {
            "question": text,
            "dataset": "gpqa_diamond",
            "ground_truth": "",
            "input_tokens": tokens,
        },
        refer=partial(_refer_letter, judges=GPT_OSS_JUDGES),
        liked=(" a", " b", " c", " d"),
    ),
}


_LIKED = 3.0  # how much likelier these tokens are


def write_decoder(shape: DecoderShape, output: Path, rng: np.random.Generator, *, end: int) -> None:
    graph = DecoderGraph(heads=shape.heads, groups=shape.groups, head=shape.head)
    made = Layers(graph, shape, rng)
    hidden = graph.embed(made.draw(shape.vocabulary, shape.width) * np.float32(shape.width**0.5))
    for layer in range(shape.layers):
        hidden = made.add_layer(hidden, layer)
    scores = graph.multiply(made.normalize(hidden), made.draw(shape.vocabulary, shape.width))
    bias = np.zeros(shape.vocabulary, np.float32)
    bias[end] = shape.ends
    bias[list(shape.liked)] = _LIKED
    scores = op.add(scores, op.constant(bias))
    if shape.sharpness != 1:
        scores = op.multiply(scores, op.constant(np.float32(shape.sharpness)))
    graph.save(scores, output, kind="llama", vocabulary=shape.vocabulary, end=end)


class OwnAnswers:
    """A network's own answers in fp32, one prompt at a time: the likeliest tokens, or with several ``beams`` the
    likeliest answer of a search."""

    def __init__(self, folder: Path, *, least: int, most: int, beams: int = 1) -> None:
        hints = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = 1  # GiB
        self._pipeline = genai.ContinuousBatchingPipeline(str(folder), scheduler, "CPU", hints)
        self._config = genai.GenerationConfig(
            eos_token_id=END, stop_token_ids={END}, min_new_tokens=least, max_new_tokens=most
        )
        if beams > 1:
            self._config.num_beams, self._config.num_return_sequences = beams, 1
            self._config.stop_criteria = genai.StopCriteria.EARLY

    def answer(self, prompt: Sequence[int]) -> list[int]:
        (found,) = self._pipeline.generate([ov.Tensor(np.array([prompt], np.int64))], [self._config])
        return list(found.m_generation_ids[0])
