"""Laws of choosing the runs that a cell publishes."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.diff.run_selection import choose_by_policy, find_differing_evidence, select_runs
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import IMPORTED, Ended, Summary

few = settings(max_examples=80)
policies = st.sampled_from(["latest", "median", "best"])


def run(number: int, metric: str, evidence: tuple[tuple[str, str], ...] = (), validity: str = "VALID") -> Summary:
    address = Address(Kind.RUN, "open/box/net/Offline/performance")
    return Summary(
        f"Run/{number:04}", address, "key", Ended.DONE, f"2026-01-01T{number:06}", 1.0, (),
        validity=validity, evidence=evidence, metric=(metric, "samples/s"),
    )  # fmt: skip


metrics = st.decimals(0, 1000, places=2).map(str)
evidences = st.dictionaries(st.sampled_from(["driver", "engine", "code"]), st.sampled_from("ab")).map(
    lambda found: tuple(sorted(found.items()))
)


@st.composite
def runs(draw: st.DrawFn, least: int = 0) -> list[Summary]:
    found = draw(st.lists(st.tuples(metrics, evidences), min_size=least, max_size=6))
    return [run(number, metric, evidence) for number, (metric, evidence) in enumerate(found)]


@few
@given(runs(least=1), st.booleans())
def test_best_is_never_beaten(found: list[Summary], lower: bool) -> None:
    best = choose_by_policy(found, "best", lower_is_better=lower)
    assert best is not None
    assert best.metric is not None
    values = [Decimal(s.metric[0]) for s in found if s.metric]
    assert Decimal(best.metric[0]) == (min(values) if lower else max(values))


@few
@given(runs(least=1), st.booleans())
def test_median_is_no_better_than_half_of_them(found: list[Summary], lower: bool) -> None:
    median = choose_by_policy(found, "median", lower_is_better=lower)
    assert median is not None
    assert median.metric is not None
    sign = -1 if lower else 1
    own = sign * Decimal(median.metric[0])
    at_least_as_good = sum(sign * Decimal(s.metric[0]) >= own for s in found if s.metric)
    assert at_least_as_good * 2 >= len(found)


@few
@given(runs(least=1), policies, st.booleans())
def test_policy_chooses_one_of_them_whatever_their_order(found: list[Summary], policy: str, lower: bool) -> None:
    chosen = choose_by_policy(found, policy, lower_is_better=lower)
    assert chosen in found
    if policy != "latest":
        assert choose_by_policy(found[::-1], policy, lower_is_better=lower) == chosen


@few
@given(evidences, evidences, evidences)
def test_differing_is_symmetric_and_sees_what_only_one_knows(
    a: tuple[tuple[str, str], ...], b: tuple[tuple[str, str], ...], c: tuple[tuple[str, str], ...]
) -> None:
    left, right, nothing = run(1, "1", a), run(2, "1", b), frozenset[str]()
    assert [(n, y, x) for n, x, y in find_differing_evidence(left, right, nothing)] == list(
        find_differing_evidence(right, left, nothing)
    )
    assert (find_differing_evidence(left, right, nothing) == ()) == (a == b)
    allowed = frozenset(name for name, _ in c)
    assert {n for n, _, _ in find_differing_evidence(left, right, allowed)} == {
        n for n, _, _ in find_differing_evidence(left, right, nothing)
    } - allowed


@few
@given(runs(), runs(), policies, st.booleans())
def test_a_pair_is_publishable(performance: list[Summary], accuracy: list[Summary], policy: str, lower: bool) -> None:
    nothing = frozenset[str]()
    published, accompanying = select_runs(performance, accuracy, policy, lower=lower)
    assert (published is None) == (not performance)
    assert (accompanying is None) == (not accuracy)
    possible = any(not find_differing_evidence(p, a, nothing) for p in performance for a in accuracy)
    if possible:
        assert published is not None
        assert accompanying is not None
        assert find_differing_evidence(published, accompanying, nothing) == ()


A, B, BOTH = ("a", "1"), ("b", "1"), (("a", "1"), ("b", "1"))


@pytest.mark.parametrize(
    ("one", "other", "imported", "allowed", "differs"),
    [
        (BOTH, BOTH, "", (), ()),
        (BOTH, (A, ("b", "2")), "", (), (("b", "1", "2"),)),
        ((("b", "1"), ("a", "1")), (("b", "2"), ("a", "2")), "", (), (("a", "1", "2"), ("b", "1", "2"))),
        (BOTH, (A,), "", (), (("b", "1", ""),)),
        ((A,), BOTH, "", (), (("b", "", "1"),)),
        (BOTH, (A,), "one", (), ()),
        (BOTH, (A,), "other", (), ()),
        (BOTH, (("a", "2"),), "other", (), (("a", "1", "2"),)),
        (BOTH, (("a", "2"),), "", ("a", "b"), ()),
    ],
)
def test_evidence_differs_by_name_and_what_an_imported_run_does_not_know_is_no_difference(
    one: tuple[tuple[str, str], ...],
    other: tuple[tuple[str, str], ...],
    imported: str,
    allowed: tuple[str, ...],
    differs: tuple[tuple[str, str, str], ...],
) -> None:
    marks = [(IMPORTED,) if name == imported else () for name in ("one", "other")]
    left, right = (replace(run(1, "1", e), marks=m) for e, m in zip((one, other), marks, strict=True))
    assert find_differing_evidence(left, right, frozenset(allowed)) == differs
