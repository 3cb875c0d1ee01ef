"""What a rehearsal generates of a benchmark, with the mark that it is generated."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.benchmarks.sources import REHEARSAL
from harness.contract import Counter
from reconciler.rules.benchmark_facts import load_benchmark_facts

# What all language benchmarks learn of the same texts, which takes longer than all that they generate.
_OF_LANGUAGE = "harness.benchmarks.language.rehearsing"
_LEARNING = ("learn_tokenizer", "learn_sentences")
_learned: dict[tuple[object, ...], Any] = {}


def generate(factory: pytest.TempPathFactory, name: str, write: Callable[..., Any], count: int) -> Path:
    """A folder with data/ and models/."""
    folder = factory.mktemp(name)
    data, models = folder / "data", folder / "models"
    data.mkdir()
    models.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        if module := sys.modules.get(_OF_LANGUAGE):
            for learning in _LEARNING:
                patch.setattr(module, learning, learn_once(getattr(module, learning)))
        write(data, models, count=count, seed=1, size="small", counter=Counter(folder / "counter"))
    facts = load_benchmark_facts().get(name)
    if facts is not None and facts.rehearsal is not None:
        assert (models / (facts.rehearsal.model or facts.model.file)).exists(), "the spec of a rehearsal names it"
    (data / REHEARSAL).write_text("{}")
    return folder


def learn_once(learn: Callable[..., Any]) -> Callable[..., Any]:
    def find(texts: Sequence[str], *more: object) -> Any:
        key = (learn.__name__, tuple(texts), *more)
        if key not in _learned:
            _learned[key] = learn(texts, *more)
        return _learned[key]

    return find
