"""Files saved by PyTorch. Such a file is a pickle, from which only tensors are read."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.errors import HarnessError

_ZIPPED, _PICKLED = b"PK\x03\x04", b"\x80"  # first bytes of files saved by PyTorch since 1.6, and before


def load_saved(path: Path, fix: str) -> Any:
    """Load the tensors. Raises HarnessError that says whether the file is truncated, not PyTorch's, or contains more
    than tensors."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle may raise any error
        raise HarnessError(f"{path} {_explain(path, error)}", "input", fix) from error


def read_tensor(path: Path, fix: str) -> np.ndarray:
    """Return it as float32. Raises HarnessError also for anything but a tensor."""
    found = load_saved(path, fix)
    if not isinstance(found, torch.Tensor):
        raise HarnessError(f"{path} holds a {type(found).__name__}, and no tensor", "input", fix)
    array: np.ndarray = found.float().numpy()
    return array


def _explain(path: Path, error: Exception) -> str:
    """Explain why PyTorch does not load a file."""
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
    message = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return f"holds what is not loaded as weights: {message}"
