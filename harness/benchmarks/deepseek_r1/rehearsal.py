"""Questions with ten choices in a frame like the published one, and a small network of DeepSeek's layers that answers
them: each with letters, of which the last single one is right."""

from __future__ import annotations

from functools import partial

from harness.benchmarks.deepseek_r1 import JUDGES, PUBLISHED
from harness.benchmarks.language.decoder_layers import DecoderShape
from harness.benchmarks.language.reasoning import choose_judge
from harness.benchmarks.language.rehearsing import GeneratedPrompts, Row, write_rehearsal_in_frame

MODEL = "DeepSeek-R1"
_SET = "mmlu_pro"
CHOICES = tuple(f" {letter}" for letter in "abcdefghij")


def _finish(text: str, tokens: list[int], _number: int) -> Row:
    asked = {"text_input": text, "question": text, "templated_text_input": text}
    return {**asked, "ground_truth": "", "dataset": _SET, "tok_input": tokens, "tok_input_len": len(tokens)}


def _refer(row: Row, answer: str) -> bool:
    row["ground_truth"] = choose_judge(JUDGES, _SET).find(answer.strip())
    return row["ground_truth"] is not None


MADE = GeneratedPrompts(
    shape=DecoderShape(architecture="deepseek", vocabulary=0, heads=4),
    model=MODEL,
    mean=48,
    longest=3140 // 16,
    least=8,
    most=24,
    finish=_finish,
    refer=_refer,
    liked=CHOICES,
)

write_rehearsal = partial(write_rehearsal_in_frame, MADE, PUBLISHED.files[0])
