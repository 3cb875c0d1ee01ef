"""How long steps take, before anything is known and afterwards."""

from __future__ import annotations

import pytest

from reconciler.desired.detail import Detail
from reconciler.desired.state import Desired
from reconciler.plan.expectation import START, Expectation
from reconciler.resource.inputs import Input, Origin
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Ended, Recorded, Summary
from reconciler.resource.resources import Resource
from reconciler.rules.results.durations import predict_seconds

ROUND, LINE = Origin("round v6.1 (mlperf.conf)"), Origin("specs/one.yaml", 7)
STREAM, OFFLINE, SERVER = (f"closed/box/resnet/{name}" for name in ("SingleStream", "Offline", "Server"))
RUN = Address(Kind.RUN, f"{STREAM}/performance")


def expect(
    address: Address, *recorded: Summary, origin: Origin = LINE, key: str = "new", **values: object
) -> tuple[float | None, str]:
    scenario = address.cell.scenario if address.cell else ""
    inputs = {"mode": address.mode, "scenario": scenario, **values}
    items = tuple(Input(n, v, origin if n.startswith("target") else LINE) for n, v in inputs.items())
    by_address: dict[Address, tuple[Summary, ...]] = {}
    for summary in recorded:
        by_address[summary.address] = (*by_address.get(summary.address, ()), summary)
    resource = Resource(address, key, cell=address.cell)
    desired = Desired("", (resource,), lambda _: Detail(items), by_address={address: resource})
    return Expectation(desired, Recorded(by_address=by_address), predict_seconds).predict(address)


def took(seconds: float, address: Address = RUN, key: str = "old", ended: Ended = Ended.DONE) -> Summary:
    return Summary("x", address, key, ended, "2026", seconds, ())


def test_a_latency_that_nobody_declared_says_nothing_of_this_machine() -> None:
    """It is the round's: of a network of 0.05 ms it would make 20 s of 0.1 s."""
    settings = {"target_latency": 10_000_000, "min_query_count": 2000}
    assert expect(RUN, origin=ROUND, min_duration=0, **settings) == (None, "")
    assert expect(RUN, origin=ROUND, min_duration=600_000, **settings) == (600.0, "formula")
    declared = expect(RUN, min_duration=0, **{**settings, "target_latency": 50_000})
    assert declared == (pytest.approx(0.1 + START), "formula")


def test_a_rate_that_nobody_declared_says_nothing_of_offline_and_everything_of_server() -> None:
    settings = {"target_qps": "1", "min_duration": 0, "min_query_count": 24_576}
    assert expect(Address(Kind.RUN, f"{OFFLINE}/performance"), origin=ROUND, **settings) == (None, "")
    asked = expect(Address(Kind.RUN, f"{SERVER}/performance"), origin=ROUND, **settings)
    assert asked == (24_576.0, "formula")  # LoadGen asks at that rate indeed


def test_a_run_that_was_made_takes_as_long_as_it_took() -> None:
    settings = {"target_latency": 10_000_000, "min_duration": 600_000, "min_query_count": 100}
    assert expect(RUN, took(4000.0, key="same"), took(30.0), key="same", **settings) == (4000.0, "history")


def test_of_a_long_run_with_another_target_the_formula_tells_more_than_an_earlier_one() -> None:
    settings = {"target_latency": 10_000_000, "min_query_count": 100}
    assert expect(RUN, took(30.0), min_duration=600_000, **settings) == (600.0, "formula")
    assert expect(RUN, took(3.0), min_duration=0, **settings) == (3.0, "history")


def test_a_failed_attempt_says_nothing_of_how_long_it_takes() -> None:
    settings = {"target_latency": 10_000_000, "min_query_count": 100, "min_duration": 600_000}
    assert expect(RUN, took(1.5, key="same", ended=Ended.FAILED), key="same", **settings) == (600.0, "formula")


@pytest.mark.parametrize("part", ["Engine:{}", "Score:{}", "Run:{}/accuracy"])
def test_what_was_never_made_takes_as_long_as_in_another_scenario(part: str) -> None:
    here, there = (Address.parse(part.format(cell)) for cell in (STREAM, OFFLINE))
    assert expect(here, took(90.0, there)) == (90.0, "alike")
    assert expect(here, took(90.0, Address.parse(part.format("closed/other/resnet/Offline")))) == (None, "")


def test_a_performance_run_is_not_like_that_of_another_scenario() -> None:
    other = took(90.0, Address(Kind.RUN, f"{OFFLINE}/performance"))
    assert expect(RUN, other, origin=ROUND, target_latency=10_000_000, min_duration=0) == (None, "")


@pytest.mark.parametrize(
    ("minimum", "found"),
    [(59_999, (59.999 + START, "formula")), (60_000, (60.0, "formula")), (57_000, (57.0 + START, "formula"))],
)
def test_a_run_of_a_minute_is_not_lengthened_by_its_start(minimum: int, found: tuple[float, str]) -> None:
    settings = {"target_latency": 1_000_000, "min_query_count": 1}
    assert (START, expect(RUN, min_duration=minimum, **settings)) == (2.0, (pytest.approx(found[0]), found[1]))


@pytest.mark.parametrize(("minimum", "basis"), [(57_999, "history"), (60_000, "formula")])
def test_from_a_minute_on_the_formula_tells_more_than_an_earlier_run(minimum: int, basis: str) -> None:
    settings = {"target_latency": 1_000_000, "min_query_count": 1}
    assert expect(RUN, took(30.0), min_duration=minimum, **settings)[1] == basis


def test_without_a_minimum_the_latency_of_the_round_tells_nothing() -> None:
    assert expect(RUN, origin=ROUND, target_latency=10_000_000, min_query_count=2000) == (None, "")


@pytest.mark.parametrize(
    ("seconds", "ended", "found"),
    [
        (0.5, Ended.DONE, (0.5, "history")),
        (0.0, Ended.DONE, (None, "")),
        (0.5, Ended.FAILED, (None, "")),
    ],
)
def test_what_took_no_time_tells_nothing(seconds: float, ended: Ended, found: tuple[float | None, str]) -> None:
    engine = Address(Kind.ENGINE, STREAM)
    assert expect(engine, took(seconds, engine, ended=ended), key="same") == found


def test_the_last_that_tells_is_told() -> None:
    engine, other = Address(Kind.ENGINE, STREAM), Address(Kind.ENGINE, OFFLINE)
    past = (took(10.0, engine), took(20.0, engine), took(0.0, engine))
    assert expect(engine, *past) == (20.0, "history")
    again = (took(10.0, engine, "same"), took(15.0, engine, "same"), took(20.0, engine))
    assert expect(engine, *again, key="same") == (15.0, "history")
    alike = (took(10.0, other), took(20.0, other), took(30.0, other, ended=Ended.FAILED))
    assert expect(engine, *alike) == (20.0, "alike")


def test_what_a_benchmark_shares_is_like_nothing_else() -> None:
    mine, other = Address(Kind.DATASET, "resnet"), Address(Kind.DATASET, "llama")
    assert expect(mine, took(10.0, other)) == (None, "")
    assert expect(mine, took(10.0, mine)) == (10.0, "history")
    run = Address(Kind.RUN, f"{OFFLINE}/performance")
    assert expect(Address(Kind.ENGINE, STREAM), took(10.0, run)) == (None, "")
    assert expect(Address(Kind.SCORE, STREAM), took(10.0, Address(Kind.ENGINE, OFFLINE))) == (None, "")
