"""Read the reference's checkpoint: weights saved by PyTorch during training."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.benchmarks.rnnt.network import Weights
from harness.benchmarks.saved_tensors import load_state

_UNUSED = "audio_preprocessor."  # parts that compute features
_FIX = "`reconcile fetch rnnt` downloads the reference's checkpoint"


def read_weights(path: Path) -> Weights:
    """Read the weights. Raises HarnessError if the file is truncated, not PyTorch's, or has another content."""
    state = load_state(path, "RNN-T", _FIX)
    found = {name: tensor.float().numpy() for name, tensor in state.items() if not name.startswith(_UNUSED)}
    return {name.replace("joint_net", "joint.net"): np.ascontiguousarray(array) for name, array in found.items()}
