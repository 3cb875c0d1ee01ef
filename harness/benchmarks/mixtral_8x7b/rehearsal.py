"""Questions in a frame like the published one, without programs, and a small Mixtral that answers them."""

from __future__ import annotations

from functools import partial

from harness.benchmarks.language.decoder_layers import DecoderShape
from harness.benchmarks.language.exact import find_number
from harness.benchmarks.language.rehearsing import GeneratedPrompts, Row, write_rehearsal_in_frame
from harness.benchmarks.mixtral_8x7b import PUBLISHED

MODEL = "Mixtral-8x7B-Instruct-v0.1"


def _finish(text: str, tokens: list[int], number: int) -> Row:
    return {
        "dataset": "OpenOrca",
        "id": f"made_{number}",
        "question": text,
        "input": text,
        "tok_input": tokens,
        "tok_input_len": len(tokens),
        "gt_output": "",
    }


def _refer(row: Row, answer: str) -> None:
    """The answer itself; of one that has a number in it, that number."""
    number = find_number(answer)
    row.update(dataset="GSM8K", gt_output=number) if number else row.update(gt_output=answer)


MADE = GeneratedPrompts(
    shape=DecoderShape(architecture="mixtral", vocabulary=0),
    model=MODEL,
    mean=32,
    longest=1024 // 16,
    least=8,
    most=16,
    finish=_finish,
    refer=_refer,
)

write_rehearsal = partial(write_rehearsal_in_frame, MADE, PUBLISHED.files[0])
