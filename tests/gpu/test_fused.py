"""Fused operators on a GPU compute the same as on the CPU: sizes that do not fill a tile, and tables of any length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from harness.backends.pytorch import fused_operators as operators  # noqa: E402
from harness.backends.pytorch.packed_operators import choose_scale  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


def lowered(*shape: int, spread: float = 1.0) -> tuple[Any, Any]:
    """Return random values in fp8 and their scale."""
    value = torch.randn(*shape) * spread
    scale = choose_scale(value.abs().max())
    return operators.round_fp8(value, scale), scale


def far(operator: Any, *given: Any) -> float:
    """Return the distance between the GPU's and the CPU's answer, relative to the norm of the latter."""
    wanted = operator(*given).float()
    found = operator(*(item.cuda() if isinstance(item, torch.Tensor) else item for item in given)).float().cpu()
    return float((found - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("rows", [1, 70, 1000])
@pytest.mark.parametrize("half", [False, True])
def test_the_first_layer(rows: int, half: bool) -> None:
    value = torch.rand(rows, 13)
    given = (value.half() if half else value), torch.randn(512, 13).half(), torch.randn(512).half()
    assert far(operators.enter, *given, choose_scale(12.0)) < 0.02


@pytest.mark.parametrize(("rows", "depth", "width"), [(3, 64, 128), (130, 16, 48), (1000, 3456, 512), (77, 1024, 1024)])
@pytest.mark.parametrize("relu", [False, True])
def test_products(rows: int, depth: int, width: int, relu: bool) -> None:
    (value, scale), (weight, weight_scale) = lowered(rows, depth), lowered(width, depth, spread=depth**-0.5)
    bias = torch.randn(width).half() if relu else None
    assert far(operators.linear, value, weight, bias, scale, weight_scale, choose_scale(6.0), relu) < 0.03


@pytest.mark.parametrize("width", [16, 128])
@pytest.mark.parametrize("rows", [1, 100])
def test_rows_of_tables_are_summed(width: int, rows: int) -> None:
    counts, entries = [3, 1, 100, 27], [50, 3, 1000, 7]
    layout = [[sum(counts[:n]), counts[n], sum(entries[:n])] for n in range(4)]
    named = [
        np.random.default_rng(1).integers(0, n, (rows, count), np.int32)
        for n, count in zip(entries, counts, strict=True)
    ]
    (first, scale), (tables, _) = lowered(rows, width), lowered(sum(entries), width)
    sparse = torch.from_numpy(np.concatenate(named, axis=1))
    scales = torch.tensor([0.001, 0.002, 0.0003, 0.0004])
    assert far(operators.pool, first, tables, scales, torch.tensor(layout), sparse, scale) < 0.01


@pytest.mark.parametrize(("rows", "depth", "width"), [(1, 16, 432), (300, 512, 3456)])
@pytest.mark.parametrize("same", [False, True])
def test_cross_layers(rows: int, depth: int, width: int, same: bool) -> None:
    (inner, scale), (weight, weight_scale) = lowered(rows, depth), lowered(width, depth, spread=depth**-0.5)
    (first, scale_first), (value, scale_value) = lowered(rows, width), lowered(rows, width)
    if same:
        value, scale_value = first, scale_first
    bias = torch.randn(width).half()
    scales = scale, weight_scale, scale_first, scale_value, choose_scale(20.0)
    assert far(operators.cross, inner, weight, bias, first, value, *scales) < 0.03


@pytest.mark.parametrize(("rows", "depth", "width"), [(1, 16, 16), (300, 512, 256)])
def test_the_last_two_layers(rows: int, depth: int, width: int) -> None:
    (value, scale), (weight, weight_scale) = lowered(rows, depth), lowered(width, depth, spread=depth**-0.5)
    last = torch.randn(width).half() * 0.1
    given = (value, weight, torch.randn(width).half(), scale, weight_scale, last, torch.randn(1).half())
    assert far(operators.decide, *given) < 0.003
