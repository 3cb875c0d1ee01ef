"""Read files saved by PyTorch. Only tensors are read, since such a file is a pickle."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.errors import HarnessError

_ZIPPED, _PICKLED = b"PK\x03\x04", b"\x80"  # first bytes of files saved by PyTorch since 1.6 and by older versions


def load_saved(path: Path, fix: str, *, mapped: bool = False) -> Any:
    """Load a file. Raises HarnessError if it is truncated, not PyTorch's, or contains more than tensors. ``mapped``:
    leave the tensors on disk until they are read, if the file's format allows it."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped and zipfile.is_zipfile(path))
    except Exception as error:  # a damaged pickle can raise any error
        raise HarnessError(f"{path} {_explain(path, error)}", "input", fix) from error


def load_state(
    path: Path, of: str, fix: str, *, name: str = "state_dict", mapped: bool = False
) -> dict[str, torch.Tensor]:
    """Load the tensors of a checkpoint's entry ``name``. ``of``: the name of the model, for messages."""
    document = load_saved(path, fix, mapped=mapped)
    state = document.get(name) if isinstance(document, dict) else None
    if isinstance(state, dict) and state and all(isinstance(item, torch.Tensor) for item in state.values()):
        return state
    if not isinstance(document, dict):
        message = f"a {type(document).__name__}"
    elif state is None:
        message = f"{', '.join(sorted(map(str, document))[:5]) or 'nothing'}, and no {name}"
    else:
        message = f"a {name} that is not one of tensors"
    raise HarnessError(f"{path} is not a checkpoint of {of}: it contains {message}", "input", fix)


def read_tensor(path: Path, fix: str) -> np.ndarray:
    """Read a tensor as float32. Raises HarnessError if the file contains anything else."""
    found = load_saved(path, fix)
    if not isinstance(found, torch.Tensor):
        raise HarnessError(f"{path} contains a {type(found).__name__}, not a tensor", "input", fix)
    array: np.ndarray = found.float().numpy()
    return array


def name_attribute(name: str) -> str:
    return name.replace(".", "_")


class NamedWeights(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked here
    """A network with weights by their names in a checkpoint."""

    def __init__(self, weights: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        for name, tensor in weights.items():
            self.register_parameter(name_attribute(name), torch.nn.Parameter(tensor, requires_grad=False))

    def weight(self, name: str) -> torch.Tensor:
        return getattr(self, name_attribute(name))


def _explain(path: Path, error: Exception) -> str:
    """Explain why PyTorch cannot load a file."""
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    with path.open("rb") as stream:
        begins = stream.read(len(_ZIPPED))
    if not begins:
        return "is empty"
    cut = isinstance(error, EOFError) or "EOF" in str(error)
    if cut or (begins == _ZIPPED and not zipfile.is_zipfile(path)):
        return "is truncated"
    if begins != _ZIPPED and not begins.startswith(_PICKLED):
        return "is not a file saved by PyTorch"
    message = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return f"contains something other than weights: {message}"
