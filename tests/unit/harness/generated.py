"""What a rehearsal generates of a benchmark, with the mark that it is generated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.benchmarks.sources import REHEARSAL
from harness.contract import Counter


def generate(factory: pytest.TempPathFactory, name: str, write: Callable[..., Any], count: int) -> Path:
    """A folder with data/ and models/."""
    folder = factory.mktemp(name)
    data, models = folder / "data", folder / "models"
    data.mkdir()
    models.mkdir()
    write(data, models, count=count, seed=1, size="small", counter=Counter(folder / "counter"))
    (data / REHEARSAL).write_text("{}")
    return folder
