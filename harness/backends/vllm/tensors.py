"""Send tensors between processes as bytes of the message; PyTorch itself would share memory through files."""

from __future__ import annotations

import copyreg
import io
import pickle
from typing import Any

import torch


def pack(value: object) -> memoryview:
    """Serialise ``value`` for ``Connection.send_bytes``; ``recv`` restores it."""
    packed = io.BytesIO()
    _Packer(packed, pickle.HIGHEST_PROTOCOL).dump(value)
    return packed.getbuffer()


def restore(data: bytearray, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Restore a tensor that owns ``data`` without copying it."""
    return torch.frombuffer(data, dtype=dtype).reshape(shape) if data else torch.empty(shape, dtype=dtype)


def _reduce(tensor: Any) -> tuple[Any, ...]:
    data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return restore, (bytearray(data), tensor.dtype, tuple(tensor.shape))


class _Packer(pickle.Pickler):
    dispatch_table = copyreg.dispatch_table.copy()
    dispatch_table[torch.Tensor] = _reduce
