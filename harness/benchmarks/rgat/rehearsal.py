"""A small graph of made-up papers, and a checkpoint of a network as deep as the reference's that separates them: the
labels are its own answers in fp32."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from harness.benchmarks.rgat.blocks import Blocks, name_input
from harness.benchmarks.rgat.checkpoint import STATE, Weights, list_shapes
from harness.benchmarks.rgat.graph import CITES, CLASSES, FEATURES, KINDS, PUBLISHED, SEEDS, Relation, list_inputs
from harness.benchmarks.rgat.igbh import (
    EDGES_FILE,
    FEATURES_FILE,
    LABELS_FILE,
    PROCESSED,
    SEEDS_FILE,
    prepare,
    read_published,
)
from harness.benchmarks.rgat.network import RelationalGraphAttention
from harness.contract import Counter

# A small graph of made-up papers, in the files of the full set.
#
# Papers, authors and topics belong to communities whose features are alike and whose edges mostly stay inside: what a
# paper is hardly depends on which neighbours are drawn, as in a real graph.

_BARE = ("paper", "author")  # features without a header
_COMMUNITY = {"paper": 12, "author": 18, "institute": 1, "fos": 3, "journal": 1, "conference": 1}
_ASKED = 4  # papers for each that is asked for
# Edges of a source, at most.
_EDGES = {"cites": 6, "written_by": 3, "affiliated_to": 1, "topic": 3, "published": 1, "venue": 1}
_STRAY = 0.01  # of edges lead anywhere
_NOISE = 0.1  # features in addition to what a community has in common


def write_graph(rng: np.random.Generator, folder: Path, count: int) -> NDArray[np.int64]:
    """Features, edges and random labels, below ``folder``. -> ``count`` papers that may be asked for."""
    communities = 1 + _ASKED * count // _COMMUNITY[SEEDS]
    nodes = {kind: each * communities for kind, each in _COMMUNITY.items()}
    common = rng.standard_normal((communities, FEATURES), np.float32)
    for kind in KINDS:
        (folder / kind).mkdir(parents=True)
        noise = rng.standard_normal((nodes[kind], FEATURES), np.float32)
        features = common[np.arange(nodes[kind]) % communities] + np.float32(_NOISE) * noise
        if kind in _BARE:
            features.tofile(folder / kind / FEATURES_FILE)
        else:
            np.save(folder / kind / FEATURES_FILE, features)
    for relation in PUBLISHED:
        (folder / relation.folder).mkdir()
        np.save(folder / relation.folder / EDGES_FILE, draw_edges(rng, relation, nodes, communities))
    rng.integers(0, CLASSES, nodes[SEEDS]).astype(np.float32).tofile(folder / LABELS_FILE)
    return rng.permutation(nodes[SEEDS])[:count]


def draw_edges(
    rng: np.random.Generator, relation: Relation, nodes: Mapping[str, int], communities: int
) -> NDArray[np.int64]:
    """[edges, 2], in no order. Node n is of community n % communities."""
    degrees = rng.integers(int(relation == CITES), _EDGES[relation.name] + 1, nodes[relation.source])
    sources = np.repeat(np.arange(nodes[relation.source]), degrees)
    members = rng.integers(0, nodes[relation.target] // communities, len(sources))
    targets = members * communities + sources % communities
    stray = rng.random(len(sources)) < _STRAY
    targets[stray] = rng.integers(0, nodes[relation.target], int(stray.sum()))
    return rng.permutation(np.stack([sources, targets], axis=1))


CHECKPOINT = "RGAT.pt"
_HEADS = 4
_WIDTHS = {"small": 8, "full": 128}  # of a head
_BATCH = 64


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    rng = np.random.default_rng(seed)
    folder = data / PROCESSED
    seeds = write_graph(rng, folder, count)
    torch.save(torch.from_numpy(seeds), folder / SEEDS_FILE)
    weights = draw_weights(rng, _WIDTHS[size])
    labels = np.fromfile(folder / LABELS_FILE, np.float32)
    labels[seeds] = _answer(weights, data, models, counter)
    labels.tofile(folder / LABELS_FILE)
    # The reference keeps the network in an object that names its layers once more.
    layers = {name: weight for name, weight in weights.items() if name.startswith("layers.")}
    state = {**{f"model.{name}": weight for name, weight in weights.items()}, **layers}
    torch.save({STATE: state}, models / CHECKPOINT)


def draw_weights(rng: np.random.Generator, width: int) -> Weights:
    """Their deviations keep the scale of values from layer to layer."""
    found = {}
    for name, shape in list_shapes(_HEADS, width, CLASSES).items():
        deviation = 0.05 if len(shape) == 1 else shape[-1] ** -0.5
        found[name] = torch.from_numpy(rng.normal(0, deviation, shape).astype(np.float32))
    return found


def _answer(weights: Weights, data: Path, scratch: Path, counter: Counter) -> NDArray[np.int64]:
    """The class of each paper that is asked for, from the files as any dataset's."""
    network = RelationalGraphAttention(weights)
    with tempfile.TemporaryDirectory(dir=scratch) as folder, torch.no_grad():
        published = read_published(data, real=False)
        prepare(published, "float32", 1, Path(folder), counter)
        collate, seeds = Blocks(Path(folder)), published.seeds
        counter.stage("building", len(seeds))
        found = []
        for start in range(0, len(seeds), _BATCH):
            part = seeds[start : start + _BATCH]
            given = collate({"nodes": part})
            block = {name: torch.from_numpy(given[name_input(name)]) for name in list_inputs()}
            found.append(network(block)["classes"][: len(part)].argmax(1).numpy())
            counter.bump(len(part))
        return np.concatenate(found)
