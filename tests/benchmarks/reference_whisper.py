"""Compare Whisper's word error rate with the reference script's.

    python -m tests.benchmarks.reference_whisper CHECKOUT PYTHON

CHECKOUT is one of mlcommons/inference with the folder speech2text; PYTHON has openai-whisper. Sounds are a rehearsal's;
answers are its network's own, the first half of them, English words with few errors, and random letters. Prints both
figures. Exits with 1 if they differ.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from harness.benchmarks import whisper
from harness.benchmarks.accuracy import read_accuracy_log
from harness.contract import Counter
from tests.benchmarks.comparing import rehearse

COUNT = 12
_TEXT = (
    "the he said it's won't colour color two hundred and twenty one dollars five per cent percent mister "
    "mr somebody some body never the less nevertheless going gonna to double oh seven first half past "
    "o'clock i'll have been uh hmm okay minus three point four thousand theatre grey gray 7 $20 12% st "
    "doctor dr "
)
WORDS = tuple(_TEXT.split())


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout", type=Path)
    parser.add_argument("python", type=Path)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        return 1 if compare(asked, Path(folder)) else 0


def compare(asked: argparse.Namespace, folder: Path) -> int:
    """Return the number of figures that differ."""
    rehearse(folder, "whisper", count=COUNT)
    data, dataset = folder / "data", folder / "dataset"
    wrong = 0
    for kind, said, answers in draw_answers(data):
        speak(data, said)
        for file in dataset.iterdir():
            file.unlink()
        whisper.BENCHMARK.build_dataset(data, {}, dataset, Counter(folder / "counter"))
        log = folder / "mlperf_log_accuracy.json"
        write_log(log, answers)
        whisper.BENCHMARK.score(read_accuracy_log(log), dataset, folder)
        ours, theirs = (folder / "accuracy.txt").read_text().strip(), ask_script(asked, folder, data)
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


def write_log(path: Path, answers: Sequence[str]) -> None:
    entries = [
        {"seq_id": number, "qsl_idx": number, "data": whisper.write_text(answer).tobytes().hex().upper()}
        for number, answer in enumerate(answers)
    ]
    path.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]\n")


def ask_script(asked: argparse.Namespace, folder: Path, data: Path) -> str:
    """Return the line that the script prints."""
    script = asked.checkout / "speech2text/accuracy_eval.py"
    options = ["--log_dir", str(folder), "--dataset_dir", str(data), "--manifest", str(data / whisper.MANIFEST)]
    command = [str(asked.python), str(script), *options, "--output_dtype", "int64"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{script} ended with {ended.returncode}:\n{ended.stderr[-2000:]}")
    return next(line for line in ended.stdout.splitlines() if line.startswith("Word Error Rate"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
