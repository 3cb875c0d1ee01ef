"""IGB-Heterogeneous as published by its authors, checked completely, and the data that runs read from it.

In the full set, the features of papers and authors and the labels are bare values; in smaller sets they are npy files.
Both are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from harness.benchmarks.mapped_arrays import NPY, map_array, map_npy
from harness.benchmarks.rgat.blocks import (
    CITES,
    CLASSES,
    FEATURES,
    KINDS,
    LABELLED,
    NODES,
    PUBLISHED,
    REVERSED,
    SAMPLES,
    SEEDS,
    Relation,
    name_adjacency,
    name_features,
)
from harness.benchmarks.sources import (
    FileRule,
    check_files,
    choose_count,
    choose_dtype,
    count_threads,
    find_extra,
    is_rehearsal,
    require_source,
)
from harness.contract import Counter
from harness.errors import HarnessError

PROCESSED = "full/processed"
FEATURES_FILE, LABELS_FILE, EDGES_FILE = "node_feat.npy", f"{SEEDS}/node_label_2K.npy", "edge_index.npy"
SEEDS_FILE = "val_idx.pt"
_ROWS = 1 << 14  # nodes that a thread copies at a time: 64 MiB
_FIX = "download it again, as described by `reconcile fetch rgat`; nothing was prepared"
_SPLIT = f"write {SEEDS_FILE} with tools/split_seeds.py --dataset_size full of the reference; nothing was prepared"


class PublishedGraph(NamedTuple):
    """Memory-mapped: features [nodes, 1024] of each kind, labels [papers], edges [edges, 2] of each published relation;
    and the requested papers."""

    folder: Path
    features: Mapping[str, np.ndarray]
    labels: np.ndarray
    edges: Mapping[Relation, np.ndarray]
    seeds: np.ndarray


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write features_KIND.npy [nodes, 1024], indptr_RELATION.npy and indices_RELATION.npy; nodes.npy, the requested
    papers, and labels.npy, both int64."""
    dtype = choose_dtype(settings)
    source = require_source(source, "IGB-Heterogeneous")
    found = read_published(source, real=not is_rehearsal(source))
    count = choose_count(settings, len(found.seeds))
    prepare(found._replace(seeds=found.seeds[:count]), dtype, count_threads(settings), output, counter)


def prepare(found: PublishedGraph, dtype: str, threads: int, output: Path, counter: Counter) -> None:
    np.save(output / "nodes.npy", found.seeds)
    np.save(output / "labels.npy", found.labels[found.seeds].astype(np.int64))
    rows, edges = sum(map(len, found.features.values())), sum(map(len, found.edges.values()))
    counter.stage("building", rows + 4 * edges)  # each edge is written in both directions, in two passes
    with ThreadPoolExecutor(threads) as pool:  # copying and sorting release the interpreter lock
        work = [pool.submit(_write_edges, relation, found, output, counter) for relation in PUBLISHED]
        for kind, features in found.features.items():
            work.append(pool.submit(_copy, features, output / name_features(kind), dtype, counter))
        for each in work:
            each.result()


def read_published(source: Path, *, real: bool) -> PublishedGraph:
    """Read the graph. Raises HarnessError naming the file that is missing, truncated, or invalid. ``real``: the full
    set, whose counts are known."""
    folder = source / PROCESSED if (source / PROCESSED).is_dir() else source
    names = [*(f"{kind}/{FEATURES_FILE}" for kind in KINDS), LABELS_FILE]
    edges = [FileRule(f"{relation.folder}/{EDGES_FILE}", kind="npy file", start=NPY) for relation in PUBLISHED]
    check_files(folder, [*map(FileRule, names), *edges], fix=_FIX)
    if extra := find_extra(folder, (relation.folder for relation in PUBLISHED), "*__*"):
        raise HarnessError(f"{folder}: unknown relations: {', '.join(extra)}", "input", _FIX)
    features = {kind: map_array(folder / kind / FEATURES_FILE, "float32", FEATURES, _FIX) for kind in KINDS}
    labels = map_array(folder / LABELS_FILE, "float32", 0, _FIX)
    for kind, rows in features.items():
        if real and len(rows) != NODES[kind]:
            problem = f"{folder / kind / FEATURES_FILE} has {len(rows):,} rows, the full set has {NODES[kind]:,}"
            raise HarnessError(problem, "input", _FIX)
    if len(labels) != len(features[SEEDS]):
        papers = len(features[SEEDS])
        raise HarnessError(f"{folder / LABELS_FILE} has {len(labels):,} labels of {papers:,} papers", "input", _FIX)
    pairs = {
        relation: map_npy(folder / relation.folder / EDGES_FILE, ["int64", "int32"], 2, _FIX) for relation in PUBLISHED
    }
    return PublishedGraph(folder, features, labels, pairs, _read_seeds(folder / SEEDS_FILE, labels, real=real))


def _read_seeds(path: Path, labels: np.ndarray, *, real: bool) -> np.ndarray:
    from harness.benchmarks.saved_tensors import load_saved

    if not path.is_file():
        raise HarnessError(f"{path} is missing", "missing", _SPLIT)
    saved = load_saved(path, _SPLIT)
    seeds = np.asarray(saved)
    papers = LABELLED if real else len(labels)
    if seeds.ndim != 1 or seeds.dtype.kind != "i" or not len(seeds):
        raise HarnessError(
            f"{path} contains {seeds.dtype.name} {list(seeds.shape)}, not a list of papers", "input", _SPLIT
        )
    if real and len(seeds) != SAMPLES:
        raise HarnessError(f"{path} names {len(seeds):,} papers, but the round has {SAMPLES:,}", "input", _SPLIT)
    if seeds.min() < 0 or seeds.max() >= papers or len(np.unique(seeds)) != len(seeds):
        raise HarnessError(f"{path} contains duplicate papers, or papers not below {papers:,}", "input", _SPLIT)
    classes = labels[seeds]
    if not np.isin(classes, np.arange(CLASSES)).all():
        problem = f"{path.parent / LABELS_FILE} has labels outside 0 to {CLASSES - 1} for papers of {path.name}"
        raise HarnessError(problem, "input", _FIX)
    return seeds.astype(np.int64)


