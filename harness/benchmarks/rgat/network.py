"""R-GAT for torch.export: graph attention over each relation, summed by the kind of the targets, three times.

A node's neighbours are a row of positions, so softmax and sum run along the row without scattering. If a relation's
projection is linear in some values, these are summed first and projected afterwards. The result equals the reference's,
which projects each neighbour, but takes a fraction of the work, since most nodes of a block are not targets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from harness.benchmarks.rgat.blocks import (
    FEATURES,
    KINDS,
    LAYERS,
    RELATIONS,
    SEEDS,
    Relation,
    list_inputs,
    list_kinds,
    name_inner,
)
from harness.benchmarks.saved_tensors import load_state
from harness.contract import Counter
from harness.errors import HarnessError

MODEL = "model.pt2"
_SLOPE = 0.2  # slope of the attention's leaky ReLU; between layers the slope is 0.01


class RelationalGraphAttention(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked here
    def __init__(self, weights: Weights) -> None:
        super().__init__()
        _, self.heads, self.width = weights[name_weight(0, RELATIONS[0].name, "attn_l")].shape
        for layer in range(LAYERS):
            for relation in RELATIONS:
                projection, left, right, bias = (
                    weights[name_weight(layer, relation.name, part)]
                    for part in ("fc.weight", "attn_l", "attn_r", "bias")
                )
                heads = projection.reshape(self.heads, self.width, -1)
                self._keep("projection", layer, relation, heads.transpose(1, 2))
                self._keep("left", layer, relation, torch.einsum("hwf,hw->fh", heads, left[0]))
                self._keep("right", layer, relation, torch.einsum("hwf,hw->fh", heads, right[0]))
                self._keep("bias", layer, relation, bias)
        self.linear = torch.nn.Linear(self.heads * self.width, len(weights["linear.bias"]))
        self.linear.load_state_dict({"weight": weights["linear.weight"], "bias": weights["linear.bias"]})
        self.requires_grad_(False)

    def forward(self, block: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Compute the scores. ``block``: named as in ``list_inputs``: features [nodes, 1024] of each kind; positions of
        neighbours [targets, at most the fan-out], -1 for none, of each relation; for each kind one number per node that
        the second layer still computes; "seeds", the positions of the samples, [samples]. Returns the scores as
        "classes", [samples, classes].
        """
        hidden = {kind: block[kind] for kind in KINDS}
        outer = {relation.target: partial(_choose_first, block[relation.name].shape[0]) for relation in RELATIONS}
        hidden = self._compute_layer(0, hidden, outer, block)
        inner = {kind: partial(_choose_first, block[name_inner(kind)].shape[0]) for kind in list_kinds(1)}
        hidden = self._compute_layer(1, hidden, inner, block)
        hidden = self._compute_layer(2, hidden, {SEEDS: lambda values: values[block["seeds"]]}, block)
        return {"classes": self.linear(hidden[SEEDS])}

    def _compute_layer(
        self,
        layer: int,
        hidden: dict[str, torch.Tensor],
        chosen: Mapping[str, Callable[[torch.Tensor], torch.Tensor]],
        block: dict[str, torch.Tensor],
    ) -> dict[str, torch.Tensor]:
        """Compute a layer. ``chosen``: the nodes of each kind that it computes. Each layer is one hop closer to the
        samples."""
        found: dict[str, torch.Tensor] = {}
        for kind, choose in chosen.items():
            targets, total = choose(hidden[kind]), None
            for relation in RELATIONS:
                if relation.target == kind:
                    attended = self._attend(
                        layer, relation, hidden[relation.source], targets, choose(block[relation.name])
                    )
                    total = attended if total is None else total + attended
            found[kind] = functional.leaky_relu(total) if layer < LAYERS - 1 else total
        return found

    def _attend(
        self, layer: int, relation: Relation, sources: torch.Tensor, targets: torch.Tensor, neighbours: torch.Tensor
    ) -> torch.Tensor:
        """Return [targets, heads * width]."""
        projection, left, right, bias = (
            getattr(self, f"{part}_{layer}_{relation.name}") for part in ("projection", "left", "right", "bias")
        )
        there, places = neighbours >= 0, neighbours.clamp(min=0)
        scores = functional.leaky_relu((sources @ left)[places] + (targets @ right)[:, None], _SLOPE).float()
        shares = scores.masked_fill(~there[..., None], torch.finfo(torch.float32).min).softmax(1) * there[..., None]
        gathered = (shares[..., None] * sources[places][:, :, None]).sum(1)
        heads = torch.bmm(gathered.to(projection.dtype).transpose(0, 1), projection)
        return heads.transpose(0, 1).flatten(1) + bias

    def _keep(self, part: str, layer: int, relation: Relation, value: torch.Tensor) -> None:
        kept = value.contiguous().clone()
        self.register_parameter(f"{part}_{layer}_{relation.name}", torch.nn.Parameter(kept, requires_grad=False))


