"""A small graph of made-up papers, in the files of the full set.

Papers, authors and topics belong to communities whose features are alike and whose edges mostly stay inside: what a
paper is hardly depends on which neighbours are drawn, as in a real graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.rgat.graph import CITES, CLASSES, FEATURES, KINDS, PUBLISHED, SEEDS, Relation
from harness.benchmarks.rgat.igbh import EDGES_FILE, FEATURES_FILE, LABELS_FILE

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
