"""Compare R-GAT with the reference's code: edges, logits of a small network, and the printed accuracy.

    python -m tests.benchmarks.reference_rgat CHECKOUT

CHECKOUT is one of mlcommons/inference with the folder graph/R-GAT. Graph and weights are a rehearsal's. The reference
opens the graph; its sampler gets only the edges that ours drew, so that it draws the same, and its network computes its
blocks. Needs DGL 2.1 and SciPy; parts of DGL that are compiled for older versions of PyTorch are omitted.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from harness.benchmarks.accuracy import read_accuracy_log, write_top1
from harness.benchmarks.mapped_arrays import NPY
from harness.benchmarks.rgat import load_samples
from harness.benchmarks.rgat.blocks import (
    CLASSES,
    FEATURES,
    KINDS,
    LAYERS,
    RELATIONS,
    SEEDS,
    Blocks,
    list_inputs,
    name_adjacency,
    name_input,
)
from harness.benchmarks.rgat.igbh import FEATURES_FILE, LABELS_FILE, PROCESSED
from harness.benchmarks.rgat.network import STATE, RelationalGraphAttention, read_checkpoint
from harness.benchmarks.rgat.rehearsal import CHECKPOINT
from tests.benchmarks.comparing import rehearse, run_script, write_log

COUNT = 96
SIZE = "tiny"  # the reference reads npy files of its smaller sets; the full one's are bare values
_UNUSED = ("dgl.graphbolt", "dgl.distributed", "pandas")  # imported, and not needed
TOLERANCE = 1e-5  # of logits between -10 and 10: sums of 1,024 products, in another order


def main(checkout: Path) -> int:
    reference = checkout / "graph/R-GAT"
    for name in _UNUSED:
        sys.modules[name] = mock.MagicMock()
    sys.path.insert(0, str(reference))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dataset = make(folder)
        same = [compare_networks(folder, dataset), compare_scores(reference, folder, dataset)]
    return 0 if all(same) else 1


def make(folder: Path) -> Path:
    """Write data/ and models/ of a rehearsal, also in the reference's format, and the prepared data."""
    rehearse(folder, "rgat", count=COUNT, seed=1)
    data = folder / "data"
    (data / SIZE).mkdir()
    (data / PROCESSED).rename(data / SIZE / "processed")
    for name, width in [*((f"{kind}/{FEATURES_FILE}", FEATURES) for kind in KINDS), (LABELS_FILE, 0)]:
        path = data / SIZE / "processed" / name
        if not path.read_bytes().startswith(NPY):
            values = np.fromfile(path, np.float32)
            np.save(path, values.reshape(-1, width) if width else values)
    return folder / "dataset"


def open_graph(data: Path) -> tuple[Any, Any, Any]:
    """Return the reference's graph with all edges, its features and its classes' module. Its node counts, which are
    constants, are replaced by the generated ones."""
    fetching = importlib.import_module("dgl_utilities.feature_fetching")
    components = importlib.import_module("dgl_utilities.components")
    features = fetching.Features(str(data), SIZE, in_memory=True, use_fp16=False)
    features.build_features(use_journal_conference=True)
    structure = object.__new__(fetching.IGBHeteroGraphStructure)
    structure.dir, structure.dataset_size, structure.in_memory = str(data), SIZE, True
    structure.use_journal_conference, structure.multithreading = True, False
    structure.separate_sampling_aggregation, structure.label_file = False, Path(LABELS_FILE).name
    structure.num_nodes = {kind: len(values) for kind, values in features.feature.items()}
    structure.edge_dict, structure.label = structure.load_edge_dict(), structure.load_labels()
    return components.build_graph(structure, "dgl", features=features), features, components


