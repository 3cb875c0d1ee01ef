"""A small BERT trained to find answers: the question's first and last words are those of the answer, its other words
are not in the passage. With random weights, answers would show little about a precision."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.bert import postprocess, score
from harness.benchmarks.bert.network import EPS, HEAD, POSITIONS, NetworkSize, write_network
from harness.benchmarks.bert.squad import INPUTS
from harness.benchmarks.network_builder import NetworkSession
from tests.gpu.bert_texts import FIRST, make_vocabulary, write_squad

_WORDS, _SEEN = 1009, 800  # a prime: words are shuffled by multiplication; of them, passages use so many
_ASKED, _LONGEST, _STOP = 6, 12, 0.1  # words of a question, of an answer at most, share of full stops
_CLS, _SEP, _DOT = 101, 102, FIRST
SIZE = NetworkSize(4, 256, 1024)


def draw_questions(count: int, length: int, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens [count, length] and the first and last token of each answer [count, 2], drawn with PyTorch's
    seed."""
    room = length - _ASKED - 3

    def draw(low: int, high: int, wide: int) -> torch.Tensor:
        return torch.randint(low, high, (count, wide), device=device)

    factor, shift, place = draw(1, _WORDS, 1), draw(0, _WORDS, 1), draw(0, room - _LONGEST, 1)
    last = place + draw(1, _LONGEST, 1)
    at = torch.arange(room, device=device)
    passage = draw(2, _SEEN, room).masked_fill(at == place, 0).masked_fill(at == last, 1)
    asked = draw(_SEEN, _WORDS, _ASKED)
    asked[:, 0], asked[:, -1] = 0, 1
    stops = (torch.rand(count, room, device=device) < _STOP) & (at != place) & (at != last)
    words = torch.where(stops, _DOT, FIRST + 1 + (passage * factor + shift) % _WORDS)
    question = FIRST + 1 + (asked * factor + shift) % _WORDS
    first, mark = torch.full_like(place, _CLS), torch.full_like(place, _SEP)
    tokens = torch.cat([first, question, mark, words, mark], 1)
    return tokens, torch.cat([place, last], 1) + _ASKED + 2


def write_questions(folder: Path, count: int) -> None:
    vocabulary = make_vocabulary(FIRST + 1 + _WORDS)
    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    paragraphs = []
    for number in range(count):
        tokens, answers = draw_questions(1, int(rng.integers(40, 380)))
        words = [vocabulary[token] for token in tokens[0].tolist()]
        first, last = answers[0].tolist()
        qa = {
            "id": f"{number:024x}",
            "question": " ".join(words[1 : _ASKED + 1]),
            "answers": [{"text": " ".join(words[first : last + 1]), "answer_start": 0}],
        }
        paragraphs.append({"context": " ".join(words[_ASKED + 2 : -1]), "qas": [qa]})
    write_squad(folder, vocabulary, paragraphs)


