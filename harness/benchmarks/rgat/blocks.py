"""Network inputs for a batch of papers: their neighbourhood, and the features of all its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.run.qsl import Arrays

# From graph/R-GAT of mlcommons/inference: dgl_utilities/feature_fetching.py (nodes, relations, and those added in the
# other direction), backend_dgl.py (numbers of neighbours), tools/split_seeds.py (requested papers).

SEEDS = "paper"  # the kind of the requested nodes
# Sizes of the full set.
NODES = {
    "paper": 269_346_174,
    "author": 277_220_883,
    "institute": 26_918,
    "fos": 712_960,
    "journal": 49_052,
    "conference": 4_547,
}
KINDS = tuple(NODES)
FEATURES = 1024  # features of a node
CLASSES = 2983
LABELLED = 157_675_969  # the first papers; each has one of those classes
SAMPLES = 788_379  # 0.5 % of the labelled papers
# How many neighbours are drawn for each relation: for the requested papers, for the nodes reached from them, and so on.
FANOUTS = (15, 10, 5)
LAYERS = len(FANOUTS)


class Relation(NamedTuple):
    """Edges from nodes of one kind to nodes of another; a node aggregates the sources of its edges."""

    source: str
    name: str
    target: str

    @property
    def folder(self) -> str:
        return "__".join(self)


PUBLISHED = (
    Relation("paper", "cites", "paper"),
    Relation("paper", "written_by", "author"),
    Relation("author", "affiliated_to", "institute"),
    Relation("paper", "topic", "fos"),
    Relation("paper", "published", "journal"),
    Relation("paper", "venue", "conference"),
)
CITES = PUBLISHED[0]  # this relation has both directions, and each paper cites itself once
REVERSED = {
    relation: Relation(relation.target, f"rev_{relation.name}", relation.source)
    for relation in PUBLISHED
    if relation != CITES
}
RELATIONS = (*PUBLISHED, *REVERSED.values())


@cache
def list_kinds(hop: int) -> tuple[str, ...]:
    """List the kinds that are first reached after this many steps."""
    if not hop:
        return (SEEDS,)
    targets = list_kinds(hop - 1)
    sources = {relation.source for relation in RELATIONS if relation.target in targets}
    return tuple(kind for kind in KINDS if kind in sources)


@cache
def list_relations(hop: int) -> tuple[Relation, ...]:
    """List the relations in which neighbours are drawn for nodes that were reached after this many steps."""
    return tuple(relation for relation in RELATIONS if relation.target in list_kinds(hop))


def name_inner(kind: str) -> str:
    """Name the network input with one number for each node reached within one step."""
    return f"inner_{kind}"


def list_inputs() -> list[str]:
    """List the network's inputs: features of each kind, neighbours of each relation, the numbers of nodes reached
    within one step, and the positions of the samples."""
    names = [relation.name for relation in RELATIONS]
    return [*KINDS, *names, *map(name_inner, list_kinds(1)), "seeds"]


OUTPUTS = {"classes": ((CLASSES,), "float32")}


def name_features(kind: str) -> str:
    return f"features_{kind}.npy"


def name_adjacency(relation: Relation) -> tuple[str, str]:
    """Name the files with the bounds of each node's edges, and with the edges' sources."""
    return f"indptr_{relation.name}.npy", f"indices_{relation.name}.npy"


def name_input(name: str) -> str:
    """Name an entry of a block as torch.export calls it."""
    return f"block_{name}"


class Blocks:
    """Features and edges are memory-mapped, so a page is read when a node on it is reached."""

    def __init__(self, dataset: Path) -> None:
        def read(name: str) -> np.ndarray:
            array: np.ndarray = np.load(dataset / name, mmap_mode="r").view(np.ndarray)
            return array

        self._dataset = dataset
        self._features = {kind: read(name_features(kind)) for kind in KINDS}
        self.sampler = Sampler({each: Adjacency(*map(read, name_adjacency(each))) for each in RELATIONS})

    def __reduce__(self) -> tuple[Callable[[Path], Blocks], tuple[Path]]:
        """Pickle only the paths, since another process maps the files itself."""
        return Blocks, (self._dataset,)

    def __call__(self, samples: Arrays) -> Arrays:
        block = self.sampler.sample(samples["nodes"])
        features = {kind: self._features[kind][np.maximum(ids, 0)] for kind, ids in block.nodes.items()}
        return {name_input(name): array for name, array in {**features, **block.places}.items()}


def load_samples(dataset: Path) -> Arrays:
    return {"nodes": np.load(dataset / "nodes.npy")}


def postprocess(outputs: Outputs) -> np.ndarray:
    """Return the class of the highest score, int64 [samples]."""
    return np.asarray(outputs[0].argmax(axis=-1), np.int64)


# Neighbours of nodes, drawn as in the reference: each node of a batch once, with the fan-out of the hop that reaches it
# first, without replacement, a fixed number for each relation.
#
# Draws come from a hash of the node, so they are the same in every run, and any number of threads can draw at once. No
# library in the field does this: DGL, which provides the reference's sampler, only has packages for older versions of
# PyTorch, pyg-lib's wheels are not on PyPI, and torch-sparse is only distributed as source, last in 2023. Their draws
# differ from run to run.

Ids = NDArray[np.int64]
NO_NODE = -1  # replaces a node if there are fewer than the row has room for
_LEAST = 2  # minimum rows and columns of each input, since a compiled program may treat an axis of one as fixed
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_WORD = 1 << 64


@dataclass(frozen=True, slots=True, eq=False)
class Adjacency:
    """A relation by its targets: ``indices[indptr[n]:indptr[n + 1]]`` are the sources of the edges to node n."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]

    def draw(self, targets: Ids, fanout: int, salt: int) -> Ids:
        """Draw [targets, at most ``fanout``], padded with NO_NODE."""
        there = np.maximum(targets, 0)
        starts = self.indptr[there]
        degrees = np.where(targets >= 0, self.indptr[there + 1] - starts, 0)
        width = max(_LEAST, min(fanout, int(degrees.max(initial=0))))
        columns = np.arange(width)
        chosen = np.where(columns < degrees[:, None], columns, NO_NODE)
        many = np.flatnonzero(degrees > fanout)
        if len(many):
            chosen[many] = choose(targets[many], degrees[many], fanout, salt)
        drawn = chosen >= 0
        found = np.full(chosen.shape, NO_NODE, np.int64)
        found[drawn] = self.indices[(starts[:, None] + chosen)[drawn]]
        return found


