"""A benchmark that a harness command runs. Model and data are used unchanged, and nothing is prepared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.benchmarks import BenchmarkCode, note_source
from harness.contract import Counter


class CommandBenchmark(BenchmarkCode):
    """A benchmark whose runs are executed only by the command."""

    def build_dataset(
        self, source: Path | None, _settings: Mapping[str, Any], output: Path, _counter: Counter, /
    ) -> None:
        note_source(source, output)


BENCHMARK = CommandBenchmark()
