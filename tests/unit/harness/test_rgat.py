"""R-GAT: neighbours are drawn as in the reference, damage is named, the network equals plain loops."""

from __future__ import annotations

import itertools
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.benchmarks.rgat import igbh
from harness.benchmarks.rgat.adjacency import write_adjacency
from harness.benchmarks.rgat.blocks import Blocks, load_collate, name_input, postprocess
from harness.benchmarks.rgat.graph import (
    CITES,
    FANOUTS,
    FEATURES,
    KINDS,
    PUBLISHED,
    RELATIONS,
    REVERSED,
    SEEDS,
    Relation,
    list_inputs,
    list_kinds,
    list_relations,
    name_inner,
)
from harness.benchmarks.rgat.made_graph import write_graph
from harness.benchmarks.rgat.sampling import NOBODY, Adjacency, Sampler, choose
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Counter
from harness.errors import HarnessError

COUNT = 24
EDGES = f"{igbh.PROCESSED}/paper__cites__paper/{igbh.EDGES_FILE}"
PAPERS = f"{igbh.PROCESSED}/paper/{igbh.FEATURES_FILE}"
TOPICS = f"{igbh.PROCESSED}/fos/{igbh.FEATURES_FILE}"
LABELS = f"{igbh.PROCESSED}/{igbh.LABELS_FILE}"
WITHOUT = "PyTorch is not installed: pip install -e '.[rgat]'"


def test_what_can_be_reached_in_a_step_and_not_before() -> None:
    assert list_kinds(0) == ("paper",)
    assert set(list_kinds(1)) == {"paper", "author", "fos", "journal", "conference"}
    assert set(list_kinds(2)) == set(KINDS)
    assert len(RELATIONS) == 11
    assert len(list_relations(0)) == 5
    assert {relation.name for relation in RELATIONS} - {relation.name for relation in list_relations(1)} == {
        "affiliated_to"
    }


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
        told = pairs[(pairs[:, 1] == node) & (pairs[:, 0] != node), 0]
        asked = pairs[(pairs[:, 0] == node) & (pairs[:, 1] != node), 1]
        assert sources_of(cites, node) == sorted([*told.tolist(), *asked.tolist(), node])


def test_edges_are_sorted_a_piece_at_a_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    sources, targets = rng.integers(0, 9, 100), rng.integers(0, 6, 100)
    pieces = [(sources[n : n + 17], targets[n : n + 17]) for n in range(0, 100, 17)]
    write_adjacency(lambda: iter(pieces), 6, tmp_path, ("a.npy", "b.npy"), Counter(tmp_path / "counter"))
    found = Adjacency(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))
    assert [sources_of(found, n) for n in range(6)] == [sorted(sources[targets == n].tolist()) for n in range(6)]


def test_a_relation_without_edges_draws_nobody(tmp_path: Path) -> None:
    write_adjacency(lambda: iter(()), 3, tmp_path, ("a.npy", "b.npy"), Counter(tmp_path / "counter"))
    empty = Adjacency(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))
    assert (empty.draw(np.array([0, 2]), 15, 0) == NOBODY).all()


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


def test_a_block_holds_the_fan_out_of_each_hop_and_each_node_once(
    dataset: Path, published: igbh.PublishedGraph
) -> None:
    graph, seeds = open_graph(dataset), published.seeds[:8]
    block = Sampler(graph).sample(seeds)
    assert block.nodes[SEEDS][block.places["seeds"]].tolist() == seeds.tolist()
    hops = reach(block, graph)
    for relation in RELATIONS:
        rows = block.places[relation.name]
        for row, places in enumerate(rows):
            node = int(block.nodes[relation.target][row])
            drawn = block.nodes[relation.source][places[places >= 0]].tolist()
            if node == NOBODY:
                assert drawn == []
                continue
            there = sources_of(graph[relation], node)
            fanout = FANOUTS[hops[relation.target][row]]
            assert len(drawn) == min(fanout, len(there))
            left = list(there)
            for source in drawn:
                left.remove(source)  # none more often than there are edges
    for ids in block.nodes.values():
        known = ids[ids != NOBODY]
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
    for kind, ids in block.nodes.items():  # what fills up is nobody's neighbour
        for place in np.flatnonzero(ids == NOBODY).tolist():
            first[kind].setdefault(place, 0)
    return first


