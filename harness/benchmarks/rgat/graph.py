"""The graph of IGB-Heterogeneous: kinds of nodes, relations between them, and which of both a sample can reach.

From graph/R-GAT of mlcommons/inference: dgl_utilities/feature_fetching.py (nodes, relations, and those added in the
other direction), backend_dgl.py (how many neighbours), tools/split_seeds.py (which papers are asked for).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

SEEDS = "paper"  # the kind of the nodes that are asked for
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
FEATURES = 1024  # of a node
CLASSES = 2983
LABELLED = 157_675_969  # the first papers, which have one of those classes
SAMPLES = 788_379  # 0.5 % of the labelled papers
# How many neighbours are drawn of each relation: of the papers asked for, of what is reached from them, and so on.
FANOUTS = (15, 10, 5)
LAYERS = len(FANOUTS)


class Relation(NamedTuple):
    """Edges from nodes of one kind to nodes of another; a node takes what the sources of its edges give."""

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
CITES = PUBLISHED[0]  # goes both ways in one relation, and each paper cites itself once
REVERSED = {
    relation: Relation(relation.target, f"rev_{relation.name}", relation.source)
    for relation in PUBLISHED
    if relation != CITES
}
RELATIONS = (*PUBLISHED, *REVERSED.values())


@cache
def list_kinds(hop: int) -> tuple[str, ...]:
    """List the kinds that may be reached after so many steps, and not before."""
    if not hop:
        return (SEEDS,)
    targets = list_kinds(hop - 1)
    sources = {relation.source for relation in RELATIONS if relation.target in targets}
    return tuple(kind for kind in KINDS if kind in sources)


@cache
def list_relations(hop: int) -> tuple[Relation, ...]:
    """List the relations in which neighbours are drawn for nodes that were reached after so many steps."""
    return tuple(relation for relation in RELATIONS if relation.target in list_kinds(hop))


def name_inner(kind: str) -> str:
    """The input of the network that holds one number for each node reached within one step."""
    return f"inner_{kind}"


def list_inputs() -> list[str]:
    """List the inputs of the network: features of each kind, neighbours of each relation, how many nodes are reached
    within one step, and the places of the samples."""
    names = [relation.name for relation in RELATIONS]
    return [*KINDS, *names, *map(name_inner, list_kinds(1)), "seeds"]