def compare_networks(folder: Path, dataset: Path) -> bool:
    import dgl

    graph, features, components = open_graph(folder / "data")
    edges = all(same_edges(graph, relation, dataset) for relation in RELATIONS)
    print(f"edges of {len(RELATIONS)} relations, {graph.num_edges():,} in all: {'same' if edges else 'DIFFERENT'}")
    weights = read_checkpoint(folder / "models" / CHECKPOINT)
    ours = RelationalGraphAttention(weights)
    theirs = components.RGAT(
        backend="dgl",
        device="cpu",
        graph=graph,
        in_feats=FEATURES,
        h_feats=weights["linear.weight"].shape[1],
        num_classes=CLASSES,
        num_layers=LAYERS,
        n_heads=ours.heads,
    ).eval()
    theirs.load_state_dict(torch.load(folder / "models" / CHECKPOINT)[STATE])
    collate, papers = Blocks(dataset), load_samples(dataset)["nodes"]
    worst, largest = 0.0, 0.0
    for size in (1, 7, 64):
        seeds = papers[:size]
        given = {name: torch.from_numpy(array) for name, array in collate({"nodes": seeds}).items()}
        drawn = dgl.heterograph(draw_edges(collate, seeds), {kind: graph.num_nodes(kind) for kind in KINDS})
        drawn.nodes[SEEDS].data["label"] = graph.nodes[SEEDS].data["label"]
        with torch.no_grad():
            batch = components.PyGSampler([5, 10, 15]).sample(drawn, {SEEDS: torch.from_numpy(seeds)})
            expected, _ = theirs(batch, torch.device("cpu"), features)
            found = ours({name: given[name_input(name)] for name in list_inputs()})["classes"][:size]
        worst = max(worst, float((found - expected).abs().max()))
        largest = max(largest, float(expected.abs().max()))
    print(f"logits of batches of 1, 7 and 64: differ by {worst:.1e} at most, the largest is {largest:.1f}")
    return edges and worst <= TOLERANCE


def same_edges(graph: Any, relation: Any, dataset: Path) -> bool:
    """Return True if the prepared edges are the reference's, with equal multiplicity."""
    indptr, indices = (np.load(dataset / name) for name in name_adjacency(relation))
    targets = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    ours = np.stack([targets, indices[: indptr[-1]]])
    theirs = np.stack([edge.numpy() for edge in graph.edges(etype=tuple(relation))[::-1]])
    return np.array_equal(ours[:, np.lexsort(ours)], theirs[:, np.lexsort(theirs)])


def draw_edges(collate: Blocks, seeds: np.ndarray) -> Mapping[Any, Any]:
    """Return the edges drawn for a batch, as edges of the complete graph."""
    block = collate.sampler.sample(seeds)
    found = {}
    for relation in RELATIONS:
        rows, columns = np.nonzero(block.places[relation.name] >= 0)
        sources = block.nodes[relation.source][block.places[relation.name][rows, columns]]
        found[tuple(relation)] = (torch.from_numpy(sources), torch.from_numpy(block.nodes[relation.target][rows]))
    return found


def compare_scores(reference: Path, folder: Path, dataset: Path) -> bool:
    """Compare the official script's line with ours for right, half-right and random answers."""
    labels, rng = np.load(dataset / "labels.npy"), np.random.default_rng(3)
    half = np.where(np.arange(COUNT) % 2, labels, (labels + 1) % CLASSES)
    lines = []
    for answers in (labels, half, rng.permutation(labels)):
        log = write_log(folder, np.asarray(answers, np.int64))
        command = [sys.executable, "tools/accuracy_igbh.py", "--mlperf-accuracy-file", log, "--dtype", "int64"]
        where = ["--dataset-path", folder / "data", "--dataset-size", SIZE, "--output-file", folder / "line"]
        run_script([*command, *where], cwd=reference)
        write_top1(read_accuracy_log(log), np.int64, labels, folder)
        lines.append(((folder / "line").read_text(), (folder / "accuracy.txt").read_text().strip()))
        print(f"official: {lines[-1][0]}   ours: {lines[-1][1]}")
    return all(theirs == ours for theirs, ours in lines)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
