"""A small set of prompts and a small network of the published architecture, for each language benchmark.

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
from tokenizers import Tokenizer

from harness.benchmarks.language.decoder_graph import HIDDEN, MODEL, DecoderGraph, DecoderShape, Layers, numbers, plain
from harness.benchmarks.language.prompt_sets import SENTENCES, TOKENIZER, TOKENIZER_FACTS, PromptSet, draw_lengths
from harness.benchmarks.language.pydoc.text import END, learn_tokenizer, read_passages
from harness.benchmarks.language.scoring import DEEPSEEK_JUDGES, GPT_OSS_JUDGES, AnswerJudge, choose_judge, find_number
from harness.benchmarks.language.tables import write_frame
from harness.contract import Counter

_WORDS = 1024

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedPrompts:
    """``mean`` and ``longest``: tokens of prompts. ``least`` and ``most``: tokens of answers. ``finish``: makes the row
    of a text, its tokens and its number, without the columns from the answer; ``refer``: makes these, and returns
    whether the row is valid: if not, another text is used. ``liked``: texts of tokens that answers often contain."""

    shape: DecoderShape
    mean: int
    longest: int
    least: int
    most: int
    finish: Callable[[str, list[int], int], Row]
    refer: Callable[[Row, str], bool | None]
    liked: tuple[str, ...] = ()
    beams: int = 1


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
    """Write the rehearsal. ``sets``: of accuracy runs, and, if there are more, of performance runs and of a compliance
    test. LoadGen and TEST07 then request answers to the published number of questions: here, the few are repeated."""
    published, *others = sets
    rows = write_prompts_and_network(
        GENERATED[name],
        published,
        data,
        models,
        count=2 * count if others else count,
        seed=seed,
        size=size,
        counter=counter,
    )
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


def write_prompts_and_network(
    made: GeneratedPrompts,
    published: PromptSet,
    data: Path,
    models: Path,
    *,
    count: int,
    seed: int,
    size: str,
    counter: Counter,
) -> list[Row]:
    """Write the network with its tokenizer, and the tables of sentences. Returns the rows."""
    rng = np.random.default_rng(seed)
    passages = read_passages(seed=seed, held_out=0, shortest=0).learned
    tokenizer = learn_tokenizer(passages, _WORDS)
    model = models / PurePath(published.checkpoints[0]).name
    model.mkdir(parents=True)
    liked = tuple(sorted({tokenizer.encode(text).ids[0] for text in made.liked}))
    shape = replace(made.shape, vocabulary=tokenizer.get_vocab_size(), liked=liked)
    if size == "full":
        shape = replace(shape, width=1024, heads=16, groups=8, layers=16, inner=4096, rotated=64)
    write_decoder(shape, model, rng, end=END)
    # So that transformers reads it, too.
    facts = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    facts["eos_token"] = tokenizer.id_to_token(END)
    for folder in (data, model):
        tokenizer.save(str(folder / TOKENIZER))
        (folder / TOKENIZER_FACTS).write_text(json.dumps(facts), encoding="utf-8")
    (data / "nltk_data" / SENTENCES).mkdir(parents=True)
    for table, text in learn_sentences(passages).items():
        (data / "nltk_data" / SENTENCES / table).write_text(text, encoding="utf-8")
    lengths = draw_lengths(rng, count, made.mean, made.longest)
    source = TextSource(passages, tokenizer, rng)
    decoder = OwnAnswers(model)
    rows: list[Row] = []
    counter.stage("building", count)
    while len(rows) < count:
        text, tokens = source.cut(lengths[len(rows)])
        row = made.finish(text, tokens, len(rows))
        prompt = published.encode(tokenizer, row) if published.encode else tokens
        answer = answer_prompt(decoder, made, prompt)
        if made.refer(row, tokenizer.decode(answer, skip_special_tokens=True)) is not False:
            rows.append(row)
            counter.bump(1)
    return rows


def answer_prompt(decoder: OwnAnswers, made: GeneratedPrompts, prompt: list[int]) -> list[int]:
    if made.beams == 1:
        return decoder.answer(prompt, least=made.least, most=made.most, end=END)
    return decoder.answer_by_beams(prompt, beams=made.beams, least=made.least, most=made.most, end=END)


class TextSource:
    """Text source with any number of tokens, from the documentation."""

    def __init__(self, passages: Sequence[str], tokenizer: Tokenizer, rng: np.random.Generator) -> None:
        self._tokenizer, self._rng = tokenizer, rng
        self._stream: list[int] = tokenizer.encode(" ".join(passages)).ids

    def cut(self, length: int) -> tuple[str, list[int]]:
        """Cut ``length`` tokens from a random place; return their text too."""
        start = int(self._rng.integers(0, len(self._stream) - length))
        tokens = self._stream[start : start + length]
        return self._tokenizer.decode(tokens), tokens


def learn_sentences(passages: Sequence[str]) -> dict[str, str]:
    """Learn sentence ends in these texts with NLTK, in its own table format."""
    from nltk.tokenize.punkt import PunktTrainer  # which imports SciPy and scikit-learn

    learned = PunktTrainer("\n".join(passages)).get_params()
    pairs = {"collocations.tab": learned.collocations, "ortho_context.tab": learned.ortho_context.items()}
    lines = {name: [f"{first}\t{second}" for first, second in sorted(found)] for name, found in pairs.items()}
    lines |= {"sent_starters.txt": sorted(learned.sent_starters), "abbrev_types.txt": sorted(learned.abbrev_types)}
    return {name: "".join(f"{line}\n" for line in found) for name, found in lines.items()}


def _refer(row: Row, answer: str, *, column: str = "output") -> None:
    row[column] = answer


def _refer_number(row: Row, answer: str) -> None:
    """Return the answer itself; if it contains a number, that number."""
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
    shape=DecoderShape(architecture="llama", vocabulary=0),
    mean=51,  # a sixteenth of the published 819
    longest=170,
    least=8,
    most=16,
    finish=_finish_article,
    refer=_refer,
)
GENERATED: Mapping[str, GeneratedPrompts] = {
    "gptj": GeneratedPrompts(
        shape=DecoderShape(architecture="gptj", vocabulary=0, ends=0.0),
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
        refer=_refer,
    ),
    "llama3_1_8b": _ARTICLES,
    "llama3_1_8b_edge": _ARTICLES,
    "llama2_70b": GeneratedPrompts(
        shape=DecoderShape(architecture="llama", vocabulary=0, heads=8, groups=2),
        mean=32,
        longest=1024 // 16,
        least=8,
        most=24,
        finish=_finish_openorca,
        refer=_refer,
    ),
    "mixtral_8x7b": GeneratedPrompts(
        shape=DecoderShape(architecture="mixtral", vocabulary=0),
        mean=32,
        longest=1024 // 16,
        least=8,
        most=16,
        finish=_finish_mixed,
        refer=_refer_number,
    ),
    "llama3_1_405b": GeneratedPrompts(
        shape=DecoderShape(architecture="llama", vocabulary=0, layers=3, heads=8, groups=1),
        mean=9400 // 32,
        longest=20_000 // 32,
        least=8,
        most=24,
        finish=_finish_long_text,
        refer=partial(_refer, column="gt_output"),
    ),
    # Questions with ten choices, answered with letters, of which the last single one is right.
    "deepseek_r1": GeneratedPrompts(
        shape=DecoderShape(architecture="deepseek", vocabulary=0, heads=4),
        mean=48,
        longest=3140 // 16,
        least=8,
        most=24,
        finish=_finish_templated,
        refer=partial(_refer_letter, judges=DEEPSEEK_JUDGES),
        liked=tuple(f" {letter}" for letter in "abcdefghij"),
    ),
    # Four choices. Scores differ so much that the likeliest token is always drawn.
    "gpt_oss_120b": GeneratedPrompts(
        shape=DecoderShape(architecture="gpt_oss", vocabulary=0, heads=8, groups=2, sharpness=1e4),
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


# Small networks with the architectures of published language models, and their answers.

# Layers of DeepSeek-R1 and of GPT-OSS.
#
# DeepSeek: keys and values of all heads are computed from one short vector per token, and one rotated key is shared;
# experts are chosen in groups by a sigmoid, and one more computes every token. GPT-OSS: projections have biases, the
# shares of four experts are normalised over the chosen ones, and their gates are clamped. Its sinks and sliding windows
# are not implemented here.


class LatentLayers(Layers):
    """DeepSeek's layers. The first layer has no experts."""

    _GROUPS, _KEPT, _CHOSEN, _FACTOR = 4, 2, 2, 2.5  # groups of experts, and those used per token; scale of shares

    def _attend(self, seen: Any, layer: int) -> Any:
        shape, graph = self._shape, self._graph
        rank, rotated = shape.width // 2, shape.rotated
        query = self._project(self.normalize(self._project(seen, rank)), shape.heads * shape.head, rank)
        latent = self._project(seen, rank + rotated)
        shared = self._turn(self._split(self._cut(latent, rank, rank + rotated, 2), 1, rotated))
        latent = self.normalize(self._cut(latent, 0, rank, 2))
        plain_keys = self._split(
            self._project(latent, shape.heads * (shape.head - rotated), rank), shape.heads, shape.head - rotated
        )
        value = graph.split(self._project(latent, shape.heads * shape.head, rank), shape.heads)
        spread = op.multiply(shared, op.constant(np.ones((1, shape.heads, 1, 1), np.float32)))
        key = op.concat([spread, plain_keys], 3)
        mixed = graph.attend(str(layer), self._turn(graph.split(query, shape.heads)), key, value)
        return self._project(mixed, shape.width)

    def _mix(self, seen: Any, layer: int) -> Any:
        if layer == 0:
            return self._compute_gated(seen)
        shape = self._shape
        routed = op.sigmoid(self._project(seen, shape.experts))
        preferred = op.add(routed, op.constant(self.draw(1, shape.experts)[None] * np.float32(0.01)))
        grouped = op.reshape(preferred, numbers(0, 0, self._GROUPS, -1), special_zero=True)
        kept = self._choose(op.reduce_sum(grouped, numbers(-1)), self._KEPT)
        known = op.select(op.unsqueeze(kept, numbers(-1)), grouped, plain(HIDDEN))
        chosen = self._choose(op.reshape(known, numbers(0, 0, shape.experts), special_zero=True), self._CHOSEN)
        shares = op.select(chosen, routed, plain(0.0))
        shares = op.divide(shares, op.reduce_sum(shares, numbers(-1), keep_dims=True))
        mixed = self._compute_gated(seen)  # of the expert that all tokens share
        for share in op.split(
            op.multiply(shares, plain(self._FACTOR)), op.constant(np.int64(-1)), shape.experts
        ).outputs():
            mixed = op.add(mixed, op.multiply(self._compute_gated(seen), share))
        return mixed

    def _split(self, rows: Any, heads: int, size: int) -> Any:
        """Split [batch, n, heads * size] to [batch, heads, n, size]."""
        return op.transpose(op.reshape(rows, numbers(0, 0, heads, size), special_zero=True), numbers(0, 2, 1, 3))


