"""Measure how fast rows are copied to the device: in one copy, and by the gather kernel with several numbers of blocks,
from pinned host memory and from device memory. ``python -m tests.gpu.copies`` prints one JSON document (GB/s)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import numpy as np

from harness.cuda import driver
from harness.cuda.driver import Device
from harness.cuda.lanes import Gather

ROW, COUNT, ROWS = 3 * 224 * 224 * 2, 256, 1024


def main() -> None:
    device = Device(0)
    stream = device.stream()
    samples = np.random.default_rng(1).integers(0, 255, (ROWS, ROW), dtype=np.uint8)
    pinned, target, near = device.lock(samples), device.allocate(ROW * COUNT), device.allocate(ROW * ROWS)
    driver.copy(near.address, pinned.address, ROW * ROWS, stream)
    chosen = np.random.default_rng(2).integers(0, ROWS, COUNT)
    rows = device.pin(8 * COUNT)
    rows.view_array((COUNT,), "int64")[...] = chosen
    found: dict[str, float] = {}
    for place, source in (("host", pinned.address), ("device", near.address)):
        found[f"{place} copy"] = rate(lambda s=source: driver.copy(target.address, s, ROW * COUNT, stream), stream)
        gather = Gather(device, target.address, source, rows.address, ROW)
        for blocks in (1, 2, 4, 8, 16, 32, 64, 128):
            found[f"{place} gather {blocks}"] = rate(lambda g=gather, b=blocks: g.start(COUNT, stream, b), stream)
        back = np.empty((COUNT, ROW), np.uint8)
        driver.copy(back.ctypes.data, target.address, back.nbytes, stream)
        driver.synchronize(stream)
        assert np.array_equal(back, samples[chosen]), "the gather brought other rows"
    print(json.dumps({"copies_gb_per_s": found}))


def rate(work: Callable[[], None], stream: driver.Stream) -> float:
    for _ in range(3):
        work()
    driver.synchronize(stream)
    began = time.perf_counter()
    for _ in range(20):
        work()
    driver.synchronize(stream)
    return round(20 * ROW * COUNT / (time.perf_counter() - began) / 1e9, 1)


if __name__ == "__main__":
    main()
