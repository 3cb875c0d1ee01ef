"""Operators of packed programs compute the same on a GPU as on the CPU: sizes that do not fill a tile, samples of all
lengths, and a complete engine in a session."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from harness.backends.pytorch import packed_operators as operators  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

FP8 = operators.FP8


def far(found: Any, wanted: Any) -> float:
    found, wanted = found.float().cpu(), wanted.float().cpu()
    return float((found - wanted).norm() / wanted.norm())


@pytest.mark.parametrize(("heads", "lengths"), [(1, [1]), (2, [384, 1, 63, 64, 65]), (16, [178, 30, 129, 0, 300])])
@pytest.mark.parametrize("rounded", [False, True])
def test_attention_sees_its_own_sample(heads: int, lengths: list[int], rounded: bool) -> None:
    bounds = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32)
    qkv = torch.randn(int(bounds[-1]), 3 * 64 * heads)
    wanted = operators.attend_by_sample(qkv, bounds, 384, heads)
    scale = operators.choose_scale(wanted.abs().max())
    near = qkv.half().cuda(), bounds.cuda(), 384, heads
    found = operators.attend_fp8(*near, scale.cuda()).float() * scale.cuda() if rounded else operators.attend(*near)
    assert far(found, wanted) < (0.04 if rounded else 0.003)


@pytest.mark.parametrize("width", [64, 256, 1024])
@pytest.mark.parametrize("residual", [False, True])
def test_sums_are_normalised(width: int, residual: bool) -> None:
    value, other, weight, bias = torch.randn(37, width), torch.randn(37, width), torch.rand(width), torch.randn(width)
    scale = torch.tensor(0.02)
    given = (value, other if residual else None, weight, bias)
    near = [None if item is None else item.half().cuda() for item in given]
    wanted, lowered = operators.add_and_normalize(*given, 1e-12, scale)
    found = operators.add_and_normalize(*near, 1e-12, scale.cuda())
    assert far(found[0], wanted) < 0.002
    assert far(found[1], lowered) < 0.04


@pytest.mark.parametrize(
    ("tokens", "depth", "width"), [(3, 64, 128), (130, 16, 48), (1000, 1024, 4096), (77, 272, 528)]
)
def test_products_end_in_gelu(tokens: int, depth: int, width: int) -> None:
    value, weight = torch.randn(tokens, depth), torch.randn(width, depth) * depth**-0.5
    bias = torch.randn(width)
    scales = [operators.choose_scale(most) for most in (value.abs().max(), weight.abs().max(), 6.0)]
    rounded = operators.quantize(value, scales[0]), operators.quantize(weight, scales[1])
    wanted = operators.linear_gelu_fp8(*rounded, bias, *scales)
    near = [item.cuda() for item in (*rounded, bias.half(), *scales)]
    assert far(operators.linear_gelu_fp8(*near), wanted) < 0.03
    plain = operators.linear_fp8(*rounded, bias, *scales[:2])
    assert far(operators.linear_fp8(*near[:5]), plain) < 0.01