class OssLayers(Layers):
    """GPT-OSS's layers."""

    CHOSEN = 4
    _STEEPNESS, _MOST = 1.702, 7.0  # scale of gates, and their maximum

    def _compute_gated(self, seen: Any) -> Any:
        shape = self._shape
        gate, up = (self._project(seen, shape.inner) for _ in range(2))
        gate = op.minimum(gate, plain(self._MOST))
        opened = op.multiply(gate, op.sigmoid(op.multiply(gate, plain(self._STEEPNESS))))
        widened = op.add(op.clamp(up, -self._MOST, self._MOST), plain(1.0))
        return self._project(op.multiply(widened, opened), shape.width, shape.inner)

    def _project(self, rows: Any, outputs: int, inputs: int = 0) -> Any:
        shift = self.draw(1, outputs)[0] * np.float32(0.1)
        return op.add(super()._project(rows, outputs, inputs), op.constant(shift))


_LAYERS = {"deepseek": LatentLayers, "gpt_oss": OssLayers}
_LIKED = 3.0  # how much likelier they are


def write_decoder(shape: DecoderShape, output: Path, rng: np.random.Generator, *, end: int) -> None:
    groups = shape.heads if shape.architecture in ("gptj", "deepseek") else shape.groups
    graph = DecoderGraph(heads=shape.heads, groups=groups, head=shape.head)
    made = _LAYERS.get(shape.architecture, Layers)(graph, shape, groups, rng)
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
    graph.save(scores, output, kind=shape.architecture, vocabulary=shape.vocabulary, end=end)


