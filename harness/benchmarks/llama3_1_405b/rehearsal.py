"""Long texts with questions in a frame like the published one, and a small Llama that answers them."""

from __future__ import annotations

from functools import partial

from harness.benchmarks.language.decoder_layers import DecoderShape
from harness.benchmarks.language.rehearsing import GeneratedPrompts, Row, write_rehearsal_in_frame
from harness.benchmarks.llama3_1_405b import PUBLISHED

MODEL = "Llama-3.1-405B-Instruct"


def _finish(text: str, tokens: list[int], number: int) -> Row:
    metric = ("rouge", "qa_em")[number % 2]
    return {"input": text, "tok_input": tokens, "tok_input_len": len(tokens), "gt_output": "", "metric": metric}


def _refer(row: Row, answer: str) -> None:
    row["gt_output"] = answer


MADE = GeneratedPrompts(
    shape=DecoderShape(architecture="llama", vocabulary=0, layers=3, heads=8, groups=1),
    model=MODEL,
    mean=9400 // 32,
    longest=20_000 // 32,
    least=8,
    most=24,
    finish=_finish,
    refer=_refer,
)

write_rehearsal = partial(write_rehearsal_in_frame, MADE, PUBLISHED.files[0])
