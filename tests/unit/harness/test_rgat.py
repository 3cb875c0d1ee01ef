"""R-GAT: neighbours are drawn as in the reference, damage is named, the network equals plain loops."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.benchmarks.rgat import igbh
from harness.benchmarks.rgat.blocks import (
    CITES,
    FANOUTS,
    FEATURES,
    KINDS,
    NO_NODE,
    PUBLISHED,
    RELATIONS,
    REVERSED,
    SEEDS,
    Adjacency,
    Blocks,
    Relation,
    Sampler,
    choose,
    list_inputs,
    list_kinds,
    name_inner,
    name_input,
)
from harness.benchmarks.rgat.igbh import write_graph
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Counter
from harness.errors import HarnessError

COUNT = 24
EDGES = f"{igbh.PROCESSED}/paper__cites__paper/{igbh.EDGES_FILE}"
PAPERS = f"{igbh.PROCESSED}/paper/{igbh.FEATURES_FILE}"
TOPICS = f"{igbh.PROCESSED}/fos/{igbh.FEATURES_FILE}"
LABELS = f"{igbh.PROCESSED}/{igbh.LABELS_FILE}"
WITHOUT = "PyTorch is not installed: pip install -e '.[rgat]'"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """data/ of a small graph, without the list of papers, which PyTorch writes."""
    folder = tmp_path_factory.mktemp("rgat") / "data"
    write_graph(np.random.default_rng(1), folder / igbh.PROCESSED, COUNT)
    (folder / REHEARSAL).write_text("{}")
    return folder


@pytest.fixture(scope="module")
def published(made: Path) -> igbh.PublishedGraph:
    features = {
        kind: igbh.map_array(made / igbh.PROCESSED / kind / igbh.FEATURES_FILE, "float32", FEATURES, "")
        for kind in KINDS
    }
    labels = igbh.map_array(made / LABELS, "float32", 0, "")
    edges = {
        relation: np.load(made / igbh.PROCESSED / relation.folder / igbh.EDGES_FILE, mmap_mode="r")
        for relation in PUBLISHED
    }
    seeds = np.random.default_rng(2).permutation(len(labels))[:COUNT]
    return igbh.PublishedGraph(made / igbh.PROCESSED, features, labels, edges, seeds)


@pytest.fixture(scope="module")
def dataset(published: igbh.PublishedGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    igbh.prepare(published, "float16", 2, folder, Counter(folder.with_name("counter")))
    return folder


def sources_of(adjacency: Adjacency, node: int) -> list[int]:
    return sorted(adjacency.indices[adjacency.indptr[node] : adjacency.indptr[node + 1]].tolist())


def open_graph(dataset: Path) -> dict[Relation, Adjacency]:
    names = {relation: (f"indptr_{relation.name}.npy", f"indices_{relation.name}.npy") for relation in RELATIONS}
    return {relation: Adjacency(*(np.load(dataset / name) for name in pair)) for relation, pair in names.items()}


def test_each_relation_is_there_in_both_directions(dataset: Path, published: igbh.PublishedGraph) -> None:
    graph = open_graph(dataset)
    for relation in PUBLISHED[1:]:
        pairs = published.edges[relation]
        for node in (0, int(pairs[0, 1])):
            assert sources_of(graph[relation], node) == sorted(pairs[pairs[:, 1] == node, 0].tolist())
        for node in (0, int(pairs[0, 0])):
            assert sources_of(graph[REVERSED[relation]], node) == sorted(pairs[pairs[:, 0] == node, 1].tolist())


def test_citations_go_both_ways_and_each_paper_cites_itself_once(dataset: Path, published: igbh.PublishedGraph) -> None:
    cites, pairs = open_graph(dataset)[CITES], published.edges[CITES]
    for node in range(0, len(published.labels), 7):
        reported = pairs[(pairs[:, 1] == node) & (pairs[:, 0] != node), 0]
        asked = pairs[(pairs[:, 0] == node) & (pairs[:, 1] != node), 1]
        assert sources_of(cites, node) == sorted([*reported.tolist(), *asked.tolist(), node])


def test_different_neighbours_are_chosen_each_as_often() -> None:
    """Over many nodes of ten neighbours each of them is drawn three times in ten, within five deviations."""
    nodes = np.arange(20_000)
    chosen = choose(nodes, np.full(len(nodes), 10), 3, salt=4)
    assert all(len(set(row)) == 3 for row in chosen[:500].tolist())
    counts = np.bincount(chosen.ravel(), minlength=10)
    deviation = np.sqrt(len(nodes) * 0.3 * 0.7)
    assert len(counts) == 10
    assert (abs(counts - 0.3 * len(nodes)) < 5 * deviation).all()
    assert len({tuple(sorted(row)) for row in chosen.tolist()}) == 120  # every three of ten
    assert not np.array_equal(chosen, choose(nodes, np.full(len(nodes), 10), 3, salt=5))


def test_a_block_holds_each_hops_fan_out_and_nodes_once(dataset: Path, published: igbh.PublishedGraph) -> None:
    graph, seeds = open_graph(dataset), published.seeds[:8]
    block = Sampler(graph).sample(seeds)
    assert block.nodes[SEEDS][block.places["seeds"]].tolist() == seeds.tolist()
    hops = reach(block, graph)
    for relation in RELATIONS:
        rows = block.places[relation.name]
        for row, places in enumerate(rows):
            node = int(block.nodes[relation.target][row])
            drawn = block.nodes[relation.source][places[places >= 0]].tolist()
            if node == NO_NODE:
                assert drawn == []
                continue
            there = sources_of(graph[relation], node)
            fanout = FANOUTS[hops[relation.target][row]]
            assert len(drawn) == min(fanout, len(there))
            left = list(there)
            for source in drawn:
                left.remove(source)  # none more often than there are edges
    for ids in block.nodes.values():
        known = ids[ids != NO_NODE]
        assert len(np.unique(known)) == len(known)


def reach(block: Any, graph: dict[Relation, Adjacency]) -> dict[str, dict[int, int]]:
    """Of each node of a block the first hop at which anything drew it, found by walking."""
    first: dict[str, dict[int, int]] = {kind: {} for kind in KINDS}
    first[SEEDS] = dict.fromkeys(block.places["seeds"].tolist(), 0)
    for hop in range(len(FANOUTS)):
        for relation in graph:
            for row, places in enumerate(block.places[relation.name]):
                if first[relation.target].get(row) == hop:
                    for place in places[places >= 0].tolist():
                        first[relation.source].setdefault(place, hop + 1)
    for kind, ids in block.nodes.items():  # what fills up is no one's neighbour
        for place in np.flatnonzero(ids == NO_NODE).tolist():
            first[kind].setdefault(place, 0)
    return first


def test_nodes_come_in_the_order_in_which_they_are_reached(dataset: Path, published: igbh.PublishedGraph) -> None:
    graph = open_graph(dataset)
    block = Sampler(graph).sample(published.seeds[:8])
    hops = reach(block, graph)
    for kind, ids in block.nodes.items():
        known = [hops[kind][place] for place in range(len(ids)) if ids[place] != NO_NODE]
        assert known == sorted(known)
    for kind in list_kinds(1):
        within = [place for place, hop in hops[kind].items() if hop < 2 and block.nodes[kind][place] != NO_NODE]
        assert max(within) < len(block.places[name_inner(kind)])


def test_draws_are_the_same_whenever_they_are_made(dataset: Path, published: igbh.PublishedGraph) -> None:
    collate = Blocks(dataset)
    again: Blocks = pickle.loads(pickle.dumps(collate))  # as another process gets it
    samples = {"nodes": published.seeds[:5]}
    first, second = collate(samples), again(samples)
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_inputs_are_the_networks_with_features_of_nodes(dataset: Path, published: igbh.PublishedGraph) -> None:
    collate = Blocks(dataset)
    given = collate({"nodes": published.seeds[:3]})
    assert set(given) == {name_input(name) for name in list_inputs()}
    papers = given[name_input("paper")][given[name_input("seeds")]]
    assert np.array_equal(papers, published.features["paper"][published.seeds[:3]].astype(np.float16))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def change(path: Path, wrong: Callable[[np.ndarray], np.ndarray]) -> None:
    np.save(path, wrong(np.load(path)))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (EDGES, Path.unlink),
        (EDGES, lambda path: path.write_bytes(b"<html>")),
        (EDGES, cut),
        (EDGES, lambda path: change(path, np.transpose)),
        (EDGES, lambda path: change(path, lambda a: a.astype("f4"))),
        (PAPERS, cut),
        (TOPICS, cut),
        (TOPICS, lambda path: change(path, lambda a: a.astype("f2"))),
        (LABELS, lambda path: path.write_bytes(bytes(40))),
    ],
)
def test_a_damaged_file_has_its_fix(made: Path, tmp_path: Path, name: str, damage: Callable[[Path], None]) -> None:
    data = Path(shutil.copytree(made, tmp_path / "data"))
    damage(data / name)
    with pytest.raises(HarnessError) as caught:
        igbh.build_dataset(data, {}, tmp_path, Counter(tmp_path / "counter"))
    assert Path(name).name in caught.value.problem
    assert caught.value.fix


def test_an_edge_to_a_node_that_is_not_there_is_named(published: igbh.PublishedGraph, tmp_path: Path) -> None:
    wrong = np.array(published.edges[CITES])
    wrong[5] = [3, 10**6]
    broken = published._replace(edges={**published.edges, CITES: wrong})
    with pytest.raises(HarnessError, match=r"paper__cites__paper/edge_index.npy: edge 5 joins nodes \[3, 1000000\]"):
        igbh.prepare(broken, "float32", 1, tmp_path, Counter(tmp_path / "counter"))


def test_the_network_computes_attention_edge_by_edge(dataset: Path, published: igbh.PublishedGraph) -> None:
    """Next to plain loops over the nodes and their edges, each layer over the edges of the hops that it still has."""
    torch = pytest.importorskip("torch", reason=WITHOUT)
    from harness.benchmarks.rgat.network import RelationalGraphAttention
    from harness.benchmarks.rgat.rehearsal import draw_weights

    weights = draw_weights(np.random.default_rng(1), 2)
    graph = open_graph(dataset)
    block = Sampler(graph).sample(published.seeds[:2])
    features = {kind: published.features[kind][np.maximum(ids, 0)] for kind, ids in block.nodes.items()}
    given = {**features, **block.places}
    found = RelationalGraphAttention(weights)({name: torch.from_numpy(given[name]) for name in list_inputs()})
    plain = compute_plainly({name: weight.numpy() for name, weight in weights.items()}, features, block, graph)
    assert np.allclose(found["classes"].numpy(), plain, atol=1e-4)


def compute_plainly(
    weights: dict[str, np.ndarray], hidden: dict[str, np.ndarray], block: Any, graph: dict[Relation, Adjacency]
) -> np.ndarray:
    hops = reach(block, graph)
    for layer in range(3):
        new = {kind: {} for kind in KINDS}  # type: dict[str, dict[int, np.ndarray]]
        for relation, node in ((r, n) for r in RELATIONS for n, hop in hops[r.target].items() if hop < 3 - layer):
            fc, left, right, bias = (
                weights[f"layers.{layer}.mods.{relation.name}.{part}"]
                for part in ("fc.weight", "attn_l", "attn_r", "bias")
            )
            places = block.places[relation.name][node]
            sources = [(fc @ hidden[relation.source][p]).reshape(4, -1) for p in places[places >= 0]]
            target = (fc @ hidden[relation.target][node]).reshape(4, -1)
            reported = bias.astype(np.float64)
            if sources:
                scores = np.array([(s * left[0]).sum(1) + (target * right[0]).sum(1) for s in sources])
                shares = np.exp(np.where(scores > 0, scores, 0.2 * scores))
                shares /= shares.sum(0)
                reported = reported + (shares[..., None] * np.array(sources)).sum(0).ravel()
            new[relation.target][node] = new[relation.target].get(node, 0) + reported
        width = len(weights["linear.weight"][0])
        hidden = {
            kind: np.array([rows.get(n, np.zeros(width)) for n in range(1 + max(rows, default=0))])
            for kind, rows in new.items()
        }
        if layer < 2:
            hidden = {kind: np.where(rows > 0, rows, 0.01 * rows) for kind, rows in hidden.items()}
    return hidden[SEEDS][block.places["seeds"]] @ weights["linear.weight"].T + weights["linear.bias"]
