"""Latents that PyTorch saved, as the reference publishes them beside those of NumPy.

A file of PyTorch's is a pickle: it is read as weights alone.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import torch

from harness.errors import HarnessError


def read_saved(path: Path, fix: str) -> np.ndarray:
    """As float32. Raises HarnessError where the file is cut off, or holds anything but a tensor."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, ValueError, LookupError, pickle.UnpicklingError) as error:
        told = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise HarnessError(f"{path} is cut off or not a tensor of PyTorch: {told}", "input", fix) from error
    if not isinstance(found, torch.Tensor):
        raise HarnessError(f"{path} holds a {type(found).__name__}, and no tensor", "input", fix)
    array: np.ndarray = found.float().numpy()
    return array
