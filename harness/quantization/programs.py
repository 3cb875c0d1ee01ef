"""Quantize torch.export programs for packed samples: matrix products in fp8 with calibrated ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.backends.pytorch.packages import find_version, list_inputs
from harness.backends.pytorch.packed_lowering import (
    RangeRecorder,
    is_packed,
    lower_program,
    open_program,
    quantize_linears,
)
from harness.contract import Counter
from harness.errors import HarnessError
from harness.quantization.calibrating import digest_samples, write_document
from harness.quantization.comparing import compute_ratio
from harness.quantization.settings import read_count
from harness.run.packing import BOUNDS, PackedSamples, Packing, make_memory
from harness.run.qsl import Arrays, Rows, count_rows

PRECISION, METHOD = "fp8", "max"
_AT_ONCE = 8  # samples per batch


def quantize_program(
    path: Path, settings: Mapping[str, Any], samples: Arrays, packing: Packing | None, counter: Counter, *, compare: int
) -> dict[str, Any]:
    """Rewrite the program in place in fp8; return the facts for the record. ``samples``: the calibration samples, in
    the order of the benchmark's list. ``compare``: how many samples both programs compute."""
    program = torch.export.load(path)
    if packing is None or not is_packed(program):
        problem = f"{path.name} takes padded samples, but model.settings.precision supports only packed samples"
        raise HarnessError(problem, "input", "remove it, and set engine.precision")
    samples = choose_samples(settings, samples)
    count = len(next(iter(samples.values())))
    counter.stage("building", count)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    module = open_program(program).to(device)
    batches = PackedBatches(program, packing, samples, device)
    recorder = RangeRecorder(module)
    exact: list[list[np.ndarray]] = []
    for rows in batches.list_rows(count):
        answers = batches.compute(recorder.run, rows)
        if rows.start < compare:
            exact.append(answers)
        counter.bump(count_rows(rows))
    changed = quantize_linears(module, recorder.most)
    module.to("cpu")
    _save(module, program, path)
    made = describe_ranges(samples, changed)
    if compare:
        lowered = lower_program(open_program(torch.export.load(path)), PRECISION, device)
        found = [batches.compute(lowered, rows) for rows in batches.list_rows(count) if rows.start < compare]
        made["comparison"] = _compare(exact, found)
    return {**made, "document": write_document(made)}


def choose_samples(settings: Mapping[str, Any], samples: Arrays) -> Arrays:
    """Choose the calibration samples. Raises HarnessError if ``settings`` are not supported for programs, or there are
    no samples."""
    asked = str(settings.get("precision", "fp32"))
    method = str(settings.get("calibration_method", METHOD))
    if asked != PRECISION or method != METHOD:
        problem = f"programs cannot be quantized to {asked} by {method}"
        raise HarnessError(problem, "input", f"use precision {PRECISION} and {METHOD}")
    if not samples:
        raise HarnessError("the dataset has no calibration samples", "missing", "write load_calibration()")
    available = len(next(iter(samples.values())))
    count = read_count(settings, "calibration_count") or available
    if count > available:
        raise HarnessError(f"calibration_count {count}, the list has {available}", "input", "lower it")
    return {name: np.ascontiguousarray(array[:count]) for name, array in samples.items()}


def describe_ranges(samples: Arrays, tensors: int) -> dict[str, Any]:
    """Describe for a record the ranges measured on ``samples``."""
    return {
        "precision": PRECISION,
        "method": METHOD,
        "samples": len(next(iter(samples.values()))),
        "samples_sha256": digest_samples(samples),
        "tensors": tensors,
        "residual_sums": 0,
        "input_scales": {},
        "tool": f"PyTorch {find_version()}",
    }


class PackedBatches:
    """Runs samples through a program in small batches."""

    def __init__(self, program: torch.export.ExportedProgram, packing: Packing, samples: Arrays, device: str) -> None:
        self._samples, self._device = PackedSamples(packing, samples), device
        inputs = {name: str(value.dtype).removeprefix("torch.") for name, value in list_inputs(program).items()}
        self._memory = make_memory(inputs, _AT_ONCE, _AT_ONCE * packing.longest)

    def list_rows(self, count: int) -> list[slice]:
        return [slice(first, min(first + _AT_ONCE, count)) for first in range(0, count, _AT_ONCE)]

    def compute(self, run: Any, rows: Rows) -> list[np.ndarray]:
        count, tokens = self._samples.pack(rows, self._memory)
        heads = {name: array[: count + 1 if name == BOUNDS else tokens] for name, array in self._memory.items()}
        with torch.no_grad():
            answers = run(*(torch.from_numpy(array).to(self._device) for array in heads.values()))
        return [answer.float().cpu().numpy() for answer in answers]


def _save(module: torch.fx.GraphModule, program: torch.export.ExportedProgram, path: Path) -> None:
    """Save the program with the axes that were free before."""
    inputs = list_inputs(program)
    given = tuple(torch.zeros(3 if name == BOUNDS else 8, dtype=value.dtype) for name, value in inputs.items())
    tokens, samples = torch.export.Dim("tokens", min=2, max=1 << 24), torch.export.Dim("samples", min=2, max=1 << 20)
    axes = {name: {0: samples if name == BOUNDS else tokens} for name in inputs}
    with torch.no_grad():
        torch.export.save(torch.export.export(module, given, dynamic_shapes=axes), path)


def _compare(exact: Sequence[Sequence[np.ndarray]], found: Sequence[Sequence[np.ndarray]]) -> dict[str, Any]:
    pairs = [
        tuple(np.concatenate([batch[number] for batch in answers]) for answers in (exact, found))
        for number in range(len(exact[0]))
    ]
    return {"signal_to_noise_db": [round(compute_ratio(*pair), 2) for pair in pairs]}
