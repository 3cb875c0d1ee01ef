"""The reference's checkpoint: weights that PyTorch saved while it trained."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.benchmarks.rnnt.network import Weights
from harness.errors import HarnessError

_UNUSED = "audio_preprocessor."  # what features are computed with
_FIX = "`reconcile fetch rnnt` brings the reference's checkpoint"
_ZIPPED, _PICKLED = b"PK\x03\x04", b"\x80"  # how files begin that PyTorch saves since 1.6, and that it saved before


def read_weights(path: Path) -> Weights:
    """Raises HarnessError that says whether the file is cut off, not PyTorch's, or holds something else."""
    state = _find_state(path, _load(path))
    found = {name: tensor.float().numpy() for name, tensor in state.items() if not name.startswith(_UNUSED)}
    return {name.replace("joint_net", "joint.net"): np.ascontiguousarray(array) for name, array in found.items()}


def _load(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, ValueError, LookupError, pickle.UnpicklingError) as error:
        raise HarnessError(f"{path} {_explain(path, error)}", "input", _FIX) from error


def _explain(path: Path, error: Exception) -> str:
    """What is wrong with a file that PyTorch does not load."""
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    with path.open("rb") as stream:
        begins = stream.read(len(_ZIPPED))
    if not begins:
        return "is empty"
    cut = isinstance(error, EOFError) or "EOF" in str(error)
    if cut or (begins == _ZIPPED and not zipfile.is_zipfile(path)):
        return "is cut off"
    if begins != _ZIPPED and not begins.startswith(_PICKLED):
        return "is not a file that PyTorch saved"
    told = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return f"holds what is not loaded as weights: {told}"


def _find_state(path: Path, document: Any) -> dict[str, torch.Tensor]:
    state = document.get("state_dict") if isinstance(document, dict) else None
    if isinstance(state, dict) and state and all(isinstance(item, torch.Tensor) for item in state.values()):
        return state
    if not isinstance(document, dict):
        told = f"a {type(document).__name__}"
    elif state is None:
        told = f"{', '.join(sorted(map(str, document))[:5]) or 'nothing'}, and no state_dict"
    else:
        told = "a state_dict that is not one of tensors"
    raise HarnessError(f"{path} is not a checkpoint of RNN-T: it holds {told}", "input", _FIX)
