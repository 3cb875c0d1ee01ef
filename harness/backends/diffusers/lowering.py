"""Linear layers of a network in fp8 (e4m3): weights with a scale for each output, inputs with one for each token, which
is found as the token is computed. So nothing is measured beforehand, and a large value costs its own token only.

All else is computed in bf16, which the products give.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

FP8, LARGEST = torch.float8_e4m3fn, 448.0
_ALIGNED = 16  # both extents of the weights are multiples of it
_LEFT = ("to_k", "to_v", "to_kv")
_LEAST = 1e-12  # magnitude that a scale is of


class LinearFp8(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked here
    """In the place of ``linear``."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        lowered, scale = round_rows(linear.weight.detach())
        self.register_buffer("weight", lowered)
        self.register_buffer("scale", scale.t().contiguous())
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        rows, scale = round_rows(value.reshape(-1, value.shape[-1]))
        if value.is_cuda:
            found = torch._scaled_mm(
                rows,
                self.weight.t(),
                scale_a=scale,
                scale_b=self.scale,
                bias=self.bias,
                out_dtype=value.dtype,
                use_fast_accum=True,
            )
        else:
            product = functional.linear(rows.float(), self.weight.float()) * scale * self.scale
            found = (product if self.bias is None else product + self.bias.float()).to(value.dtype)
        return found.reshape(*value.shape[:-1], -1)


def round_rows(value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[rows, width] in fp8, and the scale of each row, float32 [rows, 1]."""
    wide = value.float()
    scale = wide.abs().amax(dim=1, keepdim=True).clamp(min=_LEAST) / LARGEST
    return (wide / scale).clamp(-LARGEST, LARGEST).to(FP8), scale


def lower_linears(network: Any) -> int:
    """Those of the transformer blocks of a U-Net of the library, in place; how many. Queries, keys and values are
    computed together; keys and values of the words, which are few, stay as they are."""
    network.fuse_qkv_projections()
    count = 0
    for name, layer in list(network.named_modules()):
        place, _, last = name.rpartition(".")
        asked = "attentions." in name and last not in _LEFT and not name.endswith("attn1.to_q")
        if asked and isinstance(layer, torch.nn.Linear) and not any(n % _ALIGNED for n in layer.weight.shape):
            setattr(network.get_submodule(place), last, LinearFp8(layer))
            count += 1
    return count
