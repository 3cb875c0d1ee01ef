"""Triton kernels that round rows to fp8 on NVIDIA GPUs: each row is read once and stays in registers until its scale is
known."""

# ruff: noqa: N803 - constants of kernels are in capitals, as in Triton's own
from __future__ import annotations

import torch
import triton
import triton.language as tl

from harness.backends.pytorch.packed_kernels import FP8, gelu

_LARGEST = tl.constexpr(448.0)  # largest value of e4m3
_LEAST = tl.constexpr(1e-12)


@triton.jit
def _round_rows(value, rounded, scales, WIDTH: tl.constexpr, BLOCK: tl.constexpr, GATED: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < WIDTH
    if GATED:
        source = value + row * (2 * WIDTH) + lanes
        found = tl.load(source, mask=inside, other=0.0).to(tl.float32)
        found *= gelu(tl.load(source + WIDTH, mask=inside, other=0.0).to(tl.float32))
    else:
        found = tl.load(value + row * WIDTH + lanes, mask=inside, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(found), 0), _LEAST) / _LARGEST
    lowered = tl.clamp(found * (1.0 / scale), -_LARGEST, _LARGEST).to(tl.float8e4nv)
    tl.store(rounded + row * WIDTH + lanes, lowered, mask=inside)
    tl.store(scales + row, scale)


def round_rows(value: torch.Tensor, *, gated: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return [rows, width] in fp8 and the scale of each row, [rows, 1]. ``gated``: for an input [rows, 2 * width], the
    first half times GELU of the second."""
    rows, width = value.shape
    width = width // 2 if gated else width
    rounded = torch.empty(rows, width, dtype=FP8, device=value.device)
    scales = torch.empty(rows, 1, dtype=torch.float32, device=value.device)
    block = triton.next_power_of_2(width)
    warps = max(1, min(16, block // 512))
    _round_rows[(rows,)](value, rounded, scales, WIDTH=width, BLOCK=block, GATED=gated, num_warps=warps)
    return rounded, scales
