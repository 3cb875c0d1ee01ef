"""What merging does to each cell: from two commits of a submission of a few cells, one run and one result each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Struct

from reconciler.desired.detail import Detail
from reconciler.desired.state import Desired
from reconciler.diff.change import Action, Change, Chosen, Reason, Work
from reconciler.diff.impact import Effect
from reconciler.history.pull_request import compute_impact
from reconciler.resource.decisions import Acceptance
from reconciler.resource.inputs import Input, Origin
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import RecordedInput
from reconciler.resource.resources import Resource

NET, OTHER = Cell("open", "box", "net", "Offline"), Cell("open", "box", "other", "Offline")
MODEL = Address(Kind.MODEL, "net")
LINE = Origin("specs/a.yaml", 7)


def of_run(cell: Cell) -> Address:
    return Address(Kind.RUN, f"{cell}/performance")


def due(cell: Cell = NET, key: str = "k2", reason: Reason = Reason.INPUT_CHANGED, how: Work = Work.MAKE) -> Change:
    return Change(of_run(cell), key, Action.REPLACE, reason, how, f"Run/{cell.benchmark}")


def of_model(key: str = "m2") -> Change:
    return Change(MODEL, key, Action.REPLACE, Reason.INPUT_CHANGED, Work.MAKE, "Model/net")


def accept(reason: str = "as fast") -> Acceptance:
    return Acceptance(NET, reason, "Ann", "2026-03-01", date(2026, 4, 1), "", ())


class Side(Struct, frozen=True):
    """One commit. ``results``: the key of each cell's result; ``asked``: what its runs' inputs are."""

    results: Mapping[Cell, str]
    changes: tuple[Change, ...] = ()
    accepted: Acceptance | None = None
    asked: Mapping[str, str] = {}
    thin: Mapping[str, tuple[str, ...]] = {}


class Records(dict[str, Any]):
    fetched: frozenset[str] = frozenset()

    def fetch(self, ids: Any) -> None:
        self.fetched |= frozenset(ids)


def snapshot(name: str, side: Side) -> Any:
    resources = [Resource(MODEL, "m")]
    for cell, key in side.results.items():
        resources += [
            Resource(of_run(cell), "k", (MODEL,)),
            Resource(Address(Kind.RESULT, str(cell)), key, (of_run(cell),), cell),
        ]
    inputs = tuple(Input(n, value, LINE, MODEL if n == "model" else None) for n, value in side.asked.items())
    recorded = {"target_qps": RecordedInput("1", "specs/a.yaml:7"), "streams": RecordedInput("1", "specs/a.yaml:8")}
    return SimpleNamespace(
        commit=name,
        desired=Desired(
            digest="",
            resources=tuple(resources),
            by_address={resource.address: resource for resource in resources},
            detail=lambda _: Detail(inputs),
        ),
        difference=SimpleNamespace(
            changes=side.changes,
            accepted={NET: side.accepted} if side.accepted else {},
            acceptances=(),
            chosen={NET: Chosen(performance="Run/net")},
        ),
        records=Records({"Run/net": SimpleNamespace(inputs=recorded)}),
        committed=SimpleNamespace(thin=side.thin),
        decisions=SimpleNamespace(damaged={}, acceptances={}, freezes={}, frozen=()),
    )


def merge(base: Side, head: Side, seconds: Mapping[Address, float] | None = None, withheld: str = "") -> Any:
    known = {of_run(NET): 600.0, of_run(OTHER): 60.0, MODEL: 5.0} if seconds is None else seconds
    before, after = snapshot("base", base), snapshot("head", head)
    return compute_impact(
        before, after, lambda address, at: known.get(address) if at is after else None, withheld=withheld
    )


ONE = {NET: "r"}


@pytest.mark.parametrize(
    ("base", "head", "effect"),
    [
        pytest.param(Side(ONE), Side(ONE), Effect.UNAFFECTED, id="nothing"),
        pytest.param(Side(ONE), Side({NET: "r2"}), Effect.RENDERED, id="another tree"),
        pytest.param(Side({}), Side(ONE), Effect.ADDED, id="a new cell"),
        pytest.param(Side({}), Side(ONE, (due(),)), Effect.ADDED, id="a new cell without runs"),
        pytest.param(Side(ONE), Side({}), Effect.REMOVED, id="no such cell any more"),
        pytest.param(Side(ONE), Side(ONE, (due(),)), Effect.STALE, id="due"),
        pytest.param(Side(ONE, (due(key="k1"),)), Side(ONE, (due(),)), Effect.STALE, id="due in another way"),
        pytest.param(Side(ONE, (due(),)), Side(ONE, (due(), of_model())), Effect.STALE, id="more is due"),
        pytest.param(Side(ONE, (due(),)), Side(ONE, (due(),)), Effect.WAS_STALE, id="due as before"),
        pytest.param(Side(ONE, (due(), of_model())), Side(ONE, (due(),)), Effect.WAS_STALE, id="less is due"),
        pytest.param(*(Side(ONE, (due(reason=Reason.NOT_RECORDED),)),) * 2, Effect.NEVER, id="never recorded"),
        pytest.param(
            Side(ONE, (due(key="k1", reason=Reason.NOT_RECORDED),)),
            Side(ONE, (due(reason=Reason.NOT_RECORDED),)),
            Effect.NEVER,
            id="never recorded, and edited",
        ),
        pytest.param(
            *(Side(ONE, (due(reason=Reason.NOT_RECORDED), of_model())),) * 2, Effect.WAS_STALE, id="partly recorded"
        ),
        pytest.param(Side(ONE, (due(),)), Side(ONE), Effect.SETTLED, id="recorded"),
        pytest.param(Side(ONE, (due(),)), Side(ONE, accepted=accept()), Effect.ACCEPTED, id="accepted"),
        pytest.param(Side(ONE, accepted=accept()), Side(ONE, accepted=accept()), Effect.UNAFFECTED, id="was accepted"),
        pytest.param(Side(ONE, accepted=accept()), Side(ONE), Effect.UNAFFECTED, id="accepted no more"),
        pytest.param(
            Side(ONE, accepted=accept()), Side(ONE, accepted=accept("so I say")), Effect.ACCEPTED, id="accepted anew"
        ),
        pytest.param(Side(ONE, (due(),)), Side(ONE, (due(),), accept()), Effect.WAS_STALE, id="accepted, yet due"),
        pytest.param(Side(ONE), Side(ONE, (of_model(),), accept()), Effect.ACCEPTED, id="a model for others"),
        pytest.param(Side(ONE), Side(ONE, (due(how=Work.RENDER),)), Effect.UNAFFECTED, id="only to be rendered"),
        pytest.param(Side(ONE, (due(how=Work.RESTORE),)), Side(ONE), Effect.UNAFFECTED, id="was to be restored"),
    ],
)
def test_effect_on_a_cell(base: Side, head: Side, effect: Effect) -> None:
    (found,) = merge(base, head).cells
    assert (found.cell, found.effect) == (NET, effect)


def test_work_is_counted_once_per_key_and_its_time_where_it_is_known() -> None:
    both = {OTHER: "o", NET: "r"}
    changes = (of_model(), due(NET), due(OTHER), due(OTHER, how=Work.RESTORE))
    found = merge(Side(both), Side(both, changes))
    assert [(e.cell, e.due, e.seconds) for e in found.cells] == [
        (NET, ("Model", "Run performance"), 605.0),
        (OTHER, ("Model",), 5.0),  # the run is restored
    ]
    restored = merge(Side(both), Side(both, (of_model(), due(NET), due(OTHER, how=Work.RESTORE))))
    assert (restored.due.counts, restored.due.seconds) == ({"Model": 1, "Run performance": 1}, 605.0)
    whole = merge(Side(both), Side(both, (of_model(), due(NET), due(OTHER, "k3"))))
    assert (whole.base, whole.head) == ("base", "head")
    assert (whole.due.counts, whole.due.seconds, whole.due.unknown) == ({"Model": 1, "Run performance": 2}, 665.0, 0)
    shared = merge(Side(both), Side(both, (due(NET), due(OTHER))))  # one key, one run
    assert (shared.due.counts, shared.due.seconds) == ({"Run performance": 1}, 60.0)
    partly = merge(Side(both), Side(both, (of_model(), due(NET))), {MODEL: 5.0})
    assert (partly.due.seconds, partly.due.unknown) == (5.0, 1)
    assert [effect.seconds for effect in partly.cells] == [None, 5.0]
    assert [effect.seconds for effect in merge(Side(both), Side(both)).cells] == [0.0, 0.0]


def test_work_that_is_due_on_the_base_too_is_counted_apart() -> None:
    both = {OTHER: "o", NET: "r"}
    found = merge(Side(both, (due(OTHER, "k1"),)), Side(both, (due(OTHER, "k1"), due(NET), of_model())))
    assert (found.added.counts, found.added.seconds) == ({"Run performance": 1, "Model": 1}, 605.0)
    assert (found.due_before.counts, found.due_before.seconds) == ({"Run performance": 1}, 60.0)
    assert [(e.cell, e.due, e.due_before) for e in found.cells] == [
        (NET, ("Run performance", "Model"), ()),
        (OTHER, ("Run performance", "Model"), ("Run performance",)),
    ]


def test_causes_are_own_inputs_that_differ_from_the_record_those_of_the_base_apart() -> None:
    asked = {"streams": "2", "target_qps": "2", "model": "m2"}
    before = Side(ONE, asked={"streams": "2", "target_qps": "1"})
    (found,) = merge(before, Side(ONE, (due(),), asked=asked)).cells
    assert [[(c.name, c.before, c.after) for c in causes] for causes in (found.causes, found.causes_before)] == [
        [("target_qps", "1", "2")],
        [("streams", "1", "2")],
    ]
    assert str(found.causes[0].origin) == "specs/a.yaml:7"
    (added,) = merge(Side({}), Side(ONE, (due(),), asked=asked)).cells
    assert [cause.name for cause in added.causes] == ["streams", "target_qps"]
    (unknown,) = merge(Side(ONE), Side(ONE, (of_model(),), asked=asked)).cells
    assert unknown.causes == ()  # there is no record of it