def choose(nodes: Ids, degrees: Ids, count: int, salt: int) -> Ids:
    """Choose [nodes, count]: different numbers below each node's degree, which exceeds ``count`` (Floyd's
    algorithm)."""
    found = np.empty((len(nodes), count), np.int64)
    for place in range(count):
        last = degrees - count + place
        drawn = (hash_nodes(nodes, (salt << 8) + place) % (last + 1).astype(np.uint64)).astype(np.int64)
        taken = (found[:, :place] == drawn[:, None]).any(axis=1)
        found[:, place] = np.where(taken, last, drawn)
    return found


def hash_nodes(nodes: Ids, salt: int) -> NDArray[np.uint64]:
    """Return pseudorandom numbers (SplitMix64)."""
    value = nodes.astype(np.uint64) * np.uint64(_STEP) + np.uint64((salt + 1) * _FIRST % _WORD)
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        value = (value ^ (value >> np.uint64(shift))) * np.uint64(factor)
    return value ^ (value >> np.uint64(31))


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Nodes of a batch. ``nodes``: those of each kind, in the order in which they are reached. ``places``: further
    network inputs by name: the positions of neighbours among those nodes, and of the samples."""

    nodes: Mapping[str, Ids]
    places: Mapping[str, Ids]


class Sampler:
    def __init__(self, graph: Mapping[Relation, Adjacency]) -> None:
        self._graph = graph

    def sample(self, seeds: Ids) -> Block:
        reached = {kind: _Reached() for kind in KINDS}
        reached[SEEDS].add(0, seeds)
        neighbours: dict[Relation, list[Ids]] = {relation: [] for relation in RELATIONS}
        for hop, fanout in enumerate(FANOUTS):
            drawn = {
                relation: self._graph[relation].draw(
                    reached[relation.target].hops[hop], fanout, RELATIONS.index(relation)
                )
                for relation in list_relations(hop)
            }
            for kind in list_kinds(hop + 1):
                found = [ids.ravel() for relation, ids in drawn.items() if relation.source == kind]
                reached[kind].add(hop + 1, np.concatenate(found))
            for relation, ids in drawn.items():
                neighbours[relation].append(reached[relation.source].find(ids))
        places = {relation.name: _stack(found) for relation, found in neighbours.items()}
        for kind in list_kinds(1):
            places[name_inner(kind)] = np.arange(sum(len(ids) for hop, ids in reached[kind].hops.items() if hop < 2))
        places["seeds"] = np.zeros(max(_LEAST, len(seeds)), np.int64)
        places["seeds"][: len(seeds)] = reached[SEEDS].find(seeds)
        nodes = {kind: np.concatenate([*each.hops.values()]) for kind, each in reached.items()}
        return Block(nodes, places)


def _stack(parts: Sequence[Ids]) -> Ids:
    """Stack rows of different lengths, padded with NO_NODE."""
    width = max(part.shape[1] for part in parts)
    filled = [np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=NO_NODE) for part in parts]
    return np.concatenate(filled)


class _Reached:
    """Nodes of a kind. ``hops``: newly reached ones, by hop."""

    def __init__(self) -> None:
        self.hops: dict[int, Ids] = {}
        self._count = 0
        self._ids = self._places = np.empty(0, np.int64)  # in the order of the ids

    def add(self, hop: int, ids: Ids) -> None:
        """Add nodes, which may include known ones, duplicates and NO_NODE."""
        found = np.unique(ids)
        fresh = found[(self.find(found) < 0) & (found >= 0)]
        padding = _LEAST - len(fresh) if hop < LAYERS else 0
        self.hops[hop] = np.concatenate([fresh, np.full(max(0, padding), NO_NODE)])
        known = np.concatenate([self._ids, fresh])
        order = np.argsort(known, kind="stable")
        places = np.concatenate([self._places, self._count + np.arange(len(fresh))])
        self._ids, self._places = known[order], places[order]
        self._count += len(self.hops[hop])

    def find(self, ids: Ids) -> Ids:
        """Find the nodes' positions, or NO_NODE where there is none."""
        if not len(self._ids):
            return np.full(ids.shape, NO_NODE, np.int64)
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return np.where(self._ids[at] == ids, self._places[at], NO_NODE)