def test_nodes_come_in_the_order_in_which_they_are_reached(dataset: Path, published: igbh.PublishedGraph) -> None:
    graph = open_graph(dataset)
    block = Sampler(graph).sample(published.seeds[:8])
    hops = reach(block, graph)
    for kind, ids in block.nodes.items():
        known = [hops[kind][place] for place in range(len(ids)) if ids[place] != NOBODY]
        assert known == sorted(known)
    for kind in list_kinds(1):
        within = [place for place, hop in hops[kind].items() if hop < 2 and block.nodes[kind][place] != NOBODY]
        assert max(within) < len(block.places[name_inner(kind)])


def test_draws_are_the_same_whenever_they_are_made(dataset: Path, published: igbh.PublishedGraph) -> None:
    collate = load_collate(dataset)
    again: Blocks = pickle.loads(pickle.dumps(collate))  # as another process gets it
    samples = {"nodes": published.seeds[:5]}
    first, second = collate(samples), again(samples)
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_inputs_are_those_of_the_network_with_the_features_of_their_nodes(
    dataset: Path, published: igbh.PublishedGraph
) -> None:
    collate = load_collate(dataset)
    given = collate({"nodes": published.seeds[:3]})
    assert set(given) == {name_input(name) for name in list_inputs()}
    papers = given[name_input("paper")][given[name_input("seeds")]]
    assert np.array_equal(papers, published.features["paper"][published.seeds[:3]].astype(np.float16))


@pytest.mark.parametrize("count", [1, 2])
def test_no_axis_of_an_input_is_one(dataset: Path, published: igbh.PublishedGraph, count: int) -> None:
    """A compiled program may take such an axis for one that never changes."""
    given = load_collate(dataset)({"nodes": published.seeds[:count]})
    assert min(itertools.chain.from_iterable(array.shape for array in given.values())) > 1


def test_a_paper_that_is_asked_for_twice_is_drawn_once(dataset: Path, published: igbh.PublishedGraph) -> None:
    collate, (paper, other) = load_collate(dataset), published.seeds[:2]
    twice, once = (collate({"nodes": np.array(nodes)}) for nodes in ([paper, other, paper], [paper, other]))
    places = twice[name_input("seeds")]
    assert places[0] == places[2] != places[1]
    assert all(np.array_equal(twice[name], once[name]) for name in twice if name != name_input("seeds"))


def test_a_response_is_the_class_of_the_highest_score() -> None:
    found = postprocess([np.array([[0.0, 2.0, 1.0], [3.0, 2.0, 1.0]])])
    assert found.tolist() == [1, 0]
    assert found.dtype == np.int64


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def change(path: Path, wrong: Callable[[np.ndarray], np.ndarray]) -> None:
    np.save(path, wrong(np.load(path)))


@pytest.mark.parametrize(
    ("name", "damage", "problem"),
    [
        pytest.param(EDGES, Path.unlink, "1 is missing: paper__cites__paper/edge_index.npy", id="missing"),
        pytest.param(EDGES, lambda path: path.write_bytes(b"<html>"), "1 is no npy file", id="html"),
        pytest.param(EDGES, cut, "edge_index.npy is cut off", id="cut-edges"),
        pytest.param(EDGES, lambda path: change(path, np.transpose), r"edge_index.npy holds int64 \[2, ", id="sides"),
        pytest.param(
            EDGES,
            lambda path: change(path, lambda a: a.astype("f4")),
            "holds float32 .*, not int64 or int32",
            id="type",
        ),
        pytest.param(PAPERS, cut, "paper/node_feat.npy is cut off: [0-9,]+ bytes are no whole rows", id="cut-bare"),
        pytest.param(TOPICS, cut, "fos/node_feat.npy is cut off", id="cut-features"),
        pytest.param(
            TOPICS, lambda path: change(path, lambda a: a.astype("f2")), "fos/node_feat.npy holds float16", id="half"
        ),
        pytest.param(LABELS, lambda path: path.write_bytes(bytes(40)), "has 10 labels of [0-9]+ papers", id="labels"),
    ],
)
def test_a_damaged_file_is_named_with_its_fix(
    made: Path, tmp_path: Path, name: str, damage: Callable[[Path], None], problem: str
) -> None:
    data = Path(shutil.copytree(made, tmp_path / "data"))
    damage(data / name)
    with pytest.raises(HarnessError, match=problem) as caught:
        igbh.build_dataset(data, {}, tmp_path, Counter(tmp_path / "counter"))
    assert caught.value.fix


def test_a_relation_that_the_set_does_not_have_is_named(made: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(made, tmp_path / "data"))
    (data / igbh.PROCESSED / "paper__likes__paper").mkdir()
    with pytest.raises(HarnessError, match="relations that the set does not have: paper__likes__paper"):
        igbh.build_dataset(data, {}, tmp_path, Counter(tmp_path / "counter"))


