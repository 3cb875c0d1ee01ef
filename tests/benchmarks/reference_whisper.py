"""Compare Whisper's word error rate with the reference script's.

    python -m tests.benchmarks.reference_whisper CHECKOUT PYTHON

CHECKOUT is one of mlcommons/inference with the folder speech2text; PYTHON has openai-whisper. Sounds are a rehearsal's;
answers are its network's own, the first half of them, English words with few errors, and random letters. Prints both
figures. Exits with 1 if they differ.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from harness.benchmarks import whisper
from harness.benchmarks.accuracy import read_accuracy_log
from harness.contract import Counter
from tests.benchmarks.comparing import rehearse, run_script, write_log

COUNT = 12
_TEXT = (
    "the he said it's won't colour color two hundred and twenty one dollars five per cent percent mister "
    "mr somebody some body never the less nevertheless going gonna to double oh seven first half past "
    "o'clock i'll have been uh hmm okay minus three point four thousand theatre grey gray 7 $20 12% st "
    "doctor dr "
)
WORDS = tuple(_TEXT.split())


def main(checkout: Path, python: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        return 1 if compare([python, checkout / "speech2text/accuracy_eval.py"], Path(folder)) else 0


def compare(script: list[Path], folder: Path) -> int:
    """Return the number of figures that differ."""
    rehearse(folder, "whisper", count=COUNT)
    data, dataset = folder / "data", folder / "dataset"
    wrong = 0
    for kind, said, answers in draw_answers(data):
        speak(data, said)
        for file in dataset.iterdir():
            file.unlink()
        whisper.BENCHMARK.build_dataset(data, {}, dataset, Counter(folder / "counter"))
        log = write_log(folder, map(whisper.write_text, answers))
        whisper.BENCHMARK.score(read_accuracy_log(log), dataset, folder)
        options = ["--log_dir", folder, "--dataset_dir", data, "--manifest", data / whisper.MANIFEST]
        printed = run_script([*script, *options, "--output_dtype", "int64"]).stdout.splitlines()
        theirs = next(line for line in printed if line.startswith("Word Error Rate"))
        ours = (folder / "accuracy.txt").read_text().strip()
        wrong += ours != theirs
        print(f"{kind}\n  official: {theirs}\n  here:     {ours}{'' if ours == theirs else '  DIFFERS'}")
    return wrong


def draw_answers(data: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield the kind of answers, the spoken text of each utterance, and its transcript."""
    said = [entry["transcript"] for entry in json.loads((data / whisper.MANIFEST).read_text())]
    rng = np.random.default_rng(5)
    drawn = ["".join(rng.choice(list(whisper.LETTERS), int(rng.integers(2, 60)))) for _ in said]
    yield "right", said, said
    yield "half", said, [*said[: COUNT // 2], *drawn[COUNT // 2 :]]
    yield "random", said, drawn
    for number in range(4):
        english = [[str(word) for word in rng.choice(WORDS, int(rng.integers(3, 40)))] for _ in said]
        received = [[change(word, rng) for word in words] for words in english]
        yield f"English {number}", [" ".join(words) for words in english], [" ".join(words) for words in received]


def change(word: str, rng: np.random.Generator) -> str:
    """Replace, omit or join words now and then."""
    kind = int(rng.integers(0, 12))
    return {0: str(rng.choice(WORDS)), 1: "", 2: f"{word}{rng.choice(WORDS)}"}.get(kind, word)


def speak(data: Path, said: Sequence[str]) -> None:
    entries = json.loads((data / whisper.MANIFEST).read_text())
    for entry, text in zip(entries, said, strict=True):
        entry["transcript"] = text
    (data / whisper.MANIFEST).write_text(json.dumps(entries))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
