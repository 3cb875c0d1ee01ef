"""Questions made of Python's documentation in a frame like the published one, and a small Llama that answers them."""

from __future__ import annotations

from functools import partial

from harness.benchmarks.language.decoder_layers import DecoderShape
from harness.benchmarks.language.rehearsing import GeneratedPrompts, Row, write_rehearsal_in_frame
from harness.benchmarks.llama2_70b import PUBLISHED

MODEL = "Llama-2-70b-chat-hf"


def _finish(text: str, tokens: list[int], _number: int) -> Row:
    system = "You are an AI assistant."
    asked = {"system_prompt": system, "question": text, "input": f"[INST] {text} [/INST]"}
    return {**asked, "output": "", "tok_input": tokens, "tok_input_length": len(tokens), "origin": "flan"}


def _refer(row: Row, answer: str) -> None:
    row["output"] = answer


MADE = GeneratedPrompts(
    shape=DecoderShape(architecture="llama", vocabulary=0, heads=8, groups=2),
    model=MODEL,
    mean=32,
    longest=1024 // 16,
    least=8,
    most=24,
    finish=_finish,
    refer=_refer,
)

write_rehearsal = partial(write_rehearsal_in_frame, MADE, PUBLISHED.files[0])
