"""Benchmark whose code is a harness command: model and data are used as they are, nothing is prepared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.child.digests import hash_file, hash_folder
from harness.contract import SOURCE_NOTE, Counter


def note_source(source: Path | None, output: Path) -> dict[str, Any]:
    """Note the source at the time of the command's first run, without its path: paths differ from machine to
    machine."""
    digest = "" if source is None else hash_folder(source) if source.is_dir() else hash_file(source)
    (output / SOURCE_NOTE).write_text(json.dumps({"sha256": digest}) + "\n", encoding="utf-8")
    return {"source": digest, "marks": []}


def build_dataset(source: Path | None, _settings: Mapping[str, Any], output: Path, _counter: Counter) -> None:
    """Makes this module a benchmark like the others; a run of it is the command's alone."""
    note_source(source, output)
