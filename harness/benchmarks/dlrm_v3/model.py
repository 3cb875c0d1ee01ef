"""The model: the reference's checkpoint, whose tables stay where they are, and whose network becomes a program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks import copy_model
from harness.benchmarks.dlrm_v3.checkpoint import DENSE, FIX, SPARSE, open_table, read_shapes
from harness.benchmarks.dlrm_v3.layers import CATEGORIES, USER_WEIGHT, find_shape, list_weights
from harness.contract import Counter
from harness.errors import HarnessError


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    if source is None or not source.is_dir():
        copy_model(source, settings, inputs, output, counter)
        return
    missing = [name for name in (SPARSE, DENSE) if not (source / name).exists()]
    if missing:
        raise HarnessError(f"{source} holds no {', no '.join(missing)}", "missing", FIX)
    tables = read_shapes(source)

    import torch

    from harness.benchmarks.dlrm_v3.network import write_program
    from harness.benchmarks.saved_tensors import load_saved

    counter.stage("building", 1)
    saved = load_saved(source / DENSE, FIX)
    dense = saved.get("dense_dict", {}) if isinstance(saved, dict) else {}
    sizes = {name: tuple(tensor.shape) for name, tensor in dense.items() if isinstance(tensor, torch.Tensor)}
    try:
        shape = find_shape(sizes)
        for name, wanted in list_weights(shape).items():
            if sizes[name] != wanted:
                message = f"{name} of the checkpoint is {list(sizes[name])}, by the others it should be {list(wanted)}"
                raise HarnessError(message, "input", FIX)
    except KeyError as error:
        raise HarnessError(f"{source / DENSE} holds no weight {error.args[0]}", "input", FIX) from error
    if {table.size[1] for table in tables.values()} != {shape.embedding}:
        widths = ", ".join(f"{name} {table.size[1]}" for name, table in tables.items())
        message = f"rows of the tables have {widths} values, {USER_WEIGHT} takes {shape.embedding}"
        raise HarnessError(message, "input", FIX)
    rows = np.arange(tables[CATEGORIES].size[0])
    categories = torch.from_numpy(open_table(source, CATEGORIES, tables[CATEGORIES]).take(rows))
    weights = {name: dense[name] for name in list_weights(shape)}
    write_program(weights, categories, shape, output)
    counter.bump(1)
