"""DLRMv3's HSTU for torch.export: one row per request, with its items already looked up.

The computation follows the plain PyTorch path of recommendation/dlrm_v3 in mlcommons/inference, with one request per
batch, since the reference divides attention by the longest request of a batch, which here is the request itself. All
times in the dataset are equal, so the reference's time encoders produce constants.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch.nn import functional

from harness.benchmarks.dlrm_v3 import layers
from harness.benchmarks.dlrm_v3.layers import HstuShape, name_layer
from harness.benchmarks.saved_tensors import NamedWeights

MODEL = "model.pt2"
OUTPUT = "probability"
_MOST_HISTORY, _MOST_CANDIDATES, _MOST_REQUESTS = 16_384, 2048, 4096
_NORMED, _INNER_NORMED = 1e-5, 1e-6
_CATEGORIES = "item_categories"  # name of the table's attribute
Tensors = Mapping[str, torch.Tensor]


class Hstu(NamedWeights):
    """``weights``: those of ``list_weights``, by name; ``categories``: the table of categories."""

    def __init__(self, weights: Tensors, categories: torch.Tensor, shape: HstuShape) -> None:
        super().__init__({**weights, _CATEGORIES: categories})
        self._shape = shape
        self.register_buffer("bits", torch.tensor(layers.ACTIONS, dtype=torch.int32))
        # Every request has the first hour and the first weekday, so cosine 1 and sine 0, twice.
        self.register_buffer("hour_and_day", torch.tensor([1.0, 0.0, 1.0, 0.0]))

    def forward(
        self,
        history: torch.Tensor,
        history_categories: torch.Tensor,
        actions: torch.Tensor,
        length: torch.Tensor,
        user: torch.Tensor,
        candidates: torch.Tensor,
        candidate_categories: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Map ``history`` [requests, longest, embedding], whose first ``length`` items are valid, ``user`` [requests,
        embedding] and ``candidates`` [requests, count, embedding] to the likelihood of each like, [requests, count]."""
        kind = self.weight(layers.USER_WEIGHT).dtype
        history, user, candidates = history.to(kind), user.to(kind), candidates.to(kind)
        of_history, of_candidates = self._look_up(history_categories), self._look_up(candidate_categories)
        known = self._prepare(history, of_history, self._explode(actions))
        asked = self._prepare(candidates, of_candidates, self.weight(layers.TARGET_ACTIONS))
        count = candidates.shape[1]
        # A request that is too short omits its user, but the user's position remains.
        user = user * (length + count >= layers.LEAST_REQUEST).unsqueeze(1).to(kind)
        first = user @ self.weight(layers.USER_WEIGHT)[0] + self.weight(layers.USER_BIAS)
        known = torch.cat([first.unsqueeze(1), known], dim=1)
        known, asked = self._place(known, asked, length)
        inside = torch.arange(known.shape[1], device=length.device).unsqueeze(0) <= length.unsqueeze(1)
        total = (length + count + 1).to(torch.float32).view(-1, 1, 1, 1)
        for layer in range(self._shape.layers):
            known, asked = self._attend(layer, known, asked, inside, total)
        items = self._apply_mlp(layers.ITEM_MLP, torch.cat([candidates, of_candidates], dim=-1))
        joined = self._apply_mlp(layers.PREDICTION, self._finish(asked) * items, normed=False)
        return {OUTPUT: joined.squeeze(-1).sigmoid()}

    def _look_up(self, categories: torch.Tensor) -> torch.Tensor:
        return functional.embedding(categories, self.weight(_CATEGORIES))

    def _explode(self, actions: torch.Tensor) -> torch.Tensor:
        """Concatenate the rows of the actions with set bits."""
        table = self.weight(layers.ACTION_TABLE)
        found = (actions.unsqueeze(-1) & self.bits) > 0
        return (found.unsqueeze(-1).to(table.dtype) * table).flatten(-2)

    def _prepare(self, items: torch.Tensor, categories: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        found = self._apply_mlp(layers.CONTENT_MLP, items) + self._apply_mlp(layers.CATEGORY_MLP, categories)
        return found + self._apply_mlp(layers.ACTION_MLP, actions)

    def _place(
        self, known: torch.Tensor, asked: torch.Tensor, length: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add each item's position, which is counted back from the candidates; the user's is 0."""
        table, time = self.weight(layers.POSITIONS), self.weight(layers.TIMES)[0]
        column = torch.arange(known.shape[1], device=length.device).unsqueeze(0)
        back = (length.unsqueeze(1) + 2 - column).clamp(1, table.shape[0] - 1)
        back = torch.where(column == 0, torch.zeros_like(back), back)
        scale = self._shape.width**0.5
        return known * scale + functional.embedding(back, table) + time, asked * scale + table[1] + time

    def _attend(
        self, layer: int, known: torch.Tensor, asked: torch.Tensor, inside: torch.Tensor, total: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute attention. Known items attend to earlier ones and themselves; a candidate attends to all known items
        and itself."""
        size, heads = self._shape, layers.HEADS
        scale = size.attention**-0.5
        gates, values, queries, keys = zip(
            *(self._project(layer, rows, heads * size.linear, heads * size.attention) for rows in (known, asked)),
            strict=True,
        )
        (old, new), (old_keys, new_keys), (old_values, new_values) = (
            tuple(self._split(rows) for rows in pair) for pair in (queries, keys, values)
        )
        places = torch.arange(known.shape[1], device=known.device)
        back = (places.unsqueeze(0) <= places.unsqueeze(1)) & inside.view(-1, 1, 1, inside.shape[1])
        seen = functional.silu(old @ old_keys.transpose(-1, -2) * scale) * back.to(old.dtype)
        shown = functional.silu(new @ old_keys.transpose(-1, -2) * scale)
        shown = shown * inside.view(-1, 1, 1, inside.shape[1]).to(new.dtype)
        itself = functional.silu((new * new_keys).sum(-1, keepdim=True) * scale)
        attended = (seen @ old_values / total, (shown @ old_values + itself * new_values) / total)
        outputs = (
            self._add_output(layer, rows, gate, found.to(rows.dtype))
            for rows, gate, found in zip((known, asked), gates, attended, strict=True)
        )
        known, asked = outputs
        return known, asked

    def _project(
        self, layer: int, rows: torch.Tensor, linear: int, attention: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return gates, values, queries and keys."""
        normed = self._normalize(rows, name_layer(layer, "input_norm_{}"), _INNER_NORMED)
        joint = normed @ self.weight(name_layer(layer, "uvqk_weight")) + self.weight(name_layer(layer, "uvqk_beta"))
        gates, values, queries, keys = joint.split([linear, linear, attention, attention], dim=-1)
        return functional.silu(gates), values, queries, keys

    def _split(self, rows: torch.Tensor) -> torch.Tensor:
        """Split to [requests, heads, rows, width of a head]."""
        return rows.unflatten(-1, (layers.HEADS, -1)).transpose(1, 2)

    def _add_output(self, layer: int, rows: torch.Tensor, gate: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        found = found.transpose(1, 2).flatten(2)
        gated = gate * self._normalize(found, name_layer(layer, "output_norm_{}"), _INNER_NORMED)
        return rows + torch.cat([gate, found, gated], dim=-1) @ self.weight(name_layer(layer, "output_weight"))

    def _finish(self, asked: torch.Tensor) -> torch.Tensor:
        name = f"{layers.POSTPROCESSOR}._time_feature_combiner"
        times = self.hour_and_day.to(asked.dtype)
        timed = torch.cat([asked, times.expand(*asked.shape[:-1], -1)], dim=-1)
        combined = functional.linear(timed, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"))
        return self._normalize(combined, layers.POSTPROCESSOR + "._layer_norm.{}", _NORMED)

    def _apply_mlp(self, name: str, rows: torch.Tensor, *, normed: bool = True) -> torch.Tensor:
        inner = functional.linear(rows, self.weight(f"{name}.0.weight"), self.weight(f"{name}.0.bias"))
        inner = inner * self._normalize(inner, name + ".1.{}", _NORMED).sigmoid()
        outer = functional.linear(inner, self.weight(f"{name}.2.weight"), self.weight(f"{name}.2.bias"))
        return self._normalize(outer, name + ".3.{}", _NORMED) if normed else outer

    def _normalize(self, rows: torch.Tensor, name: str, least: float) -> torch.Tensor:
        weight, bias = (self.weight(name.format(what)) for what in ("weight", "bias"))
        return functional.layer_norm(rows, (rows.shape[-1],), weight, bias, least)


def write_program(weights: Tensors, categories: torch.Tensor, shape: HstuShape, output: Path) -> None:
    """Write model.pt2, for any number of requests, history items, and candidates."""
    rows, longest, count = 2, 5, 3
    embedded, numbers = torch.float16, torch.int32
    given = {
        "history": torch.zeros(rows, longest, shape.embedding, dtype=embedded),
        "history_categories": torch.zeros(rows, longest, dtype=numbers),
        "actions": torch.ones(rows, longest, dtype=numbers),
        "length": torch.full((rows,), longest, dtype=numbers),
        "user": torch.zeros(rows, shape.embedding, dtype=embedded),
        "candidates": torch.zeros(rows, count, shape.embedding, dtype=embedded),
        "candidate_categories": torch.zeros(rows, count, dtype=numbers),
    }
    requests = torch.export.Dim("requests", min=1, max=_MOST_REQUESTS)
    items = torch.export.Dim("items", min=2, max=_MOST_HISTORY)
    choices = torch.export.Dim("choices", min=2, max=_MOST_CANDIDATES)
    free: dict[str, dict[int, object]] = {name: {0: requests} for name in given}
    for name in ("history", "history_categories", "actions"):
        free[name][1] = items
    for name in ("candidates", "candidate_categories"):
        free[name][1] = choices
    network = Hstu({name: tensor.float() for name, tensor in weights.items()}, categories.float(), shape)
    with torch.no_grad(), tempfile.TemporaryDirectory(dir=output.parent) as folder:
        program = torch.export.export(network.eval(), (), given, dynamic_shapes=free)
        torch.export.save(program, Path(folder) / MODEL)
        (Path(folder) / MODEL).replace(output / MODEL)
