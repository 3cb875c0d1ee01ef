"""The model: a folder with its three parts as ONNX, or the reference's checkpoint, written so."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.benchmarks.rnnt.transcribing import PARTS
from harness.contract import Counter
from harness.errors import HarnessError

MODEL = "model.onnx"
_FIX = "name the reference's checkpoint (.pt) as model.path, or a folder with what was made of it"


def build_model(
    source: Path | None, _settings: Mapping[str, Any], _inputs: Mapping[str, Path], output: Path, _counter: Counter
) -> None:
    """encoder/model.onnx, prediction/model.onnx and joint/model.onnx. A checkpoint needs PyTorch to be read."""
    if source is None:
        raise HarnessError("no model is declared", "input", _FIX)
    if source.is_dir():
        missing = [part for part in PARTS if not (source / part / MODEL).is_file()]
        if missing:
            raise HarnessError(f"{source} has no {missing[0]}/{MODEL}", "missing", _FIX)
        for part in PARTS:
            (output / part).mkdir()
            shutil.copyfile(source / part / MODEL, output / part / MODEL)
        return
    from harness.benchmarks.rnnt.checkpoint import read_weights
    from harness.benchmarks.rnnt.network import write_parts

    weights = read_weights(source)
    try:
        write_parts(weights, output)
    except KeyError as error:
        raise HarnessError(f"{source} holds no {error.args[0]}", "input", _FIX) from error