class OwnAnswers:
    """A network's own answers, one prompt at a time."""

    def __init__(self, folder: Path) -> None:
        hints = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
        self._request = ov.Core().compile_model(str(folder / MODEL), "CPU", hints).create_infer_request()

    def answer(self, prompt: list[int], *, least: int, most: int, end: int) -> list[int]:
        """Choose the likeliest token each time, up to the end, which follows at least ``least`` other tokens."""
        self._request.reset_state()
        found: list[int] = []
        rows, seen = [prompt], 0
        while len(found) < most and (not found or found[-1] != end):
            (scores,) = self._step(rows, seen, [0])
            seen += len(rows[0])
            if len(found) < least:
                scores[end] = -np.inf
            found.append(int(scores.argmax()))
            rows = [found[-1:]]
        return found

    def answer_by_beams(self, prompt: list[int], *, beams: int, least: int, most: int, end: int) -> list[int]:
        """Return the likeliest answer per token among the first ``beams`` that ended or reached the maximum length."""
        self._request.reset_state()
        open_beams: list[tuple[float, list[int]]] = [(0.0, [])]
        ended: list[tuple[float, list[int]]] = []
        rows, seen, order = [prompt], 0, [0]
        for length in range(1, most + 1):
            scores = self._step(rows, seen, order)
            seen += len(rows[0])
            if length <= least:
                scores[:, end] = -np.inf
            likely = scores - np.log(np.exp(scores - scores.max(1, keepdims=True)).sum(1, keepdims=True))
            likely = likely - scores.max(1, keepdims=True) + np.array([[score] for score, _ in open_beams])
            best = np.argsort(-likely, axis=None, kind="stable")[: 2 * beams].tolist()
            following: list[tuple[int, float, list[int]]] = []
            for rank, place in enumerate(best):
                beam, token = divmod(place, scores.shape[1])
                score, tokens = float(likely[beam, token]), [*open_beams[beam][1], token]
                if token != end:
                    following.append((beam, score, tokens))
                elif rank < beams:
                    ended.append((score / length, tokens))
            if len(ended) >= beams:
                break
            open_beams = [(score, tokens) for _, score, tokens in following[:beams]]
            order, rows = [beam for beam, _, _ in following[:beams]], [tokens[-1:] for _, tokens in open_beams]
        else:
            ended += [(score / most, tokens) for score, tokens in open_beams]
        return max(ended)[1]

    def _step(self, rows: list[list[int]], seen: int, order: list[int]) -> np.ndarray:
        """Return the scores of the next token for each row [rows, vocabulary]; ``order``: the row of the previous step
        that each continues."""
        count = len(rows[0])
        inputs = {
            "input_ids": np.array(rows, np.int64),
            "attention_mask": np.ones((len(rows), seen + count), np.int64),
            "position_ids": np.tile(np.arange(seen, seen + count, dtype=np.int64), (len(rows), 1)),
            "beam_idx": np.array(order, np.int32),
        }
        scores: np.ndarray = self._request.infer(inputs)[0][:, -1].astype(np.float64)
        return scores
