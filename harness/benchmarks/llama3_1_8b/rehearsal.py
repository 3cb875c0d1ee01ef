"""Articles of Python's documentation in the JSON of the published set, and a small Llama that continues them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.benchmarks.language.decoder_layers import DecoderShape
from harness.benchmarks.language.rehearsing import GeneratedPrompts, Row, write_prompts_and_network

MODEL = "Llama-3.1-8B-Instruct"
_TEMPLATE = "Summarize the following news article in 128 tokens."


def _finish(text: str, tokens: list[int], _number: int) -> Row:
    return {"instruction": {"llama": _TEMPLATE}, "input": text, "tok_input": tokens, "output": ""}


def _refer(row: Row, answer: str) -> None:
    row["output"] = answer


MADE = GeneratedPrompts(
    shape=DecoderShape(architecture="llama", vocabulary=0),
    model=MODEL,
    mean=51,  # a sixteenth of the published 819
    longest=170,
    least=8,
    most=16,
    finish=_finish,
    refer=_refer,
)


def write_rehearsal(data: Path, models: Path, *, file: str = "cnn_eval.json", **asked: Any) -> None:
    rows = write_prompts_and_network(MADE, data, models, **asked)
    (data / file).write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")
