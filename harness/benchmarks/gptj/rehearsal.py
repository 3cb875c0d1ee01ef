"""Articles made of Python's documentation in the JSON of the published set, and a small GPT-J that summarizes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.benchmarks.gptj import GENERATION, PUBLISHED, encode
from harness.benchmarks.language.decoder_layers import DecoderShape
from harness.benchmarks.language.rehearsing import GeneratedPrompts, Row, write_prompts_and_network

MODEL = "checkpoint-final"


def _finish(text: str, _tokens: list[int], _number: int) -> Row:
    return {"instruction": "Summarize the following news article:", "input": text, "output": ""}


def _refer(row: Row, answer: str) -> None:
    row["output"] = answer


MADE = GeneratedPrompts(
    shape=DecoderShape(architecture="gptj", vocabulary=0, ends=0.0),
    model=MODEL,
    mean=51,
    longest=120,
    least=0,  # with beams, OpenVINO GenAI asks for no least
    most=16,
    beams=int(str(GENERATION["beams"])),
    finish=_finish,
    refer=_refer,
    encode=encode,
)


def write_rehearsal(data: Path, models: Path, **asked: Any) -> None:
    rows = write_prompts_and_network(MADE, data, models, **asked)
    (data / PUBLISHED.files[0]).write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")
