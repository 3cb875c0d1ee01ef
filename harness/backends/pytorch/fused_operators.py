"""Operators of programs with fused layers: each computes a product of fp8 matrices and everything up to the next
product, or looks up and sums the rows of all tables. They are registered, since saved programs contain them. On a CPU
the definitions here compute; on GPUs the kernels of ``fused_kernels``.

A value in fp8 (e4m3) is multiplied by its scale, a float32 scalar; ``scale_out`` is the output's scale.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from harness.backends.pytorch.packed_operators import FP8, round_fp8


def _load_kernels() -> Any:
    """Import the Triton kernels; Triton may be missing without a GPU."""
    from harness.backends.pytorch import fused_kernels

    return fused_kernels


def _multiply(
    value: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    scale: torch.Tensor,
    weight_scale: torch.Tensor,
) -> torch.Tensor:
    shift = None if bias is None else bias.float()
    return functional.linear(value.float() * scale, weight.float() * weight_scale, shift)


@torch.library.custom_op("fused::enter", mutates_args=())
def enter(value: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, scale_out: torch.Tensor) -> torch.Tensor:
    """Compute the first layer, with few inputs, in float: [rows, in] -> relu of the product, in fp8 [rows, out]."""
    if value.is_cuda:
        return _load_kernels().enter(value, weight, bias, scale_out)
    return round_fp8(functional.linear(value.float(), weight.float(), bias.float()).relu(), scale_out)


enter.register_fake(lambda value, weight, *_: value.new_empty(value.shape[0], weight.shape[0], dtype=FP8))


@torch.library.custom_op("fused::linear", mutates_args=())
def linear(
    value: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    scale: torch.Tensor,
    weight_scale: torch.Tensor,
    scale_out: torch.Tensor,
    relu: bool,
) -> torch.Tensor:
    """Multiply fp8 [rows, in] by [out, in]: fp8 [rows, out]."""
    if value.is_cuda:
        return _load_kernels().multiply(value, weight, bias, scale, weight_scale, scale_out, relu)
    found = _multiply(value, weight, bias, scale, weight_scale)
    return round_fp8(found.relu() if relu else found, scale_out)


linear.register_fake(lambda value, weight, *_: value.new_empty(value.shape[0], weight.shape[0]))


@torch.library.custom_op("fused::pool", mutates_args=())
def pool(
    first: torch.Tensor,
    tables: torch.Tensor,
    table_scales: torch.Tensor,
    layout: torch.Tensor,
    sparse: torch.Tensor,
    scale_out: torch.Tensor,
) -> torch.Tensor:
    """Concatenate ``first``, fp8 [rows, width], and for each feature the sum of its table's rows listed in ``sparse``,
    to fp8 [rows, (1 + features) * width].

    ``tables``: all tables, concatenated, in fp8 [entries, width]. ``layout``: int64 [features, 3]: for each feature its
    first column in ``sparse``, its number of columns, and the start of its table. ``scale_out`` is also the scale of
    ``first``.
    """
    if first.is_cuda:
        return _load_kernels().pool(first, tables, table_scales, layout, sparse, scale_out)
    parts = [first]
    for number, (column, count, begins) in enumerate(layout.tolist()):
        entries = sparse[:, column : column + count].long() + begins
        sums = tables.view(torch.uint8)[entries].view(FP8).float().sum(1) * table_scales[number]
        parts.append(round_fp8(sums, scale_out))
    return torch.cat([part.view(torch.uint8) for part in parts], dim=1).view(FP8)


pool.register_fake(
    lambda first, _tables, _scales, layout, *_: first.new_empty(first.shape[0], (1 + layout.shape[0]) * first.shape[1])
)


@torch.library.custom_op("fused::cross", mutates_args=())
def cross(
    inner: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    first: torch.Tensor,
    value: torch.Tensor,
    scale: torch.Tensor,
    weight_scale: torch.Tensor,
    scale_first: torch.Tensor,
    scale_value: torch.Tensor,
    scale_out: torch.Tensor,
) -> torch.Tensor:
    """Compute a layer of a cross network: ``first`` times (product plus bias), plus ``value``, all in fp8."""
    if inner.is_cuda:
        return _load_kernels().cross(
            inner, weight, bias, first, value, scale, weight_scale, scale_first, scale_value, scale_out
        )
    product = _multiply(inner, weight, bias, scale, weight_scale)
    return round_fp8(first.float() * scale_first * product + value.float() * scale_value, scale_out)


cross.register_fake(lambda _inner, _weight, _bias, first, *_: torch.empty_like(first))


@torch.library.custom_op("fused::decide", mutates_args=())
def decide(
    value: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    scale: torch.Tensor,
    weight_scale: torch.Tensor,
    last: torch.Tensor,
    last_bias: torch.Tensor,
) -> torch.Tensor:
    """Compute the last two layers: relu of the product, and the sigmoid of its product with one row ``last``: float32
    [rows, 1]."""
    if value.is_cuda:
        return _load_kernels().decide(value, weight, bias, scale, weight_scale, last, last_bias)
    found = _multiply(value, weight, bias, scale, weight_scale).relu()
    return functional.linear(found, last.float()[None], last_bias.float()).sigmoid()


decide.register_fake(lambda value, *_: value.new_empty(value.shape[0], 1, dtype=torch.float32))
