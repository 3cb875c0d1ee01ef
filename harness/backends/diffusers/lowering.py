"""Linear layers of a network in fp8 (e4m3): weights with a scale for each output, inputs with one for each token, which
is found as the token is computed. So nothing is measured beforehand, and a large value costs its own token only.

All else is computed in bf16, which the products give.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from harness.backends.pytorch.packed_operators import ALIGNED, FP8, LARGEST

_LEFT = ("to_k", "to_v", "to_kv")
_LEAST = 1e-12  # magnitude that a scale is of
Rounded = tuple[torch.Tensor, torch.Tensor]
"""[rows, width] in fp8, and the scale of each row, float32 [rows, 1]."""


class LinearFp8(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked here
    """In the place of ``linear``. ``alone``: its input is not computed by an operator that can round it too."""

    def __init__(self, linear: torch.nn.Linear, *, alone: bool = False) -> None:
        super().__init__()
        lowered, scale = round_rows(linear.weight.detach())
        self.register_buffer("weight", lowered)
        self.register_buffer("scale", scale.t().contiguous())
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())
        self._alone, self._dtype = alone, linear.weight.dtype

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        rows = value.reshape(-1, value.shape[-1])
        found = self.multiply(round_alone(rows, False) if self._alone else round_rows(rows))
        return found.reshape(*value.shape[:-1], -1)

    def multiply(self, rounded: Rounded) -> torch.Tensor:
        rows, scale = rounded
        if rows.is_cuda:
            return torch._scaled_mm(
                rows,
                self.weight.t(),
                scale_a=scale,
                scale_b=self.scale,
                bias=self.bias,
                out_dtype=self._dtype,
                use_fast_accum=True,
            )
        product = functional.linear(rows.float(), self.weight.float()) * scale * self.scale
        return (product if self.bias is None else product + self.bias.float()).to(self._dtype)


class GatedFp8(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked here
    """A layer whose one half gates the other by GELU, and the layer after it."""

    def __init__(self, first: torch.nn.Linear, last: torch.nn.Linear) -> None:
        super().__init__()
        self.first, self.last = LinearFp8(first), LinearFp8(last)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        both = self.first(value)
        found = self.last.multiply(round_alone(both.reshape(-1, both.shape[-1]), True))
        return found.reshape(*value.shape[:-1], -1)


def round_rows(value: torch.Tensor) -> Rounded:
    """Round rows with plain operators, so that a compiler joins them with what computes ``value``."""
    wide = value.float()
    scale = wide.abs().amax(dim=1, keepdim=True).clamp(min=_LEAST) / LARGEST
    return (wide / scale).clamp(-LARGEST, LARGEST).to(FP8), scale


@torch.library.custom_op("lowered::round_alone", mutates_args=())
def round_alone(value: torch.Tensor, gated: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """``round_rows`` by a kernel of its own. ``gated``: of the first half of each row times GELU of the second."""
    if value.is_cuda:
        from harness.backends.diffusers.kernels import round_rows as near  # Triton need not be where no GPU is

        rows, scale = near(value.contiguous(), gated=gated)
        return rows, scale
    if gated:
        first, gate = value.float().chunk(2, dim=1)
        return round_rows(first * functional.gelu(gate))
    return round_rows(value)


@round_alone.register_fake
def _(value: torch.Tensor, gated: bool) -> tuple[torch.Tensor, torch.Tensor]:
    rows, width = value.shape
    found = value.new_empty(rows, width // 2 if gated else width, dtype=FP8)
    return found, value.new_empty(rows, 1, dtype=torch.float32)


def lower_linears(network: Any) -> int:
    """Lower the linear layers in the transformer blocks of the library's U-Net, in place; gives their number. Queries,
    keys and values are computed together; keys and values of the words, which are few, stay as they are."""
    network.fuse_qkv_projections()
    count = 0
    for name, block in list(network.named_modules()):
        if name.endswith(".ff") and _fits(block.net[0].proj) and _fits(block.net[2]):
            network.get_submodule(name.removesuffix(".ff")).ff = GatedFp8(block.net[0].proj, block.net[2])
            count += 2
    for name, layer in list(network.named_modules()):
        place, _, last = name.rpartition(".")
        asked = "attentions." in name and last not in _LEFT and not name.endswith("attn1.to_q")
        if asked and _fits(layer):
            setattr(network.get_submodule(place), last, LinearFp8(layer, alone=".to_out." in name))
            count += 1
    return count


def _fits(layer: Any) -> bool:
    return isinstance(layer, torch.nn.Linear) and not any(extent % ALIGNED for extent in layer.weight.shape)
