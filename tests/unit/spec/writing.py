"""Specs for tests: a small valid one, and ways to load texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import Problem, SpecError
from reconciler.spec.declared import Declared
from reconciler.spec.files import Source, compute_blob_id
from reconciler.spec.loading import load, load_sources

HEADER = "apiVersion: mlperf-reconciler/v1\nkind: Submission\n"


def give_head(text: str) -> str:
    """A spec of round v6.1 with these sections."""
    return f"{HEADER}metadata: {{name: acme}}\nspec:\n  round: v6.1\n  submitter: ACME\n{text}"


VALID = give_head("""\
  defaults:
    short: {min_duration: 0}
    quick: {use: [short], attempts: 2}
  systems:
    box: {category: edge, status: available}
  benchmarks:
    digits:
      as: resnet
      engine: {backend: onnxruntime, batch_size: 1}
  divisions:
    open:
      box:
        digits:
          Offline: {target_qps: 54}
""")
OWN = """\
apiVersion: mlperf-reconciler/v1
kind: Adapter
metadata: {name: ours}
adapter:
  source: our lab
  settings: {harness: {command: [python, "{script}", "{run_dir}", "{user_conf}"], timeout: 2 h}}
  benchmarks:
    llama3.1-8b: {words: {script: run.py}, settings: {harness: {score: {command: [python, score.py]}}}}
  unsupported: {whisper: no engine of it}
"""


def declare(text: str) -> Declared:
    """What a text declares that is in no file."""
    return load_sources([Source("a.yaml", text, compute_blob_id(text.encode()))], Path(), {})


def write(folder: Path, **texts: str) -> list[Path]:
    """One file per text, named after its argument."""
    paths = []
    for name, text in texts.items():
        path = folder / f"{name}.yaml"
        path.write_bytes(text.encode())
        paths.append(path)
    return paths


def load_texts(folder: Path, environment: Mapping[str, str] | None = None, **texts: str) -> Declared:
    return load(write(folder, **texts), folder, environment or {})


def catch_problems(function: Callable[..., object], *given: Any, **named: Any) -> list[Problem]:
    """What a call that reads or checks a spec ends with."""
    with pytest.raises(SpecError) as caught:
        function(*given, **named)
    return list(caught.value.problems)


def problems_in(folder: Path, environment: Mapping[str, str] | None = None, **texts: str) -> list[Problem]:
    return catch_problems(load_texts, folder, environment, **texts)


def replaced(old: str, new: str) -> str:
    """VALID with one part replaced."""
    assert VALID.count(old) == 1
    return VALID.replace(old, new)
