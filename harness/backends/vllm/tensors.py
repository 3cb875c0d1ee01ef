"""Tensors between processes, as bytes of the message: what PyTorch itself would do is to share memory through files."""

from __future__ import annotations

import copyreg
import io
import pickle
from typing import Any

import torch


def pack(value: object) -> memoryview:
    """To be sent by ``Connection.send_bytes``: ``recv`` makes ``value`` of it again."""
    packed = io.BytesIO()
    _Packer(packed, pickle.HIGHEST_PROTOCOL).dump(value)
    return packed.getbuffer()


def restore(data: bytearray, dtype: Any, shape: tuple[int, ...]) -> Any:
    """It owns ``data``, which is not copied."""
    return torch.frombuffer(data, dtype=dtype).reshape(shape) if data else torch.empty(shape, dtype=dtype)


def _reduce(tensor: Any) -> tuple[Any, ...]:
    data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return restore, (bytearray(data), tensor.dtype, tuple(tensor.shape))


class _Packer(pickle.Pickler):
    dispatch_table = copyreg.dispatch_table.copy()
    dispatch_table[torch.Tensor] = _reduce
