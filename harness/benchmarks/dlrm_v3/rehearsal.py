"""A small stream in the reference's files, and a checkpoint in the reference's format.

Tables are cut, and so are histories and candidates, and the small network has two layers in the place of five. What a
user likes is what the network itself foresees in fp32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harness.benchmarks.dlrm_v3.generated_stream import Extent, GeneratedStream, GeneratedUser, write_stream
from harness.benchmarks.dlrm_v3.histories import WEIGHTS
from harness.benchmarks.dlrm_v3.layers import CATEGORIES, ITEMS, PREDICTION, USERS, HstuShape
from harness.benchmarks.dlrm_v3.network import OUTPUT, Hstu
from harness.benchmarks.dlrm_v3.random_checkpoint import draw_tables, draw_weights, write_checkpoint
from harness.contract import Counter

CHECKPOINT = "dlrm-v3"
_SPREAD = 0.12  # of the network's logits: its entropy is to be no lower than the published one's


@dataclass(frozen=True, slots=True)
class RehearsedSize:
    shape: HstuShape
    extent: Extent


SIZES = {
    "small": RehearsedSize(
        HstuShape(
            embedding=16, width=32, hidden=24, joined=48, linear=8, attention=4, layers=2, positions=256, times=9
        ),
        Extent(items=12_800, categories=128, candidates=16, seen=2),
    ),
    "full": RehearsedSize(HstuShape(), Extent(items=128_000, categories=128, candidates=2048, seen=100)),
}


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    rng = np.random.default_rng(seed)
    made = SIZES[size]
    stream = GeneratedStream(rng, made.extent, count)
    weights = draw_weights(rng, made.shape)
    rows = {ITEMS: made.extent.items, CATEGORIES: made.extent.categories, USERS: len(stream.users)}
    network = _Foreseeing(weights, draw_tables(rng, made.shape, rows), made)
    came = stream.train()
    network.calibrate([(user, stream.draw_items(user)) for user in stream.users])
    asking = stream.infer(network.foresee, lambda: counter.bump(1))
    write_stream(data, stream.users, [*came, *asking])
    write_checkpoint(models / CHECKPOINT, weights, network.tables)


class _Foreseeing:
    """The network, asked for one user at a time."""

    def __init__(self, weights: dict[str, Any], tables: Mapping[str, NDArray[np.float16]], made: RehearsedSize) -> None:
        self.tables, self._weights, self._shape, self._extent = tables, weights, made.shape, made.extent
        self._network = self._build()

    def calibrate(self, asked: Sequence[tuple[GeneratedUser, NDArray[np.int64]]]) -> None:
        """Half of what could be shown is liked, and by so little that entropy is high."""
        logits = np.concatenate([self.foresee(user, items) for user, items in asked])
        scale = _SPREAD / logits.std()
        weight, bias = (self._weights[f"{PREDICTION}.2.{what}"] for what in ("weight", "bias"))
        weight *= scale
        bias[...] = scale * (bias - np.median(logits))
        self._network = self._build()

    def foresee(self, user: GeneratedUser, items: NDArray[np.int64]) -> NDArray[np.float32]:
        """The logits of its liking each."""
        seen = np.array(user.seen)
        in_category = self._extent.in_category
        given = {
            "history": self.tables[ITEMS][seen],
            "history_categories": (seen // in_category).astype(np.int32),
            "actions": WEIGHTS[np.array(user.ratings).astype(np.int64)].astype(np.int32),
            "length": np.int32(len(seen)),
            "user": self.tables[USERS][user.number],
            "candidates": self.tables[ITEMS][items],
            "candidate_categories": (items // in_category).astype(np.int32),
        }
        with torch.no_grad():
            found = self._network(**{name: torch.from_numpy(np.array(rows)[None]) for name, rows in given.items()})
        logits: NDArray[np.float32] = found[OUTPUT].logit()[0].numpy()
        return logits

    def _build(self) -> Hstu:
        weights = {name: torch.from_numpy(tensor) for name, tensor in self._weights.items()}
        network = Hstu(weights, torch.from_numpy(self.tables[CATEGORIES]).float(), self._shape)
        network.eval()
        return network
