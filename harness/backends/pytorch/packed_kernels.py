"""Triton kernels of packed programs for NVIDIA GPUs: attention within each sequence, sum and normalisation between
layers, and fp8 matrix products with an activation. Each writes fp8 if an fp8 product follows, so that rounding needs no
extra pass through memory.
"""

# ruff: noqa: N803 - constants of kernels are in capitals, as in Triton's own
from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

FP8 = torch.float8_e4m3fn
_LARGEST = tl.constexpr(448.0)  # largest value of e4m3, which has no infinity
_LOG2E = 1.4426950408889634


@triton.jit
def round_fp8(value, inverse):
    return tl.clamp(value * inverse, -_LARGEST, _LARGEST).to(tl.float8e4nv)


@triton.jit
def _attend(
    qkv, out, cumulative, scale_out, factor, WIDTH: tl.constexpr, HEADS: tl.constexpr, HEAD: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, LOWERED: tl.constexpr,
):  # fmt: skip
    """Compute rows of one head of one sequence. ``factor``: scale of the scores, including log2(e)."""
    block = tl.program_id(0)
    head = tl.program_id(1) % HEADS
    sequence = tl.program_id(1) // HEADS
    start = tl.load(cumulative + sequence)
    length = tl.load(cumulative + sequence + 1) - start
    if block * ROWS >= length:
        return
    rows = block * ROWS + tl.arange(0, ROWS)
    lanes = tl.arange(0, HEAD)
    columns = tl.arange(0, COLUMNS)
    base = qkv + start.to(tl.int64) * (3 * WIDTH) + head * HEAD
    query = tl.load(base + rows[:, None] * (3 * WIDTH) + lanes[None, :], mask=rows[:, None] < length, other=0.0)
    most = tl.full([ROWS], -1e30, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, HEAD], tl.float32)
    keys = base + WIDTH + columns[None, :] * (3 * WIDTH) + lanes[:, None]
    values = base + 2 * WIDTH + columns[:, None] * (3 * WIDTH) + lanes[None, :]
    for first in range(0, length, COLUMNS):
        here = first + columns < length
        key = tl.load(keys + first * (3 * WIDTH), mask=here[None, :], other=0.0)
        value = tl.load(values + first * (3 * WIDTH), mask=here[:, None], other=0.0)
        scores = tl.where(here[None, :], tl.dot(query, key) * factor, -1e30)
        higher = tl.maximum(most, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        fade = tl.exp2(most - higher)
        total = total * fade + tl.sum(weights, 1)
        mixed = mixed * fade[:, None]
        mixed = tl.dot(weights.to(value.dtype), value, mixed)
        most = higher
    mixed = mixed / total[:, None]
    target = out + (start + rows).to(tl.int64)[:, None] * WIDTH + head * HEAD + lanes[None, :]
    if LOWERED:
        mixed = round_fp8(mixed, 1.0 / tl.load(scale_out))
    tl.store(target, mixed.to(out.dtype.element_ty), mask=rows[:, None] < length)


def attend(
    qkv: torch.Tensor, cumulative: torch.Tensor, longest: int, heads: int, scale: torch.Tensor | None,
    rows: int = 64, columns: int = 32, warps: int = 4, stages: int = 3,
) -> torch.Tensor:  # fmt: skip
    """Map [tokens, 3 * width] to [tokens, width], in fp8 if there is a ``scale``."""
    width = qkv.shape[1] // 3
    out = torch.empty(qkv.shape[0], width, dtype=qkv.dtype if scale is None else FP8, device=qkv.device)
    grid = (triton.cdiv(longest, rows), (len(cumulative) - 1) * heads)
    factor = (width // heads) ** -0.5 * _LOG2E
    _attend[grid](
        qkv, out, cumulative, scale, factor, WIDTH=width, HEADS=heads, HEAD=width // heads,
        ROWS=rows, COLUMNS=columns, LOWERED=scale is not None, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out


@triton.jit
def _add_and_normalize(
    added, residual, weight, bias, out, lowered, scale_out, eps, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    RESIDUAL: tl.constexpr, LOWERED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < WIDTH
    value = tl.load(added + row * WIDTH + lanes, mask=inside, other=0.0).to(tl.float32)
    if RESIDUAL:
        value += tl.load(residual + row * WIDTH + lanes, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, value - tl.sum(value, 0) / WIDTH, 0.0)
    spread = tl.rsqrt(tl.sum(centred * centred, 0) / WIDTH + eps)
    scaled = centred * spread * tl.load(weight + lanes, mask=inside).to(tl.float32)
    found = scaled + tl.load(bias + lanes, mask=inside).to(tl.float32)
    tl.store(out + row * WIDTH + lanes, found.to(out.dtype.element_ty), mask=inside)
    if LOWERED:
        tl.store(lowered + row * WIDTH + lanes, round_fp8(found, 1.0 / tl.load(scale_out)), mask=inside)


def add_and_normalize(
    added: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, bias: torch.Tensor, eps: float,
    scale: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the result [tokens, width], and its fp8 version if there is a ``scale``, otherwise the result again."""
    out = torch.empty_like(added)
    lowered = out if scale is None else torch.empty_like(added, dtype=FP8)
    width = added.shape[1]
    _add_and_normalize[(added.shape[0],)](
        added, residual, weight, bias, out, lowered, scale, eps, WIDTH=width, BLOCK=triton.next_power_of_2(width),
        RESIDUAL=residual is not None, LOWERED=scale is not None, num_warps=4,
    )  # fmt: skip
    return out, lowered


@triton.jit
def _tanh(value):
    return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [value], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def gelu(value):
    """Approximate the error function by tanh of an odd polynomial; the error of GELU is at most 3e-5."""
    square = tl.minimum(value * value, 40.0)
    inner = value * (0.797497 + square * (0.0370154 - square * 0.000353106))
    half = 0.5 * value
    return half + half * _tanh(inner)


@triton.jit
def _activate(sums, factor, bias, lanes, inverse, N: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr):
    value = sums * factor
    if BIAS:
        value += tl.load(bias + lanes, mask=lanes < N, other=0.0).to(tl.float32)[None, :]
    if ACTIVATION == "gelu":
        value = gelu(value)
    elif ACTIVATION == "relu":
        value = tl.maximum(value, 0.0)
    return round_fp8(value, inverse)


@triton.jit
def _multiply(
    left, right, out, bias, scale_left, scale_right, scale_out, rows,
    N: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    PROGRAMS: tl.constexpr, PARTS: tl.constexpr, FLATTEN: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr,
):  # fmt: skip
    """Persistent kernel. Each program computes tile after tile, in an order that lets concurrent tiles share rows."""
    across = tl.cdiv(N, BN)
    down = tl.cdiv(rows, BM)
    factor = tl.load(scale_left) * tl.load(scale_right)
    inverse = 1.0 / tl.load(scale_out)
    for tile in tl.range(tl.program_id(0), across * down, PROGRAMS, flatten=FLATTEN):
        group = tile // (GROUP * across)
        first = group * GROUP
        tall = min(down - first, GROUP)
        y = first + (tile % (GROUP * across)) % tall
        x = (tile % (GROUP * across)) // tall
        sums = tl.zeros([BM, BN], tl.float32)
        for step in range(tl.cdiv(K, BK)):  # beyond the end of a tensor, zeros are loaded
            a = left.load([y * BM, step * BK])
            b = right.load([x * BN, step * BK])
            sums = tl.dot(a, b.T, sums)
        if PARTS == 2:
            halves = tl.permute(tl.reshape(sums, [BM, 2, BN // 2]), [0, 2, 1])
            one, two = tl.split(halves)
            lanes = x * BN + tl.arange(0, BN // 2)
            out.store([y * BM, x * BN], _activate(one, factor, bias, lanes, inverse, N, ACTIVATION, BIAS))
            two = _activate(two, factor, bias, lanes + BN // 2, inverse, N, ACTIVATION, BIAS)
            out.store([y * BM, x * BN + BN // 2], two)
        else:
            lanes = x * BN + tl.arange(0, BN)
            out.store([y * BM, x * BN], _activate(sums, factor, bias, lanes, inverse, N, ACTIVATION, BIAS))


def linear(
    left: torch.Tensor, right: torch.Tensor, bias: torch.Tensor | None,
    scale_left: torch.Tensor, scale_right: torch.Tensor, scale_out: torch.Tensor, activation: str = "",
    tile: tuple[int, int, int] = (128, 256, 128), warps: int = 8, stages: int = 3, resident: int = 1, parts: int = 2,
    group: int = 8, flatten: bool = True,
) -> torch.Tensor:  # fmt: skip
    """Multiply fp8 [tokens, K] by [N, K], add the bias, apply "gelu", "relu" or nothing; returns fp8 [tokens, N]."""
    rows, depth = left.shape
    width = right.shape[0]
    out = torch.empty(rows, width, dtype=FP8, device=left.device)
    high, wide, deep = tile
    programs = resident * count_processors(left.device)
    described: list[Any] = [
        TensorDescriptor.from_tensor(left, [high, deep]),
        TensorDescriptor.from_tensor(right, [wide, deep]),
        TensorDescriptor.from_tensor(out, [high, wide // parts]),
    ]
    _multiply[(programs,)](
        *described, bias, scale_left, scale_right, scale_out, rows, N=width, K=depth, BM=high, BN=wide, BK=deep,
        GROUP=group, PROGRAMS=programs, PARTS=parts, FLATTEN=flatten, ACTIVATION=activation, BIAS=bias is not None,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out


def count_processors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count) if device.type == "cuda" else 1
