"""Questions with four choices in frames like the published ones, and a small network of GPT-OSS's layers that answers
them with a letter. Its scores are so far apart that what is drawn from them is always the likeliest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

from harness.benchmarks.gpt_oss_120b import COMPLIANCE, JUDGES, PERFORMED, PUBLISHED
from harness.benchmarks.language.decoder_layers import DecoderShape
from harness.benchmarks.language.generated_frames import write_frame
from harness.benchmarks.language.prompt_sets import PromptSet
from harness.benchmarks.language.reasoning import choose_judge
from harness.benchmarks.language.rehearsing import GeneratedPrompts, Row, write_prompts_and_network
from harness.contract import Counter

MODEL = "gpt-oss-120b"
_SET = "gpqa_diamond"


def _finish(text: str, tokens: list[int], _number: int) -> Row:
    return {"question": text, "dataset": _SET, "ground_truth": "", "input_tokens": tokens}


def _refer(row: Row, answer: str) -> bool:
    row["ground_truth"] = choose_judge(JUDGES, _SET).find(answer.strip())
    return row["ground_truth"] is not None


MADE = GeneratedPrompts(
    shape=DecoderShape(architecture="gpt_oss", vocabulary=0, heads=8, groups=2, sharpness=1e4),
    model=MODEL,
    mean=16,
    longest=48,
    least=2,
    most=6,
    finish=_finish,
    refer=_refer,
    liked=(" a", " b", " c", " d"),
)


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    """LoadGen and TEST07 ask for answers to as many questions as are published: here the same few again and again."""
    rows = write_prompts_and_network(MADE, data, models, count=2 * count, seed=seed, size=size, counter=counter)
    _write(data, PUBLISHED, list(islice(cycle(rows[:count]), PUBLISHED.samples)))
    _write(data, PERFORMED, [{"input_tokens": row["input_tokens"]} for row in rows[count:]])
    _write(data, COMPLIANCE, list(islice(cycle(rows), COMPLIANCE.samples)))


def _write(data: Path, published: PromptSet, rows: Sequence[Row]) -> None:
    """In the older of the two formats, which needs no library."""
    file = next(name for name in published.files if name.endswith(".pkl"))
    (data / published.within).mkdir(exist_ok=True)
    write_frame(data / published.within / file, {name: [row[name] for row in rows] for name in rows[0]})