def _choose_first(count: int, values: torch.Tensor) -> torch.Tensor:
    """Return the first nodes, those reached first."""
    return values.narrow(0, 0, count)


def make_block(rng: np.random.Generator) -> dict[str, torch.Tensor]:
    """Make inputs for tracing. Only axes that must be equal have equal sizes."""
    block: dict[str, torch.Tensor] = {}
    for number, kind in enumerate(KINDS):
        block[kind] = torch.from_numpy(rng.standard_normal((100 + number, FEATURES), np.float32))
        block[name_inner(kind)] = torch.arange(20 + number)
    for number, relation in enumerate(RELATIONS):
        shape = (40 + KINDS.index(relation.target), 3 + number)
        block[relation.name] = torch.from_numpy(rng.integers(-1, 3, shape))
    block["seeds"] = torch.tensor([1, 0, 2, 1, 0])
    return {name: block[name] for name in list_inputs()}


def write_program(weights: Weights, output: Path, counter: Counter) -> None:
    """Write model.pt2. Each of its inputs has its own length; torch.export names them by argument and key."""
    counter.stage("building", 1)
    block = make_block(np.random.default_rng(0))
    drawn = {relation.name for relation in RELATIONS}
    free = {name: dict.fromkeys(range(2 if name in drawn else 1), torch.export.Dim.AUTO) for name in block}
    with torch.no_grad():
        program = torch.export.export(RelationalGraphAttention(weights), (block,), dynamic_shapes={"block": free})
    torch.export.save(program, output / MODEL)
    counter.bump(1)


# The weights of the reference's checkpoint, by their names in it, those of DGL's graph attention.

STATE = "model_state_dict"
# The reference stores the network in an object that names its layers a second time, without this prefix.
PREFIXES = ("model.", "")
_FIX = "download the reference checkpoint again, as described by `reconcile fetch rgat`"
Weights = Mapping[str, torch.Tensor]


def name_weight(layer: int, relation: str, part: str) -> str:
    """Name a weight. ``part``: fc.weight [heads * width, features], attn_l and attn_r [1, heads, width], bias [heads *
    width]."""
    return f"layers.{layer}.mods.{relation}.{part}"


def list_shapes(heads: int, width: int, classes: int) -> dict[str, tuple[int, ...]]:
    """List the shapes of all weights of a network with this number of heads and this width of each."""
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
    """Read weights as float32. Raises HarnessError naming the file, and the first weight that is missing or
    misshapen."""
    state = load_state(path, "R-GAT", _FIX, name=STATE)
    first = name_weight(0, RELATIONS[0].name, "attn_l")
    prefix = next((prefix for prefix in PREFIXES if prefix + first in state), None)
    if prefix is None or state[prefix + first].ndim != 3:
        raise HarnessError(f"{path} has no weight {first}", "input", _FIX)
    _, heads, width = state[prefix + first].shape
    classes = len(state.get(f"{prefix}linear.bias", ()))
    weights = {}
    for name, shape in list_shapes(heads, width, classes).items():
        weight = state.get(prefix + name)
        if weight is None or tuple(weight.shape) != shape:
            found = "is missing" if weight is None else f"is {list(weight.shape)}, expected {list(shape)}"
            raise HarnessError(f"{path}: {name} {found}", "input", _FIX)
        weights[name] = weight.float()
    return weights