class TrainedBert(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked here
    """The reference's network, with padding. Its weights have the reference's names, with dots for slashes."""

    def __init__(self, words: int, size: NetworkSize) -> None:
        super().__init__()
        self.size = size
        width, inner = size.width, size.inner
        shapes = {
            "bert.embeddings.word_embeddings.weight": (words, width),
            "bert.embeddings.position_embeddings.weight": (POSITIONS, width),
            "bert.embeddings.token_type_embeddings.weight": (2, width),
        }
        dense = {"qa_outputs": (2, width)}
        norms = ["bert.embeddings.LayerNorm"]
        for number in range(size.layers):
            layer = f"bert.encoder.layer.{number}"
            dense |= {f"{layer}.attention.self.{part}": (width, width) for part in ("query", "key", "value")}
            dense |= {f"{layer}.attention.output.dense": (width, width), f"{layer}.intermediate.dense": (inner, width)}
            dense |= {f"{layer}.output.dense": (width, inner)}
            norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
        made = {name: torch.randn(shape) * (0.3 if "word" in name else 0.1) for name, shape in shapes.items()}
        for name, shape in dense.items():
            made |= {f"{name}.weight": torch.randn(shape) * shape[1] ** -0.5, f"{name}.bias": torch.zeros(shape[0])}
        for name in norms:
            made |= {f"{name}.weight": torch.ones(width), f"{name}.bias": torch.zeros(width)}
        self.made = torch.nn.ParameterDict({name.replace(".", "/"): value for name, value in made.items()})

    def weights(self) -> dict[str, np.ndarray]:
        return {name.replace("/", "."): value.detach().float().cpu().numpy() for name, value in self.made.items()}

    def _of(self, name: str, kind: str) -> torch.Tensor:
        return self.made[f"{name}.{kind}".replace(".", "/")]

    def _multiply(self, name: str, value: torch.Tensor) -> torch.Tensor:
        return functional.linear(value, self._of(name, "weight"), self._of(name, "bias"))

    def _normalize(self, name: str, value: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(value, (self.size.width,), self._of(name, "weight"), self._of(name, "bias"), EPS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        embedded = "bert.embeddings"
        kinds = (torch.arange(tokens.shape[1], device=tokens.device) > _ASKED + 1).long()
        top = functional.embedding(tokens, self._of(f"{embedded}.word_embeddings", "weight"))
        top = top + self._of(f"{embedded}.position_embeddings", "weight")[: tokens.shape[1]]
        top = top + functional.embedding(kinds, self._of(f"{embedded}.token_type_embeddings", "weight"))
        top = self._normalize(f"{embedded}.LayerNorm", top)
        for number in range(self.size.layers):
            layer = f"bert.encoder.layer.{number}"
            query, key, value = (
                self._multiply(f"{layer}.attention.self.{part}", top).unflatten(-1, (-1, HEAD)).transpose(1, 2)
                for part in ("query", "key", "value")
            )
            seen = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
            mixed = self._multiply(f"{layer}.attention.output.dense", seen)
            top = self._normalize(f"{layer}.attention.output.LayerNorm", mixed + top)
            inner = functional.gelu(self._multiply(f"{layer}.intermediate.dense", top))
            top = self._normalize(f"{layer}.output.LayerNorm", self._multiply(f"{layer}.output.dense", inner) + top)
        return self._multiply("qa_outputs", top)


def train_network(path: Path, *, seconds: float, batch: int = 128, rate: float = 6e-4) -> dict[str, Any]:
    """Train for a number of seconds, and write the network as ONNX."""
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = TrainedBert(FIRST + 1 + _WORDS, SIZE).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.01)
    began, steps, right, loss = time.monotonic(), 0, 0.0, torch.zeros(())
    while (spent := time.monotonic() - began) < seconds:
        share = min(1.0, (steps + 1) / 300) * min(1.0, 4 * (1 - spent / seconds) + 0.02)
        for group in optimizer.param_groups:
            group["lr"] = rate * share
        longest = 3 if spent < 0.4 * seconds else 9  # few lengths: a plan is made for each
        tokens, answers = draw_questions(batch, int(48 * rng.integers(1, longest) - rng.integers(0, 2) * 16), device)
        with torch.autocast(device, torch.bfloat16):
            logits = network(tokens)
        loss = sum(functional.cross_entropy(logits[..., part].float(), answers[:, part]) for part in (0, 1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        if steps % 500 == 0:
            right = float((logits.argmax(1) == answers).all(1).float().mean())
            print(f"step {steps}: loss {float(loss.detach()):.3f}, right {right:.3f}", flush=True)
        steps += 1
    write_network(path, network.weights())
    return {"steps": steps, "loss": round(float(loss.detach()), 4), "right": right}


def score_exactly(dataset: Path, network: Path) -> dict[str, Any]:
    """Score with ONNX Runtime in fp32 on the CPU, with padding."""
    samples = {name: np.load(dataset / f"{name}.npy", mmap_mode="r") for name in INPUTS}
    session, count = NetworkSession(network), len(samples[INPUTS[0]])
    answers: list[np.ndarray] = []
    for first in range(0, count, 8):
        feed = {name: np.asarray(array[first : first + 8]) for name, array in samples.items()}
        answers += list(postprocess(session.compute(feed)))
    log = AnswerLog(np.arange(count), tuple(answer.tobytes() for answer in answers), 0, 0)
    folder = network.parent / "exact"
    folder.mkdir()
    return dict(score(log, dataset, folder))
