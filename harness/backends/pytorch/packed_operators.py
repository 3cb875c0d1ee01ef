"""Operators of packed programs. Those that a saved program may contain are registered: ``packed::attend``, in which
each token attends to its sample, and ``packed::quantize`` and ``packed::linear_fp8``, a matrix product in fp8. The
others are substituted by ``packed_lowering``. On a CPU the definitions here compute; on GPUs the kernels of
``packed_kernels``, and cuBLAS through ``torch._scaled_mm``.

Scales are float32 scalars by which values in fp8 (e4m3) are multiplied.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch.nn import functional

FP8 = torch.float8_e4m3fn
LARGEST = 448.0  # largest value of e4m3
ALIGNED = 16  # cuBLAS supports fp8 if both extents of the weights are multiples of this


def _load_kernels() -> Any:
    """Import the Triton kernels; Triton may be missing without a GPU."""
    from harness.backends.pytorch import packed_kernels

    return packed_kernels


def attend_by_sample(qkv: torch.Tensor, bounds: torch.Tensor, longest: int, heads: int) -> torch.Tensor:
    width = qkv.shape[1] // 3
    out = torch.zeros_like(qkv[:, :width])
    ends = bounds.tolist()
    for first, end in pairwise(ends):
        if first == end:
            continue
        if end - first > longest:
            raise ValueError(f"a sample of {end - first} tokens; the maximum is {longest}")
        parts = qkv[first:end].view(end - first, 3, heads, width // heads).permute(1, 2, 0, 3)
        mixed = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        out[first:end] = mixed.transpose(0, 1).reshape(end - first, width)
    return out


@torch.library.custom_op("packed::attend", mutates_args=())
def attend(qkv: torch.Tensor, bounds: torch.Tensor, longest: int, heads: int) -> torch.Tensor:
    """Map queries, keys and values [tokens, 3 * width] to [tokens, width]; ``bounds`` [samples + 1]."""
    if qkv.is_cuda:
        return _load_kernels().attend(qkv, bounds, longest, heads, None)
    return attend_by_sample(qkv, bounds, longest, heads)


attend.register_fake(lambda qkv, *_: qkv.new_empty(qkv.shape[0], qkv.shape[1] // 3))


def round_fp8(value: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (value.float() / scale).clamp(-LARGEST, LARGEST).to(FP8)


@torch.library.custom_op("packed::quantize", mutates_args=())
def quantize(value: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return round_fp8(value, scale)


quantize.register_fake(lambda value, _scale: torch.empty_like(value, dtype=FP8))


@torch.library.custom_op("packed::linear_fp8", mutates_args=())
def linear_fp8(
    value: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, scale: torch.Tensor, weight_scale: torch.Tensor
) -> torch.Tensor:
    """Multiply [tokens, in] by [out, in], both fp8; returns [tokens, out] in the type of ``bias``."""
    if value.is_cuda:
        return torch._scaled_mm(
            value, weight.t(), scale_a=scale, scale_b=weight_scale, bias=bias, out_dtype=bias.dtype, use_fast_accum=True
        )
    return functional.linear(value.float() * scale, weight.float() * weight_scale, bias.float()).to(bias.dtype)


linear_fp8.register_fake(lambda value, weight, bias, *_: bias.new_empty(value.shape[0], weight.shape[0]))


def attend_fp8(qkv: torch.Tensor, bounds: torch.Tensor, longest: int, heads: int, scale: torch.Tensor) -> torch.Tensor:
    """``attend`` with output in fp8."""
    if qkv.is_cuda:
        return _load_kernels().attend(qkv, bounds, longest, heads, scale)
    return quantize(attend_by_sample(qkv, bounds, longest, heads), scale)


def add_and_normalize(
    value: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float,
    scale: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sum, normalised over the last axis, and its fp8 version if there is a ``scale``, otherwise the same
    again."""
    if value.is_cuda:
        both: tuple[torch.Tensor, torch.Tensor] = _load_kernels().add_and_normalize(
            value, residual, weight, bias, eps, scale
        )
        return both
    total = value if residual is None else value + residual
    found = functional.layer_norm(total, weight.shape, weight, bias, eps)
    return found, found if scale is None else quantize(found, scale)


def linear_gelu_fp8(
    value: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    scale: torch.Tensor,
    weight_scale: torch.Tensor,
    scale_out: torch.Tensor,
) -> torch.Tensor:
    """GELU of ``linear_fp8``, in fp8."""
    if value.is_cuda:
        return _load_kernels().linear(value, weight, bias, scale, weight_scale, scale_out, "gelu")
    return quantize(functional.gelu(linear_fp8(value, weight, bias, scale, weight_scale)), scale_out)


def choose_scale(most: Any) -> torch.Tensor:
    """Choose the scale for values up to this magnitude."""
    return torch.tensor(max(float(most), 1e-12) / LARGEST, dtype=torch.float32)
