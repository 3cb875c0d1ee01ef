"""Read a dataset's images into one array, in parallel, with checks; and generate images for rehearsals."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.sources import FileRule, choose_dtype, count_threads
from harness.contract import Counter
from harness.errors import HarnessError

Item = TypeVar("Item")
Result = TypeVar("Result")
Preprocess = Callable[[Path], NDArray[np.float32]]
_MOST_PIXELS = 1 << 27  # maximum pixels of an image; those of the datasets have a few million
_AHEAD = 8  # items read but not yet written, for each thread


def make_jpeg_rule(name: str) -> FileRule:
    return FileRule(name, "JPEG file", b"\xff\xd8\xff", b"\xff\xd9")


def decode_image(path: Path, *, fix: str) -> NDArray[np.uint8]:
    """Decode to [height, width, 3], blue first, whatever the file's format. Raises HarnessError."""
    if prod(size := read_picture_size(path)) > _MOST_PIXELS:
        raise HarnessError(f"{path} claims to be {size[0]:,} x {size[1]:,} pixels", "input", fix)
    try:
        image: NDArray[np.uint8] | None = cv2.imread(str(path), cv2.IMREAD_COLOR)
    except cv2.error:
        image = None
    if image is None:
        raise HarnessError(f"{path} cannot be decoded", "input", fix)
    return image


def read_picture_size(path: Path) -> list[int]:
    """Read height and width from the header of a JPEG file; return nothing if it has no such header."""
    with path.open("rb") as stream:
        stream.seek(2)
        while len(mark := stream.read(4)) == 4 and mark[0] == 0xFF:
            length = int.from_bytes(mark[2:], "big")
            if 0xC0 <= mark[1] <= 0xCF and mark[1] not in (0xC4, 0xC8, 0xCC):  # a start-of-frame marker
                shape = stream.read(5)
                return [int.from_bytes(shape[1:3], "big"), int.from_bytes(shape[3:5], "big")]
            stream.seek(length - 2, os.SEEK_CUR)
    return []


def prepare_images(
    source: Path,
    names: Sequence[str],
    calibration: Sequence[str],
    output: Path,
    preprocess: Preprocess,
    shape: tuple[int, ...],
    settings: Mapping[str, Any],
    counter: Counter,
) -> None:
    """Prepare images below ``source`` directly in samples.npy and, if there are any, those of calibration.npy: memory
    holds only a few images per thread. ``shape``: the shape of one image from ``preprocess``. ``settings``: dtype
    ("float32" or "float16"), threads."""
    counter.stage("building", len(names) + len(calibration))
    threads, dtype = count_threads(settings), np.dtype(choose_dtype(settings))
    own = cv2.getNumThreads()
    cv2.setNumThreads(1)  # one image per thread is faster than many threads per image
    try:
        for target, chosen in (("samples.npy", names), ("calibration.npy", calibration)):
            if not chosen:
                continue
            array = np.lib.format.open_memmap(output / target, mode="w+", dtype=dtype, shape=(len(chosen), *shape))
            paths = [source / name for name in chosen]
            for position, image in enumerate(map_ahead(preprocess, paths, threads)):
                array[position] = image
                counter.bump(1)
            array.flush()
    finally:
        cv2.setNumThreads(own)


def map_ahead(function: Callable[[Item], Result], items: Sequence[Item], threads: int) -> Iterator[Result]:
    """Map in order, only a few items ahead. Reading, decoding and resizing release the interpreter lock."""
    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, len(items), threads * _AHEAD):
            yield from pool.map(function, items[first : first + threads * _AHEAD])


def draw_image(rng: np.random.Generator, height: int, width: int) -> NDArray[np.uint8]:
    """Draw smooth colours with some grain, uint8 [height, width, 3]: JPEG preserves them, and no two images are
    alike."""
    coarse = rng.integers(0, 256, (4, 5, 3)).astype(np.float32)
    smooth = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    image: NDArray[np.uint8] = np.clip(smooth + rng.normal(0, 8, (height, width, 3)), 0, 255).astype(np.uint8)
    return image


def encode_image(image: NDArray[np.uint8]) -> bytes:
    done, data = cv2.imencode(".JPEG", image)
    assert done
    return bytes(data)
