"""A small stream and a checkpoint, both in the reference's formats.

Tables, histories and candidates are reduced, and the small network has two layers instead of five. What a user likes is
predicted by the network itself in fp32.
"""

from __future__ import annotations

import io
import itertools
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from harness.benchmarks.dlrm_v3 import layers
from harness.benchmarks.dlrm_v3.checkpoint import DENSE, METADATA, SPARSE
from harness.benchmarks.dlrm_v3.generated_stream import Extent, GeneratedStream, GeneratedUser, write_stream
from harness.benchmarks.dlrm_v3.histories import WEIGHTS
from harness.benchmarks.dlrm_v3.layers import CATEGORIES, ITEMS, PREDICTION, USERS, HstuShape, list_weights
from harness.benchmarks.dlrm_v3.network import OUTPUT, Hstu
from harness.contract import Counter

CHECKPOINT = "dlrm-v3"
_SPREAD = 0.12  # scale of the network's logits: its entropy must not be below the published one's


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
    tables = {
        name: rng.normal(0, 1, (rows_of, made.shape.embedding)).astype(np.float16) for name, rows_of in rows.items()
    }
    network = _Foreseeing(weights, tables, made)
    came = stream.train()
    network.calibrate([(user, stream.draw_items(user)) for user in stream.users])
    asking = stream.infer(network.predict_logits, lambda: counter.bump(1))
    write_stream(data, stream.users, [*came, *asking])
    write_checkpoint(models / CHECKPOINT, weights, network.tables)


class _Foreseeing:
    """The network, called for one user at a time."""

    def __init__(self, weights: dict[str, Any], tables: Mapping[str, NDArray[np.float16]], made: RehearsedSize) -> None:
        self.tables, self._weights, self._shape, self._extent = tables, weights, made.shape, made.extent
        self._network = self._build()

    def calibrate(self, asked: Sequence[tuple[GeneratedUser, NDArray[np.int64]]]) -> None:
        """Shift logits so that half of the candidates are liked, with margins so small that entropy is high."""
        logits = np.concatenate([self.predict_logits(user, items) for user, items in asked])
        scale = _SPREAD / logits.std()
        weight, bias = (self._weights[f"{PREDICTION}.2.{what}"] for what in ("weight", "bias"))
        weight *= scale
        bias[...] = scale * (bias - np.median(logits))
        self._network = self._build()

    def predict_logits(self, user: GeneratedUser, items: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the logit for each item."""
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


_DEVICES = 2
_PERIODS = {"_period_units": [[3600.0, 86_400.0]], "_units_per_period": [[24.0, 7.0]]}  # hours of a day, days of a week
Weights = Mapping[str, NDArray[np.float32]]
Tables = Mapping[str, NDArray[np.float16]]


def draw_weights(rng: np.random.Generator, shape: HstuShape) -> dict[str, NDArray[np.float32]]:
    """Draw weights whose deviations preserve the scale of values from layer to layer."""
    found = {}
    for name, size in list_weights(shape).items():
        drawn = rng.normal(0, _find_deviation(name, size), size)
        norm = len(size) == 1 and name.endswith("weight")
        found[name] = (drawn + 1 if norm else drawn).astype(np.float32)
    return found


def _find_deviation(name: str, size: tuple[int, ...]) -> float:
    if len(size) == 1:
        return 0.05
    if name in (layers.ACTION_TABLE, layers.TARGET_ACTIONS):
        return 1.0
    inwards = size[0] if name.endswith(("uvqk_weight", "output_weight")) else size[1]
    return float((1.5 / inwards) ** 0.5)


def write_checkpoint(folder: Path, weights: Weights, tables: Tables) -> None:
    """Write sparse/ with the rows of each table shared out among the devices, and non_sparse.ckpt with the other data
    that training stores, which no run needs."""
    (folder / SPARSE).mkdir(parents=True)
    state: dict[str, Any] = {}
    places: dict[MetadataIndex, _StorageInfo] = {}
    parts = dict(_share_out(tables))
    for device in range(_DEVICES):
        file = f"__{device}_0.distcp"
        with (folder / SPARSE / file).open("wb") as stream:
            for (name, rank), (first, rows) in parts.items():
                if rank == device:
                    buffer = io.BytesIO()
                    torch.save(torch.from_numpy(rows), buffer)
                    index = MetadataIndex(_name_table(name), torch.Size([first, 0]), rank)
                    places[index] = _StorageInfo(file, stream.tell(), len(buffer.getvalue()))
                    stream.write(buffer.getvalue())
    for name, table in tables.items():
        chunks = [
            ChunkStorageMetadata(offsets=torch.Size([first, 0]), sizes=torch.Size(rows.shape))
            for (known, _), (first, rows) in parts.items()
            if known == name
        ]
        properties = TensorProperties(dtype=torch.float16)
        state[_name_table(name)] = TensorStorageMetadata(properties, torch.Size(table.shape), chunks)
    with (folder / SPARSE / METADATA).open("wb") as stream:
        pickle.dump(Metadata(state_dict_metadata=state, storage_data=places), stream)
    dense = {name: torch.from_numpy(tensor) for name, tensor in weights.items()}
    dense |= {f"{layers.POSTPROCESSOR}.{name}": torch.tensor(values) for name, values in _PERIODS.items()}
    actions = {f"{layers.PREPROCESSOR}._action_encoder._combined_action_weights": torch.tensor(layers.ACTIONS)}
    kept = {"dense_dict": dense | actions, "optimizer_dict": {}, "class_metrics": {}, "reg_metrics": {}}
    torch.save({**kept, "global_step": {}, "sparse_tensor_keys": set()}, folder / DENSE)


def _share_out(tables: Tables) -> Any:
    """Map (table, device) to the first row there, and the rows."""
    for name, table in tables.items():
        devices = _DEVICES if len(table) >= _DEVICES * 100 else 1
        bounds = np.linspace(0, len(table), devices + 1).astype(int).tolist()
        for device, (first, last) in enumerate(itertools.pairwise(bounds)):
            yield (name, device), (first, np.ascontiguousarray(table[first:last]))


def _name_table(name: str) -> str:
    return f"sparse_dict._embedding_collection.embeddings.{name}.weight"
