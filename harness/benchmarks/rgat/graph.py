"""The graph of IGB-Heterogeneous: kinds of nodes, relations between them, and those of both that a sample can reach.

From graph/R-GAT of mlcommons/inference: dgl_utilities/feature_fetching.py (nodes, relations, and those added in the
other direction), backend_dgl.py (numbers of neighbours), tools/split_seeds.py (requested papers).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

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
FEATURES = 1024  # of a node
CLASSES = 2983
LABELLED = 157_675_969  # the first papers, which have one of those classes
SAMPLES = 788_379  # 0.5 % of the labelled papers
# Neighbours drawn for each relation: of the requested papers, of the nodes reached from them, and so on.
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
CITES = PUBLISHED[0]  # has both directions in one relation, and each paper cites itself once
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
