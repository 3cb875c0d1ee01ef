"""A small stream in the reference's files, and a checkpoint in the reference's format.

Tables are cut, and so are histories and candidates, and the small network has two layers in the place of five. What a
user likes is what the network itself foresees in fp32.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
from harness.benchmarks.dlrm_v3.histories import LIKED, WEIGHTS
from harness.benchmarks.dlrm_v3.layers import CATEGORIES, ITEMS, PREDICTION, USERS, HstuShape, list_weights
from harness.benchmarks.dlrm_v3.network import OUTPUT, Hstu
from harness.benchmarks.dlrm_v3.stream_files import (
    FOLDER,
    LINES,
    OFFSETS,
    REQUEST_OFFSETS,
    REQUESTS,
    TIMESTAMPS,
    TRAINED,
    USER_COUNTS,
)
from harness.contract import Counter
from harness.errors import HarnessError

# A small stream in the reference's files.
#
# As users go on, timestamp by timestamp, what they like is what somebody foresees of them, with what they rated
# before.

_COMES = 0.7  # how likely a user does something at a timestamp
_INFERRED = TIMESTAMPS - TRAINED
_CATEGORIES_OF_A_USER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """``items`` and ``categories``: that there are; ``candidates``: of a request; ``seen``: items that a user sees at a
    timestamp, on average."""

    items: int
    categories: int
    candidates: int
    seen: int

    @property
    def in_category(self) -> int:
        return self.items // self.categories


@dataclass(slots=True)
class GeneratedUser:
    """``fields``: of the line; ``seen`` and ``ratings``: everything so far."""

    number: int
    categories: NDArray[np.int64]
    fields: list[str] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    ratings: list[float] = field(default_factory=list)

    def write(self, *step: Sequence[float]) -> None:
        """Write what could be shown, how it is liked, what was seen, and how that was rated."""
        self.fields += [",".join(map(str, values)) for values in step]

    def remember(self, seen: Sequence[int], ratings: Sequence[float]) -> None:
        self.seen += seen
        self.ratings += ratings


Foresee = Callable[[GeneratedUser, NDArray[np.int64]], NDArray[Any]]
"""How much a user will like each of some items: what is above 0 is liked."""


class GeneratedStream:
    def __init__(self, rng: np.random.Generator, extent: Extent, count: int) -> None:
        """``count``: requests at the timestamps of inference."""
        if count < _INFERRED:
            fix = f"ask for at least {_INFERRED}, one a timestamp"
            raise HarnessError(f"{count} samples are too few", "input", fix)
        self._rng, self._extent, self._count = rng, extent, count
        self.users = [
            GeneratedUser(number, rng.choice(extent.categories, _CATEGORIES_OF_A_USER, replace=False))
            for number in range(math.ceil(count / _INFERRED / _COMES))
        ]

    def train(self) -> list[list[int]]:
        """Until inference begins. Who came at each timestamp."""
        came = [self._train(timestamp) for timestamp in range(-1, TRAINED)][1:]
        for user in self.users:
            user.write(*self._make_step(user))  # for evaluation: nothing learns from it
        return came

    def infer(self, foresee: Foresee, asked: Callable[[], None]) -> list[list[int]]:
        """Who asks at each timestamp. ``asked`` is called for each request."""
        shares = [self._count // _INFERRED + (number < self._count % _INFERRED) for number in range(_INFERRED)]
        requests = [sorted(self._rng.choice(len(self.users), share, replace=False).tolist()) for share in shares]
        for asking in requests:
            for user in self.users:
                if user.number in asking:
                    self._ask(user, foresee)
                    asked()
                else:
                    user.write((), (), (), ())
        return requests

    def draw_items(self, user: GeneratedUser) -> NDArray[np.int64]:
        """As many as can be shown, of the user's categories."""
        count, inside = self._extent.candidates, self._extent.in_category
        found: NDArray[np.int64] = self._rng.choice(user.categories, count) * inside
        return found + self._rng.integers(0, inside, count)

    def _train(self, timestamp: int) -> list[int]:
        """Everybody comes before all timestamps."""
        came = []
        for user in self.users:
            if timestamp < 0 or self._rng.random() < _COMES:
                shown, likes, seen, ratings = self._make_step(user)
                user.write(shown, likes, seen, ratings)
                user.remember(seen, ratings)
                came.append(user.number)
            else:
                user.write((), (), (), ())
        return came

    def _make_step(self, user: GeneratedUser) -> tuple[list[Any], ...]:
        seen = self.draw_items(user)[: int(self._rng.integers(1, 2 * self._extent.seen))].tolist()
        ratings = (self._rng.integers(4, 21, len(seen)) / 4).tolist()
        return seen[:1], ratings[:1], seen, ratings

    def _ask(self, user: GeneratedUser, foresee: Foresee) -> None:
        shown, rng = self.draw_items(user), self._rng
        liked, least = foresee(user, shown) > 0, int(4 * LIKED)
        likes = np.where(liked, rng.integers(least, 21, len(shown)), rng.integers(4, least, len(shown))) / 4
        chosen = rng.choice(len(shown), int(rng.integers(1, min(2 * self._extent.seen, len(shown)))), replace=False)
        seen, ratings = shown[chosen].tolist(), likes[chosen].tolist()
        user.write(shown.tolist(), likes.tolist(), seen, ratings)
        user.remember(seen, ratings)


