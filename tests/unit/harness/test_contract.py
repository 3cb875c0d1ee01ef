"""Requests and results survive the way through a file; a half-written one is never read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.contract import (
    Benchmark,
    BuildRequest,
    Counter,
    Fact,
    FileMessage,
    ProbeRequest,
    Result,
    RunRequest,
    ScoreRequest,
    read_progress,
)

BENCHMARK = Benchmark(name="mine", path="/a/mine.py")
MESSAGES: list[FileMessage] = [
    BuildRequest(kind="Engine", benchmark=BENCHMARK, output="o", counter="c", settings={"a": [1, {"b": None}]}),
    RunRequest(
        benchmark=replace(BENCHMARK, path=None),
        backend="null",
        scenario="Server",
        mode="accuracy",
        model_key="resnet50",
        user_conf="u",
        log_dir="l",
        counter="c",
    ),
    ScoreRequest(benchmark=BENCHMARK, accuracy_log="a", output="o", counter="c", inputs={"dataset": "d"}),
    ProbeRequest(seeds=True),
    Result(done=True, seconds=1.5, values={"x": 1}, facts={"f": Fact(value=[1, 2], role="note")}),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_message_survives_its_file(message: FileMessage, tmp_path: Path) -> None:
    path = tmp_path / "message.json"
    message.write(path)
    assert type(message).read(path) == message
    assert list(tmp_path.iterdir()) == [path]


def test_counter_is_read_by_another_process_view(tmp_path: Path) -> None:
    path = tmp_path / "counter"
    assert read_progress(path) is None
    counter = Counter(path)
    counter.stage("running", 10)
    counter.bump(3)
    counter.bump(4)
    progress = read_progress(path)
    assert progress is not None
    assert (progress.stage, progress.done, progress.expected) == ("running", 7, 10)
    assert 0 <= progress.idle <= progress.seconds
    counter.close()
    path.write_bytes(b"short")
    assert read_progress(path) is None
