"""The reference's checkpoint: weights saved by PyTorch during training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.benchmarks.rnnt.network import Weights
from harness.benchmarks.saved_tensors import load_saved
from harness.errors import HarnessError

_UNUSED = "audio_preprocessor."  # parts that compute features
_FIX = "`reconcile fetch rnnt` brings the reference's checkpoint"


def read_weights(path: Path) -> Weights:
    """Read the weights. Raises HarnessError that says whether the file is truncated, not PyTorch's, or contains
    something else."""
    state = _find_state(path, load_saved(path, _FIX))
    found = {name: tensor.float().numpy() for name, tensor in state.items() if not name.startswith(_UNUSED)}
    return {name.replace("joint_net", "joint.net"): np.ascontiguousarray(array) for name, array in found.items()}


def _find_state(path: Path, document: Any) -> dict[str, torch.Tensor]:
    state = document.get("state_dict") if isinstance(document, dict) else None
    if isinstance(state, dict) and state and all(isinstance(item, torch.Tensor) for item in state.values()):
        return state
    if not isinstance(document, dict):
        message = f"a {type(document).__name__}"
    elif state is None:
        message = f"{', '.join(sorted(map(str, document))[:5]) or 'nothing'}, and no state_dict"
    else:
        message = "a state_dict that is not one of tensors"
    raise HarnessError(f"{path} is not a checkpoint of RNN-T: it holds {message}", "input", _FIX)
