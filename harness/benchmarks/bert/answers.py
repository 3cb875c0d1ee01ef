"""Bytes of a response: for each of the 384 tokens how likely an answer starts and how likely it ends there."""

from __future__ import annotations

import numpy as np

from harness.backends import Outputs
from harness.benchmarks.bert.windows import LENGTH
from harness.errors import HarnessError
from harness.run.packing import Packing

OUTPUTS = {"output_start_logits": ((LENGTH,), "float32"), "output_end_logits": ((LENGTH,), "float32")}
RESPONSE_DTYPE = "float32"
PACKING = Packing("input_mask", ("input_ids", "segment_ids"), LENGTH, fill=-10000.0)  # as the reference hides padding


def postprocess(outputs: Outputs) -> np.ndarray:
    """Start and end logits, each [n, 384], or both as [n, 384, 2] -> float32 [n, 384, 2], which the official script
    reads."""
    if len(outputs) == 2:
        both = np.stack([np.asarray(output).reshape(len(output), -1) for output in outputs], axis=-1)
    else:
        both = np.asarray(outputs[0])
    if both.shape[1:] != (LENGTH, 2):
        raise HarnessError(
            f"the model gives {list(both.shape[1:])} for a sample, not start and end logits of {LENGTH} tokens",
            "input",
            "use the reference's BERT, or one with its outputs",
        )
    return both.astype(np.float32, copy=False)
