"""The description of a system, held against what a run declared and where it was placed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.diff.claims import Proof
from reconciler.history.described import verify_described
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import Cell
from reconciler.resource.records import RecordedFact, RecordedInput
from reconciler.resource.settings import SystemSettings

CELL = Cell("open", "box", "net", "Offline")
COUNT, NODES = "accelerators_per_node", "number_of_nodes"


def verify(described: dict[str, object], ran: dict[str, object], placed: object = None) -> list[tuple[str, Proof, str]]:
    systems = {"box": SystemSettings(description=described), "other": SystemSettings(description={COUNT: "99"})}
    at: Any = SimpleNamespace(desired=SimpleNamespace(submission=SimpleNamespace(systems=systems)))
    record: Any = SimpleNamespace(
        inputs={f"hardware.{name}": RecordedInput(value, "specs/a.yaml:1") for name, value in ran.items()},
        facts={} if placed is None else {"machine.nodes": RecordedFact(placed, Role.NOTE)},
    )
    found = list(verify_described(CELL, "performance", record, at))
    assert {claim.where for claim in found} <= {str(CELL)}
    return [(claim.what, claim.proof, claim.detail) for claim in found]


def of(field: str, stated: str, ran: str) -> tuple[str, Proof, str]:
    said = f"{field} is {stated} in the description of box, and it ran on {ran}"
    return (f"performance: {field}", Proof.CONTRADICTED, said)


@pytest.mark.parametrize(
    ("described", "ran", "claims"),
    [
        ({COUNT: "8", NODES: "2"}, {"count": 8, "nodes": 2}, []),
        ({COUNT: " 8 ", NODES: 2}, {"count": "8", "nodes": "2"}, []),
        ({COUNT: "4"}, {"count": 8, "nodes": 2}, [of(COUNT, "4", "8")]),
        ({NODES: "4", COUNT: "1"}, {"count": 8, "nodes": 2}, [of(COUNT, "1", "8"), of(NODES, "4", "2")]),
        ({COUNT: "eight", NODES: ""}, {"count": 8, "nodes": 2}, []),
        ({COUNT: "4"}, {}, []),
        ({}, {"count": 8}, []),
    ],
    ids=["alike", "as text", "another count", "both", "in words", "not declared", "not described"],
)
def test_counts_of_a_description_are_those_that_the_run_declared(
    described: dict[str, object], ran: dict[str, object], claims: list[tuple[str, Proof, str]]
) -> None:
    assert verify(described, ran) == claims


@pytest.mark.parametrize(
    ("described", "ran", "placed", "said"),
    [
        ({NODES: "2"}, {}, ["a", "b"], False),
        ({NODES: "2"}, {}, ["a", "b", "c"], True),
        ({NODES: "2"}, {"nodes": 2}, ["a", "b", "c"], False),
        ({COUNT: "2"}, {}, ["a", "b", "c"], False),
        ({NODES: "2"}, {}, [], False),
        ({NODES: "2"}, {}, "abc", False),
        ({NODES: "2"}, {}, None, False),
    ],
    ids=["as many", "more", "declared", "not described", "nowhere", "in words", "not noted"],
)
def test_nodes_that_nobody_declared_are_those_that_a_run_was_placed_on(
    described: dict[str, object], ran: dict[str, object], placed: object, said: bool
) -> None:
    detail = f"{NODES} is 2 in the description of box, and it was placed on 3"
    assert verify(described, ran, placed) == ([(f"performance: {NODES}", Proof.MISSING, detail)] if said else [])
