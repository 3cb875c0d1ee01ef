"""A small graph of generated papers, and a checkpoint of a network with the reference's depth that separates them. The
labels are its own answers in fp32."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from harness.benchmarks.rgat.blocks import CLASSES, Blocks, list_inputs, name_input
from harness.benchmarks.rgat.igbh import LABELS_FILE, PROCESSED, SEEDS_FILE, prepare, read_published, write_graph
from harness.benchmarks.rgat.network import STATE, RelationalGraphAttention, Weights, list_shapes
from harness.contract import Counter

CHECKPOINT = "RGAT.pt"
_HEADS = 4
_WIDTHS = {"small": 8, "full": 128}  # width of a head
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
    # The reference stores the network in an object that names its layers a second time.
    layers = {name: weight for name, weight in weights.items() if name.startswith("layers.")}
    state = {**{f"model.{name}": weight for name, weight in weights.items()}, **layers}
    torch.save({STATE: state}, models / CHECKPOINT)


def draw_weights(rng: np.random.Generator, width: int) -> Weights:
    """Draw weights whose deviations preserve the scale of values from layer to layer."""
    found = {}
    for name, shape in list_shapes(_HEADS, width, CLASSES).items():
        deviation = 0.05 if len(shape) == 1 else shape[-1] ** -0.5
        found[name] = torch.from_numpy(rng.normal(0, deviation, shape).astype(np.float32))
    return found


def _answer(weights: Weights, data: Path, scratch: Path, counter: Counter) -> NDArray[np.int64]:
    """Return the class of each requested paper, from files read like any dataset's."""
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