def test_without_the_mark_of_a_rehearsal_the_full_set_must_be_there(made: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(made, tmp_path / "data"))
    (data / REHEARSAL).unlink()
    with pytest.raises(HarnessError, match=r"paper/node_feat.npy has \d+ rows, the full set has 269,346,174"):
        igbh.build_dataset(data, {}, tmp_path, Counter(tmp_path / "counter"))


def test_without_the_list_of_papers_the_script_that_writes_it_is_named(made: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason=WITHOUT)
    with pytest.raises(HarnessError, match=r"val_idx.pt is missing") as caught:
        igbh.build_dataset(made, {}, tmp_path, Counter(tmp_path / "counter"))
    assert "split_seeds.py" in caught.value.fix


def test_an_edge_to_a_node_that_is_not_there_is_named(published: igbh.PublishedGraph, tmp_path: Path) -> None:
    wrong = np.array(published.edges[CITES])
    wrong[5] = [3, 10**6]
    broken = published._replace(edges={**published.edges, CITES: wrong})
    with pytest.raises(HarnessError, match=r"paper__cites__paper/edge_index.npy: edge 5 joins nodes \[3, 1000000\]"):
        igbh.prepare(broken, "float32", 1, tmp_path, Counter(tmp_path / "counter"))


@pytest.mark.parametrize(
    ("seeds", "problem"),
    [
        pytest.param([1.0, 2.0], "val_idx.pt holds float32", id="type"),
        pytest.param([3, 3], "names papers twice", id="twice"),
        pytest.param([-1, 3], "names papers twice, or not below", id="below"),
        pytest.param([0, 10**6], "or not below", id="above"),
    ],
)
def test_a_list_of_papers_that_cannot_be_right_is_refused(
    made: Path, tmp_path: Path, seeds: list[Any], problem: str
) -> None:
    torch = pytest.importorskip("torch", reason=WITHOUT)
    data = Path(shutil.copytree(made, tmp_path / "data"))
    torch.save(torch.tensor(seeds), data / igbh.PROCESSED / igbh.SEEDS_FILE)
    with pytest.raises(HarnessError, match=problem):
        igbh.build_dataset(data, {}, tmp_path, Counter(tmp_path / "counter"))


def test_a_checkpoint_that_lacks_a_weight_is_refused_by_its_name(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason=WITHOUT)
    from harness.benchmarks.rgat.checkpoint import STATE, name_weight, read_checkpoint
    from harness.benchmarks.rgat.rehearsal import draw_weights

    weights = dict(draw_weights(np.random.default_rng(1), 4))
    path, lost = tmp_path / "RGAT.pt", name_weight(1, "topic", "attn_r")
    torch.save({STATE: {f"model.{name}": weight for name, weight in weights.items() if name != lost}}, path)
    with pytest.raises(HarnessError, match=f"RGAT.pt: {lost} is missing"):
        read_checkpoint(path)
    torch.save({STATE: {**weights, lost: weights[lost][:, :2]}}, path)
    with pytest.raises(HarnessError, match=rf"{lost} is \[1, 2, 4\], beside the others it should be \[1, 4, 4\]"):
        read_checkpoint(path)
    torch.save({"weights": weights}, path)
    with pytest.raises(HarnessError, match=f"holds no {STATE}"):
        read_checkpoint(path)


def test_the_network_computes_attention_edge_by_edge(dataset: Path, published: igbh.PublishedGraph) -> None:
    """Beside plain loops over the nodes and their edges, each layer over the edges of the hops that it still has."""
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
            told = bias.astype(np.float64)
            if sources:
                scores = np.array([(s * left[0]).sum(1) + (target * right[0]).sum(1) for s in sources])
                shares = np.exp(np.where(scores > 0, scores, 0.2 * scores))
                shares /= shares.sum(0)
                told = told + (shares[..., None] * np.array(sources)).sum(0).ravel()
            new[relation.target][node] = new[relation.target].get(node, 0) + told
        width = len(weights["linear.weight"][0])
        hidden = {
            kind: np.array([rows.get(n, np.zeros(width)) for n in range(1 + max(rows, default=0))])
            for kind, rows in new.items()
        }
        if layer < 2:
            hidden = {kind: np.where(rows > 0, rows, 0.01 * rows) for kind, rows in hidden.items()}
    return hidden[SEEDS][block.places["seeds"]] @ weights["linear.weight"].T + weights["linear.bias"]
