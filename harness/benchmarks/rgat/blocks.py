"""Inputs of the network for a batch of papers: their neighbourhood, and the features of everything in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness.backends import Outputs
from harness.benchmarks.rgat.graph import CLASSES, KINDS, RELATIONS, Relation
from harness.benchmarks.rgat.sampling import Adjacency, Sampler
from harness.run.qsl import Arrays

OUTPUTS = {"classes": ((CLASSES,), "float32")}
# The official script reads the first number of a response, of the type that its option names: as int32, too, these
# bytes are the class.
RESPONSE_DTYPE = "int64"


def name_features(kind: str) -> str:
    return f"features_{kind}.npy"


def name_adjacency(relation: Relation) -> tuple[str, str]:
    """Name the bounds of each node's edges, and their sources."""
    return f"indptr_{relation.name}.npy", f"indices_{relation.name}.npy"


def name_input(name: str) -> str:
    """Name an entry of a block as torch.export calls it."""
    return f"block_{name}"


class Blocks:
    """Features and edges are mapped: a page is read when a node on it is reached."""

    def __init__(self, dataset: Path) -> None:
        def read(name: str) -> np.ndarray:
            array: np.ndarray = np.load(dataset / name, mmap_mode="r").view(np.ndarray)
            return array

        self._dataset = dataset
        self._features = {kind: read(name_features(kind)) for kind in KINDS}
        self.sampler = Sampler({each: Adjacency(*map(read, name_adjacency(each))) for each in RELATIONS})

    def __reduce__(self) -> tuple[Callable[[Path], Blocks], tuple[Path]]:
        """Another process maps the files itself."""
        return Blocks, (self._dataset,)

    def __call__(self, samples: Arrays) -> Arrays:
        block = self.sampler.sample(samples["nodes"])
        features = {kind: self._features[kind][np.maximum(ids, 0)] for kind, ids in block.nodes.items()}
        return {name_input(name): array for name, array in {**features, **block.places}.items()}


def load_collate(dataset: Path) -> Blocks:
    return Blocks(dataset)


def load_samples(dataset: Path) -> Arrays:
    return {"nodes": np.load(dataset / "nodes.npy")}


def postprocess(outputs: Outputs) -> np.ndarray:
    """The class of the highest score, int64 [samples]."""
    return np.asarray(outputs[0].argmax(axis=-1), np.int64)
