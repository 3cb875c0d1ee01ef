"""Find the fastest tiles for the kernels of fused operators: ``python -m tests.gpu.fused_tiles [ROWS]``.

Uses the shapes of DLRM-DCNv2's layers with random values. Prints each variant's microseconds and its TFLOP/s or GB/s.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import torch
from triton.testing import do_bench

from harness.backends.pytorch import fused_kernels as kernels
from harness.backends.pytorch.packed_kernels import FP8, linear
from harness.benchmarks.dlrm_v2.layers import MULTI_HOT, Shape

ONE = torch.ones((), device="cuda")
SCALE = torch.tensor(0.05, device="cuda")
TILES = (
    ((128, 256, 128), 8, 3, 1, True),
    ((128, 256, 128), 8, 4, 1, True),
    ((256, 128, 128), 8, 3, 1, True),
    ((128, 256, 128), 8, 3, 1, False),
    ((128, 128, 128), 4, 3, 2, True),
)
"""Rows, columns and depth; warps, stages, programs of a processor, whether loops are joined."""
CROSS = (
    ((128, 128, 128), 4, 3, 0, True, False),
    ((128, 128, 128), 4, 2, 0, True, False),
    ((128, 128, 128), 8, 3, 0, True, False),
    ((128, 128, 128), 4, 3, 0, False, False),
    ((256, 128, 128), 8, 3, 0, True, False),
    ((128, 256, 128), 8, 2, 0, True, False),
    ((128, 128, 128), 4, 3, 2, False, True),
    ((128, 128, 128), 8, 3, 1, False, True),
    ((128, 256, 128), 8, 3, 1, False, True),
    ((256, 128, 128), 8, 3, 1, False, True),
)
"""The same, and before the last whether what the product is joined with is read before it."""


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").clamp(-4, 4).to(FP8)


def measure(name: str, work: Any, unit: float, found: dict[str, float]) -> None:
    """``unit``: operations or bytes per call."""
    try:
        taken = do_bench(work, warmup=10, rep=60, return_mode="median")
    except Exception as error:  # a tile that does not fit; the others do
        print(f"{name:60} {type(error).__name__}: {str(error)[:80]}", flush=True)
        return
    found[name] = taken * 1e3
    print(f"{name:60} {1e3 * taken:9.1f} us {unit / taken / 1e9:8.1f}", flush=True)


def multiply_products(rows: int, shape: Shape, found: dict[str, float]) -> None:
    sizes = [(shape.joined, shape.rank, False), *((a, b, True) for a, b in itertools.pairwise((3456, 1024, 1024, 512)))]
    sizes += [(512, 256, True), (256, 128, True)]
    for depth, width, relu in sizes:
        value, weight, bias = draw(rows, depth), draw(width, depth), torch.randn(width, device="cuda").half()
        work = 2.0 * rows * depth * width
        given = (value, weight, bias if relu else None, SCALE, SCALE, ONE, "relu" if relu else "")
        for tile, warps, stages, resident, flatten in TILES if width >= 256 else TILES[-1:]:
            options = {"tile": tile, "warps": warps, "stages": stages, "resident": resident, "flatten": flatten}
            options["parts"] = 2 if tile[1] > 128 else 1
            name = f"{depth}x{width} {tile} w{warps} s{stages} r{resident} f{int(flatten)}"
            measure(name, lambda g=given, o=options: linear(*g, **o), work, found)
        lowest = {"out_dtype": FP8, "scale_result": ONE, "use_fast_accum": True}
        lowest["bias"] = None if not relu else bias.bfloat16()
        scaled = {"scale_a": SCALE, "scale_b": SCALE, **lowest}
        measure(
            f"{depth}x{width} cuBLAS", lambda v=value, w=weight, s=scaled: torch._scaled_mm(v, w.t(), **s), work, found
        )


def cross_layers(rows: int, shape: Shape, found: dict[str, float]) -> None:
    inner, weight = draw(rows, shape.rank), draw(shape.joined, shape.rank)
    first, value, bias = draw(rows, shape.joined), draw(rows, shape.joined), torch.randn(shape.joined, device="cuda")
    given = (inner, weight, bias.half(), first, value, SCALE, SCALE, SCALE, SCALE, ONE)
    work = 2.0 * rows * shape.rank * shape.joined
    for tile, warps, stages, resident, early, flatten in CROSS:
        options = {"tile": tile, "warps": warps, "stages": stages, "resident": resident, "early": early}
        name = f"cross {tile} w{warps} s{stages} r{resident} e{int(early)} f{int(flatten)}"
        measure(name, lambda o=options, f=flatten: kernels.cross(*given, **o, flatten=f), work, found)


def pool_tables(rows: int, shape: Shape, found: dict[str, float]) -> None:
    entries = [min(count, 4_000_000) for count in shape.rows]
    layout, column = [], 0
    for number, count in enumerate(MULTI_HOT):
        layout.append([column, count, sum(entries[:number])])
        column += count
    tables = torch.randint(0, 120, (sum(entries), shape.width), dtype=torch.uint8, device="cuda").view(FP8)
    named = [torch.randint(0, n, (rows, c), device="cuda") for n, c in zip(entries, MULTI_HOT, strict=True)]
    sparse = torch.cat(named, 1).int()
    given = (draw(rows, shape.width), tables, torch.ones(26, device="cuda"), torch.tensor(layout).cuda(), sparse, SCALE)
    work = float(rows * column * shape.width)
    for high, warps, ahead in (
        (32, 4, 1),
        (16, 4, 1),
        (64, 4, 1),
        (32, 2, 1),
        (32, 8, 1),
        (16, 2, 1),
        (32, 4, 3),
        (16, 4, 4),
    ):
        name = f"pool {high} w{warps} a{ahead}"
        measure(name, lambda h=high, w=warps, a=ahead: kernels.pool(*given, high=h, warps=w, ahead=a), work, found)


def main() -> None:
    rows, shape, found = int([*sys.argv, "65536"][1]), Shape(), dict[str, float]()
    pool_tables(rows, shape, found)
    cross_layers(rows, shape, found)
    multiply_products(rows, shape, found)
    dense, weight = torch.rand(rows, 13, device="cuda").half(), torch.randn(512, 13, device="cuda").half()
    bias = torch.randn(512, device="cuda").half()
    for high, wide in ((64, 128), (128, 128)):
        work = 2.0 * rows * 13 * 512
        measure(
            f"enter {high} {wide}", lambda h=high, w=wide: kernels.enter(dense, weight, bias, ONE, h, w), work, found
        )
    value, last = draw(rows, 512), torch.randn(256, device="cuda").half()
    for high, warps in ((64, 4), (128, 8)):
        given = (value, draw(256, 512), torch.randn(256, device="cuda").half(), SCALE, SCALE, last, bias[:1])
        options = {"high": high, "warps": warps}
        measure(f"decide {high} w{warps}", lambda g=given, o=options: kernels.decide(*g, **o), 0.0, found)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
