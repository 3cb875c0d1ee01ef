"""LoadGen's accuracy log as arrays, and the score of a classifier."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from harness.errors import HarnessError


@dataclass(frozen=True, slots=True)
class AnswerLog:
    """The first answer to each sample, in the order of the sample indices.

    ``duplicates``: further answers (MultiStream pads its last query); ``contradictions``: duplicates whose bytes differ
    from the first answer's.
    """

    indices: NDArray[np.intp]
    data: tuple[bytes, ...]
    duplicates: int
    contradictions: int

    def array(self, dtype: DTypeLike) -> np.ndarray:
        """Return [samples, values]. Raises HarnessError if the answers differ in size."""
        if len({len(item) for item in self.data}) != 1 or len(self.data[0]) % np.dtype(dtype).itemsize:
            problem = "the responses in the accuracy log are not all the same size, or not of the benchmark's dtype"
            fix = "run accuracy again; check postprocess() and RESPONSE_DTYPE of the benchmark"
            raise HarnessError(problem, "input", fix)
        return np.frombuffer(b"".join(self.data), dtype).reshape(len(self.data), -1)


def read_accuracy_log(path: Path) -> AnswerLog:
    """Read the log. Raises HarnessError if it is truncated, empty, or not LoadGen's."""
    try:
        entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="ascii"))
        answers = [(int(entry["qsl_idx"]), bytes.fromhex(entry["data"])) for entry in entries]
        np.array([index for index, _ in answers], np.intp)
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        problem = f"{path.name} is not a complete accuracy log: {error}"
        raise HarnessError(problem, "input", "run accuracy again") from error
    if not answers:
        raise HarnessError(
            f"{path.name} contains no answers", "input", "run accuracy again, if it was a performance run"
        )
    first: dict[int, bytes] = {}
    contradictions = 0
    for index, data in answers:
        contradictions += first.setdefault(index, data) != data
    indices = sorted(first)
    return AnswerLog(
        np.array(indices, np.intp), tuple(first[index] for index in indices), len(answers) - len(first), contradictions
    )


def write_top1(log: AnswerLog, dtype: DTypeLike, labels: np.ndarray, output: Path) -> dict[str, Any]:
    """Write the top-1 accuracy of one class per sample, or of the highest of several scores, as the submission checker
    reads it.

    The line has the form of vision/classification_and_detection/tools/accuracy-imagenet.py of mlcommons/inference.
    """
    answers = log.array(dtype)
    classes = answers[:, 0] if answers.shape[1] == 1 else answers.argmax(axis=1)
    good, total = int((classes == labels[log.indices]).sum()), len(classes)
    accuracy = round(100 * good / total, 3)
    (output / "accuracy.txt").write_text(f"accuracy={accuracy:.3f}%, good={good}, total={total}\n", encoding="ascii")
    return {"accuracy": accuracy, "good": good, "total": total}


def write_scores(scores: dict[str, Any], output: Path) -> dict[str, Any]:
    """Write accuracy.txt in the format of the official language scripts; return the scores under the rounds' names."""
    (output / "accuracy.txt").write_text(f"\nResults\n\n{scores}\n", encoding="ascii")
    return scores
