"""Answers as pictures: square, three bytes a pixel, red first."""

from __future__ import annotations

import math
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from harness.errors import HarnessError

SIDE = 1024  # pixels, of what the accuracy script reads
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_FORMAT = (8, 2, 0, 0, 0)  # bits of a colour, red green and blue; nothing special
_UNFILTERED = 0


def read_picture(data: bytes) -> NDArray[np.uint8]:
    """Bytes of an answer -> [side, side, 3]. Raises HarnessError where they are not a square picture."""
    side = math.isqrt(len(data) // 3)
    if not side or side * side * 3 != len(data):
        problem = f"an answer has {len(data)} bytes, which are not a square picture of red, green and blue"
        raise HarnessError(problem, "input", "run accuracy again")
    return np.frombuffer(data, np.uint8).reshape(side, side, 3)


def encode_png(data: bytes) -> bytes:
    """A PNG file of an answer."""
    picture = read_picture(data)
    height, width, _ = picture.shape
    rows = np.zeros((height, 1 + width * 3), np.uint8)  # each behind the filter's number
    rows[:, 0] = _UNFILTERED
    rows[:, 1:] = picture.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, *_FORMAT)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_make_chunk(kind, body) for kind, body in parts)


def _make_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
