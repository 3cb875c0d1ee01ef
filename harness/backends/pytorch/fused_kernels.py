"""Triton kernels of ``fused_operators`` for NVIDIA GPUs. Values are written to memory only in fp8."""

# ruff: noqa: N803 - kernel constants are in capitals, as in Triton
from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from harness.backends.pytorch.packed_kernels import FP8, count_processors, linear, round_fp8


def _fit(width: int, most: int) -> int:
    return min(most, int(triton.next_power_of_2(width)))


def multiply(
    value: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None,
    scale: torch.Tensor, weight_scale: torch.Tensor, scale_out: torch.Tensor, relu: bool,
) -> torch.Tensor:  # fmt: skip
    wide = max(32, _fit(weight.shape[0], 256))
    return linear(
        value, weight, bias, scale, weight_scale, scale_out, "relu" if relu else "", tile=(128, wide, 128),
        stages=4, parts=2 if wide > 128 else 1,
    )  # fmt: skip


@triton.jit(do_not_specialize=["rows"])
def _enter(
    value, weight, bias, scale_out, out, rows,
    N: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(N, BN)
    y = (tl.program_id(0) // across * BM + tl.arange(0, BM)).to(tl.int64)
    x = tl.program_id(0) % across * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    a = tl.load(value + y[:, None] * K + depth[None, :], mask=(y[:, None] < rows) & (depth[None, :] < K), other=0.0)
    b = tl.load(weight + x[None, :] * K + depth[:, None], mask=(x[None, :] < N) & (depth[:, None] < K), other=0.0)
    sums = tl.dot(a.to(tl.float16), b.to(tl.float16))
    sums = tl.maximum(sums + tl.load(bias + x, mask=x < N, other=0.0).to(tl.float32)[None, :], 0.0)
    found = round_fp8(sums, 1.0 / tl.load(scale_out))
    tl.store(out + y[:, None] * N + x[None, :], found, mask=(y[:, None] < rows) & (x[None, :] < N))


def enter(
    value: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, scale_out: torch.Tensor,
    high: int = 64, wide: int = 128, warps: int = 4,
) -> torch.Tensor:  # fmt: skip
    rows, depth = value.shape
    width = weight.shape[0]
    out = torch.empty(rows, width, dtype=FP8, device=value.device)
    _enter[(triton.cdiv(rows, high) * triton.cdiv(width, wide),)](
        value, weight, bias, scale_out, out, rows, N=width, K=depth, BM=high, BN=wide,
        BK=max(16, triton.next_power_of_2(depth)), num_warps=warps,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["rows"])
def _pool(
    first, tables, table_scales, layout, sparse, scale_out, out, rows,
    COLUMNS: tl.constexpr, FEATURES: tl.constexpr, WIDTH: tl.constexpr, BM: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Compute some rows of one feature, or of ``first``. The next entries are read while the previous ones are
    summed."""
    feature = tl.program_id(0)
    y = (tl.program_id(1) * BM + tl.arange(0, BM)).to(tl.int64)
    inside = y < rows
    lanes = tl.arange(0, WIDTH)
    place = (feature + 1) % (FEATURES + 1) * WIDTH
    target = out + y[:, None] * ((1 + FEATURES) * WIDTH) + place + lanes[None, :]
    if feature == FEATURES:
        source = first.to(tl.pointer_type(tl.uint8)) + y[:, None] * WIDTH + lanes[None, :]
        found = tl.load(source, mask=inside[:, None], other=0)
        tl.store(target.to(tl.pointer_type(tl.uint8)), found, mask=inside[:, None])
    else:
        named = sparse + y * COLUMNS + tl.load(layout + 3 * feature)
        count = tl.load(layout + 3 * feature + 1).to(tl.int32)
        table = tables + tl.load(layout + 3 * feature + 2) * WIDTH
        sums = tl.zeros([BM, WIDTH], tl.float32)
        entry = tl.load(named, mask=inside, other=0)
        for number in tl.range(1, count + 1, num_stages=AHEAD):
            following = tl.load(named + number, mask=inside & (number < count), other=0)
            sums += tl.load(table + entry.to(tl.int64)[:, None] * WIDTH + lanes[None, :]).to(tl.float32)
            entry = following
        factor = tl.load(table_scales + feature) / tl.load(scale_out)
        tl.store(target, round_fp8(sums, factor), mask=inside[:, None])


def pool(
    first: torch.Tensor, tables: torch.Tensor, table_scales: torch.Tensor, layout: torch.Tensor, sparse: torch.Tensor,
    scale_out: torch.Tensor, high: int = 32, warps: int = 4, ahead: int = 3,
) -> torch.Tensor:  # fmt: skip
    rows, width = first.shape
    features = len(layout)
    out = torch.empty(rows, (1 + features) * width, dtype=FP8, device=first.device)
    _pool[(features + 1, triton.cdiv(rows, high))](
        first, tables, table_scales, layout, sparse, scale_out, out, rows, COLUMNS=sparse.shape[1], FEATURES=features,
        WIDTH=width, BM=high, AHEAD=ahead, num_warps=warps,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["rows", "programs"])
def _cross(
    inner, weight, near, old, out, bias, scale, weight_scale, scale_first, scale_value, scale_out, rows, programs,
    N: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SAME: tl.constexpr,
    EARLY: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    """``near``: the first values, ``old``: those of the previous layer. EARLY: they are read before the product is
    computed, so that they arrive in the meantime."""
    across = tl.cdiv(N, BN)
    factor = tl.load(scale) * tl.load(weight_scale)
    inverse = 1.0 / tl.load(scale_out)
    near_scale = tl.load(scale_first)
    old_scale = tl.load(scale_value)
    for tile in tl.range(tl.program_id(0), across * tl.cdiv(rows, BM), programs, flatten=FLATTEN):
        y = tile // across * BM
        x = tile % across * BN
        if EARLY:
            one = near.load([y, x])
            two = one if SAME else old.load([y, x])
        sums = tl.zeros([BM, BN], tl.float32)
        for step in range(tl.cdiv(K, BK)):
            a = inner.load([y, step * BK])
            b = weight.load([x, step * BK])
            sums = tl.dot(a, b.T, sums)
        if not EARLY:
            one = near.load([y, x])
            two = one if SAME else old.load([y, x])
        lanes = x + tl.arange(0, BN)
        shift = tl.load(bias + lanes, mask=lanes < N, other=0.0).to(tl.float32)
        found = one.to(tl.float32) * near_scale * (sums * factor + shift[None, :])
        found += two.to(tl.float32) * old_scale
        out.store([y, x], round_fp8(found, inverse))


def cross(
    inner: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, first: torch.Tensor, value: torch.Tensor,
    scale: torch.Tensor, weight_scale: torch.Tensor, scale_first: torch.Tensor, scale_value: torch.Tensor,
    scale_out: torch.Tensor,
    tile: tuple[int, int, int] = (256, 128, 128), warps: int = 8, stages: int = 3, resident: int = 1,
    early: bool = False, flatten: bool = True,
) -> torch.Tensor:  # fmt: skip
    """Compute a layer of a cross network. ``resident``: programs per multiprocessor, each computing tile after tile; 0
    for one program per tile."""
    rows, depth = inner.shape
    width = weight.shape[0]
    out = torch.empty_like(first)
    high, wide, deep = tile
    tiles = triton.cdiv(rows, high) * triton.cdiv(width, wide)
    programs = min(tiles, resident * count_processors(inner.device) or tiles)
    described: list[Any] = [
        TensorDescriptor.from_tensor(inner, [high, deep]),
        TensorDescriptor.from_tensor(weight, [wide, deep]),
        *(TensorDescriptor.from_tensor(item, [high, wide]) for item in (first, value, out)),
    ]
    _cross[(programs,)](
        *described, bias, scale, weight_scale, scale_first, scale_value, scale_out, rows, programs, N=width, K=depth,
        BM=high, BN=wide, BK=deep, SAME=first.data_ptr() == value.data_ptr(), EARLY=early, FLATTEN=flatten,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["rows"])
def _decide(
    left, right, bias, scale, weight_scale, last, last_bias, out, rows,
    N: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    y = tl.program_id(0) * BM
    sums = tl.zeros([BM, BN], tl.float32)
    for step in range(tl.cdiv(K, BK)):
        a = left.load([y, step * BK])
        b = right.load([0, step * BK])
        sums = tl.dot(a, b.T, sums)
    lanes = tl.arange(0, BN)
    shift = tl.load(bias + lanes, mask=lanes < N, other=0.0).to(tl.float32)
    found = tl.maximum(sums * (tl.load(scale) * tl.load(weight_scale)) + shift[None, :], 0.0)
    logit = tl.sum(found * tl.load(last + lanes, mask=lanes < N, other=0.0).to(tl.float32)[None, :], 1)
    answer = tl.sigmoid(logit + tl.load(last_bias).to(tl.float32))
    rows_here = y + tl.arange(0, BM)
    tl.store(out + rows_here, answer, mask=rows_here < rows)


def decide(
    value: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, scale: torch.Tensor, weight_scale: torch.Tensor,
    last: torch.Tensor, last_bias: torch.Tensor, high: int = 128, warps: int = 8, stages: int = 3,
) -> torch.Tensor:  # fmt: skip
    rows, depth = value.shape
    width = weight.shape[0]
    out = torch.empty(rows, 1, dtype=torch.float32, device=value.device)
    wide = max(32, triton.next_power_of_2(width))
    deep = 128 if wide <= 256 else 64
    _decide[(triton.cdiv(rows, high),)](
        TensorDescriptor.from_tensor(value, [high, deep]), TensorDescriptor.from_tensor(weight, [wide, deep]),
        bias, scale, weight_scale, last, last_bias, out, rows, N=width, K=depth, BM=high, BN=wide, BK=deep,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out
