"""Rows that do not lie side by side, brought together by one small kernel: no work on the host per row."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from harness.cuda.driver import Device, Stream, launch

_IMAGE = Path(__file__).with_name("gather.ptx")
_WIDTHS = (16, 4, 1)
_IN_FLIGHT = 4  # loads per thread, as in gather.cu
_MOST_THREADS = 1024
FEW, MANY = 4, 128
"""Full blocks at once. A few saturate PCIe and leave the device to the engine; many end a small batch soonest."""


@cache
def _image() -> bytes:
    return _IMAGE.read_bytes() + b"\0"


class Gather:
    """Copies rows of one input to one place; the addresses stay, the rows and their number change."""

    def __init__(self, device: Device, to: int, source: int, rows: int, row_bytes: int) -> None:
        width = next(width for width in _WIDTHS if not (row_bytes % width or to % width or source % width))
        self._kernel = kernel(device, width)
        self._units = row_bytes // width
        self._count = ctypes.c_int(0)
        values: list[Any] = [
            *(ctypes.c_uint64(address) for address in (to, source, rows)),
            ctypes.c_int64(self._units),
            self._count,
        ]
        self._values = values  # the launch reads them by address
        self._arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))

    def start(self, count: int, stream: Stream, blocks: int = FEW) -> None:
        self._count.value = count
        threads, grid = shape(self._units, count, blocks)
        launch(self._kernel, grid, threads, ctypes.addressof(self._arguments), stream)


def shape(units: int, count: int, blocks: int) -> tuple[int, tuple[int, int]]:
    """Threads per block, and blocks along and across a row, for ``blocks`` full blocks' worth of threads."""
    threads = min(_MOST_THREADS, -(-units // 32) * 32)
    room = max(1, blocks * _MOST_THREADS // threads)
    rows = min(count, room)
    per_row = max(1, min(room // rows, -(-units // (threads * _IN_FLIGHT))))
    return threads, (per_row, rows)


def kernel(device: Device, width: int) -> Any:
    """The kernel that moves words of ``width`` bytes."""
    return device.load_kernel(_image(), f"gather{width}")
