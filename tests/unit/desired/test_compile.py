"""Cells that take runs of others: what they are made from, and when they are stale."""

from __future__ import annotations

import pytest

from reconciler.desired.compile import compile_desired
from reconciler.desired.state import Desired, Pins
from reconciler.resource.kinds import Address, Kind
from reconciler.rules.rounds import load_ruleset
from tests.unit.spec import writing

SPEC = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {name: acme}
spec:
  round: v6.1
  submitter: ACME
  systems: {box: {category: edge, status: available}}
  benchmarks:
    net: {as: resnet, code: digits, engine: {backend: "null"}}
  divisions: {open: {box: {net: {CELLS}}}}
"""
OFFLINE, STREAM = "Offline: {infer_from: SingleStream}", "SingleStream: {min_duration: 60 s}"
RESULT = Address(Kind.RESULT, "open/box/net/Offline")


def compile_cells(*cells: str) -> Desired:
    text = SPEC.replace("CELLS", ", ".join(cells))
    declared = writing.declare(text)
    return compile_desired(declared, load_ruleset("v6.1"), Pins())[0]


@pytest.mark.parametrize("cells", [(STREAM, OFFLINE), (OFFLINE, STREAM)], ids=["behind its source", "before it"])
def test_an_inferred_cell_is_a_result_of_the_runs_of_another(cells: tuple[str, str]) -> None:
    desired = compile_cells(*cells)
    assert [r.address for r in desired.resources if "Offline" in r.address.name] == [RESULT]
    assert [str(up) for up in desired.by_address[RESULT].upstream] == [
        "Run:open/box/net/SingleStream/accuracy",
        "Run:open/box/net/SingleStream/performance",
        "Score:open/box/net/SingleStream",
    ]
    assert "inferred" in desired.detail(RESULT).marks
    assert "inferred" not in desired.detail(Address(Kind.RESULT, "open/box/net/SingleStream")).marks


@pytest.mark.parametrize(
    ("stream", "stale"),
    [
        (STREAM, False),
        (STREAM.replace("60 s", "61 s"), True),
        ("SingleStream: {attempts: 2, min_duration: 60 s}", False),
    ],
    ids=["nothing", "its source runs longer", "its source may try twice"],
)
def test_an_inferred_result_is_stale_when_its_source_is(stream: str, stale: bool) -> None:
    before, after = (compile_cells(cell, OFFLINE).by_address[RESULT].key for cell in (STREAM, stream))
    assert (before != after) is stale
