"""Cells that take runs of others: what they are made from, and when they are stale."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.desired.compile import compile_desired, prepare_trial
from reconciler.desired.state import Desired, Pins
from reconciler.resource.inputs import Origin, Value
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import QUICK, TRIAL
from reconciler.rules.rounds import load_ruleset
from tests.unit.desired.test_inputs import HERE, RULES, declare
from tests.unit.spec import writing

SPEC = writing.give_head("""\
  systems: {box: {category: edge, status: available}}
  benchmarks:
    net: {as: resnet, code: digits, engine: {backend: "null"}}
  divisions: {open: {box: {net: {CELLS}}}}
""")


OFFLINE, STREAM = "Offline: {infer_from: SingleStream}", "SingleStream: {min_duration: 60 s}"
RESULT = Address(Kind.RESULT, "open/box/net/Offline")


def compile_cells(*cells: str) -> Desired:
    declared = writing.declare(SPEC.replace("CELLS", ", ".join(cells)))
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


BY_ITSELF = Origin("--quick")


def prepare(trial: str, scenario: str = "Server", **changes: object) -> dict[str, Value]:
    declared = prepare_trial(replace(declare(scenario, **changes), trial=trial), RULES)
    (cell,) = declared.cells
    assert list(cell.settings) == sorted(cell.settings)
    return dict(cell.settings)


@pytest.mark.parametrize(
    ("declared", "asked"),
    [
        (None, Value(10_000, BY_ITSELF)),
        (600_000, Value(10_000, BY_ITSELF)),
        (10_001, Value(10_000, BY_ITSELF)),
        (10_000, Value(10_000, HERE)),
        (9_999, Value(9_999, HERE)),
        (0, Value(0, HERE)),
    ],
)
def test_a_quick_run_lasts_ten_seconds_or_what_is_shorter(declared: int | None, asked: Value) -> None:
    assert prepare(QUICK, min_duration=declared)["min_duration"] == asked


def test_a_quick_run_may_be_asked_to_last_longer() -> None:
    declared = replace(declare("Server", min_duration=600_000), trial=QUICK, quick=60_000)
    (cell,) = prepare_trial(declared, RULES).cells
    assert cell.settings["min_duration"] == Value(60_000, BY_ITSELF)


# LoadGen's own table: 459 queries of which none is late prove p99, 838 of which two are; 81 of which two are prove p90.
@pytest.mark.parametrize(
    ("scenario", "official", "declared", "asked"),
    [
        ("Server", "resnet", None, Value(838, BY_ITSELF)),
        ("Server", "resnet", 270_336, Value(838, BY_ITSELF)),
        ("Server", "resnet", 838, Value(838, HERE)),
        ("Server", "resnet", 100, Value(100, HERE)),
        ("MultiStream", "resnet", None, Value(838, BY_ITSELF)),
        ("SingleStream", "resnet", None, Value(81, BY_ITSELF)),
        ("Offline", "resnet", None, Value(459, BY_ITSELF)),
        ("Interactive", "llama3.1-8b", None, Value(838, BY_ITSELF)),
        ("Server", None, None, Value(838, BY_ITSELF)),
        ("SingleStream", None, None, Value(838, BY_ITSELF)),
    ],
)
def test_a_quick_run_issues_as_few_queries_as_prove_its_percentile(
    scenario: str, official: str | None, declared: int | None, asked: Value
) -> None:
    found = prepare(QUICK, scenario, benchmark__official=official, min_query_count=declared)
    assert found["min_query_count"] == asked


@pytest.mark.parametrize(
    ("qps", "declared", "asked"),
    [
        (200, 270_336, Value(2000, BY_ITSELF)),
        ("0.5", 270_336, Value(838, BY_ITSELF)),
        ("200.01", None, Value(2001, BY_ITSELF)),
        (200, 1900, Value(1900, HERE)),
        (None, 270_336, Value(838, BY_ITSELF)),
    ],
)
def test_a_quick_run_without_a_minimum_duration_lasts_as_long_by_its_queries(
    qps: object, declared: int | None, asked: Value
) -> None:
    found = prepare(QUICK, min_duration=0, min_query_count=declared, target_qps=qps)
    assert found["min_query_count"] == asked


def test_a_whole_trial_is_as_long_as_declared_and_no_trial_is_repeated() -> None:
    declared = {"min_duration": 600_000, "attempts": 3}
    assert prepare(TRIAL, **declared) == prepare("", min_duration=600_000)
    assert "attempts" not in prepare(QUICK, **declared)


def test_a_cell_without_runs_of_its_own_is_not_shortened() -> None:
    found = prepare(QUICK, infer_from="SingleStream", min_duration=None)
    assert not {"min_duration", "min_query_count"} & set(found)
