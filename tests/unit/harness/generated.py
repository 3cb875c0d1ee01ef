"""What a rehearsal generates of a benchmark, with the mark that it is generated: once in a session."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from harness.benchmarks import load_rehearsal
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Counter
from reconciler.rules.benchmark_facts import load_benchmark_facts
from tests.shared import make_once

# What all language benchmarks learn of the same texts, which takes longer than all that they generate.
_OF_LANGUAGE = "harness.benchmarks.language.rehearsing"
_LEARNING = ("learn_tokenizer", "learn_sentences")


def generate(factory: pytest.TempPathFactory, name: str, count: int) -> Path:
    """A folder with data/ and models/ of a benchmark, which the caller may change."""

    def write(folder: Path) -> Path:
        data, models = folder / "data", folder / "models"
        data.mkdir()
        models.mkdir()
        rehearse = load_rehearsal(name)
        with pytest.MonkeyPatch.context() as patch:
            if module := sys.modules.get(_OF_LANGUAGE):
                for learning in _LEARNING:
                    patch.setattr(module, learning, learn_once(factory, getattr(module, learning)))
            rehearse(data, models, count=count, seed=1, size="small", counter=Counter(folder / "counter"))
        facts = load_benchmark_facts().get(name)
        if facts is not None and facts.rehearsal is not None:
            assert (models / (facts.rehearsal.model or facts.model.file)).exists(), "the spec of a rehearsal names it"
        (data / REHEARSAL).write_text("{}")
        return folder

    made = make_once(factory, f"generated-{name}-{count}", write)
    return shutil.copytree(made, factory.mktemp(name), dirs_exist_ok=True)


def build_dataset(benchmark: Any, source: Path, **settings: object) -> Path:
    """Prepare a source with a benchmark, or a module that has its function, in a folder next to it."""
    output = source.parent / "dataset"
    output.mkdir()
    benchmark.build_dataset(source, settings, output, Counter(source.parent / "counter"))
    return output


def learn_once(factory: pytest.TempPathFactory, learn: Callable[..., Any]) -> Callable[..., Any]:
    def find(texts: Sequence[str], *more: object) -> Any:
        key = sha256(repr((list(texts), more)).encode()).hexdigest()[:16]
        return make_once(factory, f"{learn.__name__}-{key}", lambda _: learn(texts, *more))

    return find