def write_stream(data: Path, users: Sequence[GeneratedUser], requests: Sequence[Sequence[int]]) -> None:
    folder = data / FOLDER
    folder.mkdir()
    offsets = _write_lines(folder / LINES, [user.fields for user in users])
    _write_lines(folder / OFFSETS, [[_join(offsets)]])
    places = _write_lines(folder / REQUESTS, [[_join(asking)] for asking in requests])
    _write_lines(folder / REQUEST_OFFSETS, [[_join(places)]])
    _write_lines(folder / USER_COUNTS, [[_join([len(asking)])] for asking in requests])


def _join(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _write_lines(path: Path, lines: Sequence[Sequence[str]]) -> list[int]:
    """Write the lines; gives where each begins."""
    offsets = []
    with path.open("w", encoding="ascii", newline="") as stream:
        writer = csv.writer(stream)
        for line in lines:
            offsets.append(stream.tell())
            writer.writerow(line)
    return offsets


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


_DEVICES = 2
_PERIODS = {"_period_units": [[3600.0, 86_400.0]], "_units_per_period": [[24.0, 7.0]]}  # an hour of a day, a day
Weights = Mapping[str, NDArray[np.float32]]
Tables = Mapping[str, NDArray[np.float16]]


def draw_weights(rng: np.random.Generator, shape: HstuShape) -> dict[str, NDArray[np.float32]]:
    """Their deviations keep the scale of values from layer to layer."""
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


def draw_tables(rng: np.random.Generator, shape: HstuShape, rows: Mapping[str, int]) -> dict[str, NDArray[np.float16]]:
    return {name: rng.normal(0, 1, (count, shape.embedding)).astype(np.float16) for name, count in rows.items()}


def write_checkpoint(folder: Path, weights: Weights, tables: Tables) -> None:
    """Write sparse/ with the rows of each table shared out among the devices, and non_sparse.ckpt with everything else
    that training keeps there, which is not needed."""
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
    """(table, device) -> its first row there, and the rows."""
    for name, table in tables.items():
        devices = _DEVICES if len(table) >= _DEVICES * 100 else 1
        bounds = np.linspace(0, len(table), devices + 1).astype(int).tolist()
        for device, (first, last) in enumerate(itertools.pairwise(bounds)):
            yield (name, device), (first, np.ascontiguousarray(table[first:last]))


def _name_table(name: str) -> str:
    return f"sparse_dict._embedding_collection.embeddings.{name}.weight"
