"""The weights of the reference's checkpoint, by the names that they have in it: those of DGL's graph attention."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from harness.benchmarks.rgat.graph import FEATURES, LAYERS, RELATIONS
from harness.benchmarks.saved_tensors import load_saved
from harness.errors import HarnessError

STATE = "model_state_dict"
# The reference keeps the network in an object that names its layers once more, without this.
PREFIXES = ("model.", "")
_FIX = "bring the checkpoint of the reference again, as `reconcile fetch rgat` says"
Weights = Mapping[str, torch.Tensor]


def name_weight(layer: int, relation: str, part: str) -> str:
    """``part``: fc.weight [heads * width, features], attn_l and attn_r [1, heads, width], bias [heads * width]."""
    return f"layers.{layer}.mods.{relation}.{part}"


def list_shapes(heads: int, width: int, classes: int) -> dict[str, tuple[int, ...]]:
    """List the shapes of every weight of a network with so many heads, of this width each."""
    found: dict[str, tuple[int, ...]] = {}
    for layer in range(LAYERS):
        for relation in RELATIONS:
            parts = {
                "fc.weight": (heads * width, heads * width if layer else FEATURES),
                "attn_l": (1, heads, width),
                "attn_r": (1, heads, width),
                "bias": (heads * width,),
            }
            found |= {name_weight(layer, relation.name, part): shape for part, shape in parts.items()}
    return {**found, "linear.weight": (classes, heads * width), "linear.bias": (classes,)}


def read_checkpoint(path: Path) -> Weights:
    """float32. Raises HarnessError naming the file, and the first weight that is missing or of another shape."""
    saved = load_saved(path, _FIX)
    state = saved.get(STATE) if isinstance(saved, dict) else None
    if not isinstance(state, dict):
        raise HarnessError(f"{path} holds no {STATE}", "input", _FIX)
    first = name_weight(0, RELATIONS[0].name, "attn_l")
    prefix = next((prefix for prefix in PREFIXES if prefix + first in state), None)
    if prefix is None or state[prefix + first].ndim != 3:
        raise HarnessError(f"{path} holds no weight {first}", "input", _FIX)
    _, heads, width = state[prefix + first].shape
    classes = len(state.get(f"{prefix}linear.bias", ()))
    weights = {}
    for name, shape in list_shapes(heads, width, classes).items():
        weight = state.get(prefix + name)
        if weight is None or tuple(weight.shape) != shape:
            found = (
                "is missing" if weight is None else f"is {list(weight.shape)}, by the others it should be {list(shape)}"
            )
            raise HarnessError(f"{path}: {name} {found}", "input", _FIX)
        weights[name] = weight.float()
    return weights
