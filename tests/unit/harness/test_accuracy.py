"""Reading LoadGen's accuracy log, and the score of a classifier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.benchmarks.accuracy import read_accuracy_log, write_top1
from harness.errors import HarnessError


def write_log(folder: Path, answers: list[tuple[int, bytes]]) -> Path:
    entries: list[dict[str, Any]] = [
        {"seq_id": number, "qsl_idx": index, "data": data.hex().upper()} for number, (index, data) in enumerate(answers)
    ]
    path = folder / "mlperf_log_accuracy.json"
    path.write_text(json.dumps(entries), encoding="ascii")
    return path


def test_first_answer_counts_and_order_is_by_sample(tmp_path: Path) -> None:
    log = read_accuracy_log(
        write_log(tmp_path, [(2, b"\2\0\0\0"), (0, b"\1\0\0\0"), (2, b"\2\0\0\0"), (0, b"\3\0\0\0")])
    )
    assert log.indices.tolist() == [0, 2]
    assert log.array(np.int32).tolist() == [[1], [2]]
    assert (log.duplicates, log.contradictions) == (2, 1)


def test_top1_of_classes_and_of_scores(tmp_path: Path) -> None:
    labels = np.array([1, 0, 2])
    classes = read_accuracy_log(write_log(tmp_path, [(i, np.int32(v).tobytes()) for i, v in enumerate([1, 1, 2])]))
    assert write_top1(classes, np.int32, labels, tmp_path) == {"accuracy": 66.667, "good": 2, "total": 3}
    assert (tmp_path / "accuracy.txt").read_text(encoding="ascii") == "accuracy=66.667%, good=2, total=3\n"
    scores = [(i, np.eye(3, dtype=np.float32)[v].tobytes()) for i, v in enumerate([1, 0, 2])]
    log = read_accuracy_log(write_log(tmp_path, scores))
    assert write_top1(log, np.float32, labels, tmp_path)["accuracy"] == 100.0


@pytest.mark.parametrize("content", ["", "[", "[]", '[{"qsl_idx": 1}]', '[{"qsl_idx": 1, "data": "xy"}]', "3"])
def test_log_that_is_not_whole_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "mlperf_log_accuracy.json"
    path.write_text(content, encoding="ascii")
    with pytest.raises(HarnessError):
        read_accuracy_log(path)