def _copy(rows: np.ndarray, path: Path, dtype: str, counter: Counter) -> None:
    features = npy.open_memmap(path, "w+", np.dtype(dtype), rows.shape)
    for start in range(0, len(rows), _ROWS):
        part = rows[start : start + _ROWS]
        features[start : start + len(part)] = part
        counter.bump(len(part))
    features.flush()


def _write_edges(relation: Relation, found: PublishedGraph, output: Path, counter: Counter) -> None:
    """Write both directions."""
    pairs = found.edges[relation]
    counts = len(found.features[relation.source]), len(found.features[relation.target])
    path = found.folder / relation.folder / EDGES_FILE

    def read(first: int) -> Edges:
        """Read the edges. ``first``: the column of the sources."""
        for start in range(0, len(pairs), AT_ONCE):
            part = np.asarray(pairs[start : start + AT_ONCE], np.int64)
            wrong = np.flatnonzero(((part < 0) | (part >= counts)).any(axis=1))
            if len(wrong):
                edge = start + int(wrong[0])
                problem = f"{path}: edge {edge:,} joins nodes {pairs[edge].tolist()} of {counts[0]:,} and {counts[1]:,}"
                raise HarnessError(problem, "input", _FIX)
            if relation == CITES:
                part = part[part[:, 0] != part[:, 1]]
            yield part[:, first], part[:, 1 - first]

    def read_both() -> Edges:
        yield from read(0)
        yield from read(1)
        for start in range(0, counts[0], AT_ONCE):
            papers = np.arange(start, min(start + AT_ONCE, counts[0]))
            yield papers, papers

    if relation == CITES:
        write_adjacency(read_both, counts[0], output, name_adjacency(relation), counter)
    else:
        backwards = REVERSED[relation]
        write_adjacency(partial(read, 0), counts[1], output, name_adjacency(relation), counter)
        write_adjacency(partial(read, 1), counts[0], output, name_adjacency(backwards), counter)


Edges = Iterator[tuple[np.ndarray, np.ndarray]]
"""Sources and targets, one part after the other."""
AT_ONCE = 1 << 22  # edges per part


def write_adjacency(
    read: Callable[[], Edges], nodes: int, output: Path, names: tuple[str, str], counter: Counter
) -> None:
    """Write an adjacency. ``read``: yields all edges, repeatedly. ``nodes``: number of targets. ``names``: names of the
    files with the bounds of each node's edges, int64 [nodes + 1], and with their sources, int32 [edges]."""
    indptr: NDArray[np.int64] = np.zeros(nodes + 1, np.int64)
    for _, targets in read():
        found, counts = np.unique(targets, return_counts=True)
        indptr[found + 1] += counts
        counter.bump(len(targets))
    np.cumsum(indptr, out=indptr)
    np.save(output / names[0], indptr)
    free = indptr[:-1]  # position of each node's next source
    # A file without edges cannot be mapped, so it gets one outside all nodes' bounds.
    indices = npy.open_memmap(output / names[1], "w+", np.dtype(np.int32), (max(int(indptr[-1]), 1),))
    for sources, targets in read():
        order = np.argsort(targets, kind="stable")
        ordered = targets[order]
        found, starts, counts = np.unique(ordered, return_index=True, return_counts=True)
        indices[free[ordered] + np.arange(len(ordered)) - np.repeat(starts, counts)] = sources[order]
        free[found] += counts
        counter.bump(len(targets))
    indices.flush()


# A small graph of generated papers, in the files of the full set.
#
# Papers, authors and topics belong to communities with similar features and mostly internal edges. So a paper's class
# hardly depends on which neighbours are drawn, as in a real graph.

_BARE = ("paper", "author")  # features without a header
_COMMUNITY = {"paper": 12, "author": 18, "institute": 1, "fos": 3, "journal": 1, "conference": 1}
_ASKED = 4  # number of papers for each requested one
# The maximum number of edges of a source.
_EDGES = {"cites": 6, "written_by": 3, "affiliated_to": 1, "topic": 3, "published": 1, "venue": 1}
_STRAY = 0.01  # share of edges with a random target
_NOISE = 0.1  # scale of the noise added to the features that a community shares


def write_graph(rng: np.random.Generator, folder: Path, count: int) -> NDArray[np.int64]:
    """Write features, edges and random labels below ``folder``; return ``count`` papers that can be requested."""
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
    """Draw edges [edges, 2], unordered. Node n belongs to community n % communities."""
    degrees = rng.integers(int(relation == CITES), _EDGES[relation.name] + 1, nodes[relation.source])
    sources = np.repeat(np.arange(nodes[relation.source]), degrees)
    members = rng.integers(0, nodes[relation.target] // communities, len(sources))
    targets = members * communities + sources % communities
    stray = rng.random(len(sources)) < _STRAY
    targets[stray] = rng.integers(0, nodes[relation.target], int(stray.sum()))
    return rng.permutation(np.stack([sources, targets], axis=1))
