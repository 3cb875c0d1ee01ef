"""R-GAT on IGB-Heterogeneous: the class of a paper, one of 2,983, by its neighbours. Drawing neighbours is part of a
run, as in the reference."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.benchmarks import TensorBenchmark, copy_model
from harness.benchmarks.rgat.blocks import OUTPUTS, Blocks, load_samples, postprocess
from harness.benchmarks.rgat.igbh import build_dataset
from harness.contract import Counter

CHECKPOINT = ".pt"  # suffix of the reference's checkpoint; a torch.export program ends in .pt2


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """Write model.pt2, the only format in which each input can have its own length. This benchmark has no
    ``settings``."""
    if source is None or source.suffix != CHECKPOINT:
        copy_model(source, settings, inputs, output, counter)
        return
    from harness.benchmarks.rgat.network import read_checkpoint, write_program

    write_program(read_checkpoint(source), output, counter)


class Rgat(TensorBenchmark):
    outputs = OUTPUTS
    # The official script reads the first number of a response in the type that its option names. These bytes are the
    # class even if they are read as int32.
    response_dtype = "int64"
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_samples = staticmethod(load_samples)
    load_collate = staticmethod(Blocks)
    postprocess = staticmethod(postprocess)


BENCHMARK = Rgat()
