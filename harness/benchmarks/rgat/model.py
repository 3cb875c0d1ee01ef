"""The model: a program as it is, or the reference's checkpoint, written as one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.benchmarks import copy_model
from harness.contract import Counter

CHECKPOINT = ".pt"  # the reference's; a program of torch.export ends in .pt2


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """model.pt2: nothing else carries inputs that have lengths of their own. ``settings``: none of this benchmark."""
    if source is None or source.suffix != CHECKPOINT:
        copy_model(source, settings, inputs, output, counter)
        return
    from harness.benchmarks.rgat.checkpoint import read_checkpoint
    from harness.benchmarks.rgat.network import write_program

    write_program(read_checkpoint(source), output, counter)
