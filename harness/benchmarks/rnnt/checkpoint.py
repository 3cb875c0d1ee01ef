"""The reference's checkpoint: weights that PyTorch saved while it trained."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import torch

from harness.benchmarks.rnnt.network import Weights
from harness.errors import HarnessError

_UNUSED = "audio_preprocessor."  # what features are computed with
_FIX = "`reconcile fetch rnnt` brings the reference's checkpoint"


def read_weights(path: Path) -> Weights:
    """Raises HarnessError where the file is cut off or holds something else."""
    try:
        document = torch.load(path, map_location="cpu", weights_only=True)
        state = document["state_dict"]
        found = {name: tensor.float().numpy() for name, tensor in state.items() if not name.startswith(_UNUSED)}
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError, KeyError, TypeError, AttributeError) as error:
        raise HarnessError(f"{path} is cut off, or not a checkpoint of RNN-T: {error}", "input", _FIX) from error
    return {name.replace("joint_net", "joint.net"): np.ascontiguousarray(array) for name, array in found.items()}
