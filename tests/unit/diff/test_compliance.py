"""Cells with compliance tests: which test counts, whether its verdict does, and what is repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from msgspec.structs import replace

from reconciler.desired.state import Desired
from reconciler.diff.compliance import find_missing_answers
from reconciler.diff.conditions import summarise_cells
from reconciler.diff.difference import compare
from reconciler.loadgen.log_files import ACCURACY_LOG
from reconciler.observed.state import ArtifactPresence, Observed
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Artifact, Summary
from tests.unit.diff.outline import EXPECTED, outline
from tests.unit.diff.simulated import Wish, World, desire

NET = Wish(tests=("TEST01",))
AT = f"{NET.cell}/TEST01"
TEST, VERDICT = Address(Kind.COMPLIANCE_TEST, AT), Address(Kind.VERDICT, AT)
PERFORMANCE, ACCURACY = (Address(Kind.RUN, f"{NET.cell}/{mode}") for mode in ("performance", "accuracy"))
DATASET = Address(Kind.DATASET, "net")
Story = Callable[[World], tuple[Desired, frozenset[Address]]]


def measured(wish: Wish = NET, then: Wish | None = None, *, forced: Iterable[Address] = ()) -> Story:
    def build(world: World) -> tuple[Desired, frozenset[Address]]:
        world.settle(desire([wish]))
        return desire([then or wish]), frozenset(forced)

    return build


def edited(change: Callable[[Summary], Summary | None], wish: Wish = NET) -> Story:
    """Measured; then records are changed, or lost where this gives None."""

    def build(world: World) -> tuple[Desired, frozenset[Address]]:
        world.settle(desire([wish]))
        world.summaries = [found for each in world.summaries if (found := change(each)) is not None]
        return desire([wish]), frozenset()

    return build


def without(address: Address) -> Callable[[Summary], Summary | None]:
    return lambda summary: None if summary.address == address else summary


def with_evidence(
    evidence: str, *addresses: Address, name: str = "driver", started: str = ""
) -> Callable[[Summary], Summary]:
    def change(summary: Summary) -> Summary:
        own = replace(summary, evidence=((name, evidence),), started=started or summary.started)
        return own if summary.address in addresses else summary

    return change


def denied(passes: int, *, by_speed: bool = False, **attempts: int) -> Story:
    """So many passes over a cell whose verdict fails."""

    def build(world: World) -> tuple[Desired, frozenset[Address]]:
        desired = desire([replace(NET, **attempts)])  # type: ignore[arg-type]
        world.denied = {desired.by_address[VERDICT].key: ("the score is +12 % of 100", by_speed)}
        for _ in range(passes):
            world.carry_out(desired, world.plan(desired))
        return desired, frozenset()

    return build


def invalid(world: World) -> tuple[Desired, frozenset[Address]]:
    desired = desire([NET])
    world.invalid = {desired.by_address[PERFORMANCE].key}
    world.settle(desired)
    return desired, frozenset()


def repeated(*evidence: tuple[Address, str], denies: Iterable[int] = ()) -> Story:
    """One more record of each, as later passes leave them; ``denies``: which of the tests, by number, fail."""

    def build(world: World) -> tuple[Desired, frozenset[Address]]:
        desired = desire([NET])
        world.settle(desired)
        (verdict,) = [s for s in world.summaries if s.address == VERDICT]
        for number, (address, driver) in enumerate(evidence):
            (first, *_) = [s for s in world.summaries if s.address == address]
            own = {"id": f"{address.kind}/again{number}", "started": f"2026-01-02T00000{number}"}
            again = replace(first, evidence=(("driver", driver),), **own)  # type: ignore[arg-type]
            world.summaries.append(again)
            if address == TEST:
                upstream = tuple((n, again.id if n == "audit" else up) for n, up in verdict.upstream)
                own = {"id": f"Verdict/again{number}", "started": again.started}
                world.summaries.append(replace(verdict, upstream=upstream, **own))  # type: ignore[arg-type]
        verdicts = [s for s in world.summaries if s.address == VERDICT]
        for number in denies:
            at = world.summaries.index(verdicts[number])
            world.summaries[at] = replace(verdicts[number], problem="the answers differ")
        return desired, frozenset()

    return build


def forced_with_another_driver(world: World) -> tuple[Desired, frozenset[Address]]:
    desired, _ = edited(with_evidence("driver 2", TEST))(world)
    return desired, frozenset([PERFORMANCE])


def not_judged_yet(world: World) -> tuple[Desired, frozenset[Address]]:
    """The newest of two tests, of which the older passes."""
    reported = repeated((TEST, "driver 1"))(world)
    world.summaries = [s for s in world.summaries if s.id != "Verdict/again0"]
    return reported


def with_runs_alone(summary: Summary) -> Summary:
    """A verdict that names nothing but the runs that it is of."""
    runs = tuple((name, up) for name, up in summary.upstream if name in ("audit", "accuracy", "performance"))
    return replace(summary, upstream=runs) if summary.address == VERDICT else summary


STORIES: dict[str, Story] = {
    "nothing was measured": lambda _: (desire([NET]), frozenset()),
    "all passes": measured(),
    "two tests": measured(replace(NET, tests=("TEST01", "TEST04"))),
    "a test more": measured(then=replace(NET, tests=("TEST01", "TEST04"))),
    "a test less": measured(then=replace(NET, tests=())),
    "another target": measured(then=replace(NET, target=2)),
    "another batch size": measured(then=replace(NET, batch=2)),
    "a test is forced": measured(forced=[TEST]),
    "a verdict is forced": measured(forced=[VERDICT]),
    "a performance run is forced": measured(forced=[PERFORMANCE]),
    "an accuracy run is forced": measured(forced=[ACCURACY]),
    "the record of a test is lost": edited(without(TEST)),
    "the record of a verdict is lost": edited(without(VERDICT)),
    "the performance run is INVALID": invalid,
    "a verdict fails": denied(1),
    "a verdict fails, of two attempts": denied(1, test_attempts=2),
    "a verdict fails twice, of two attempts": denied(2, test_attempts=2),
    "a verdict fails by speed": denied(1, by_speed=True),
    "a verdict fails by speed, and the run may be repeated": denied(1, by_speed=True, attempts=2),
    "a verdict fails by speed, and both may be repeated": denied(1, by_speed=True, attempts=2, test_attempts=2),
    "a verdict fails by speed, once more": denied(2, by_speed=True, attempts=2, test_attempts=2),
    "a verdict fails by speed, to the end": denied(4, by_speed=True, attempts=2, test_attempts=2),
    "a test of another driver": edited(with_evidence("driver 2", TEST)),
    "runs of a newer driver": repeated((PERFORMANCE, "driver 2"), (ACCURACY, "driver 2")),
    "a test of an older driver": edited(with_evidence("driver 2", PERFORMANCE, ACCURACY, started="2026-01-02")),
    "a test of other files": edited(with_evidence("abc", TEST, name="dataset.files")),
    "a test of its own data": edited(
        lambda s: replace(s, evidence=(("dataset.files", "abc"), ("driver", "driver 1"))) if s.address == TEST else s,
        replace(NET, test_data=1),
    ),
    "a test of its own data and another driver": edited(with_evidence("driver 2", TEST), replace(NET, test_data=1)),
    "the newer of two tests passes": repeated((TEST, "driver 1"), denies=[0]),
    "the older of two tests passes": repeated((TEST, "driver 1"), denies=[1]),
    "neither of two tests passes": repeated((TEST, "driver 1"), denies=[0, 1]),
    "two tests of two drivers": repeated((TEST, "driver 2")),
    "two tests of two drivers, and the one that fits fails": repeated((TEST, "driver 2"), denies=[0]),
    "a run was repeated": repeated((PERFORMANCE, "driver 1")),
    "runs and test were repeated": repeated((PERFORMANCE, "driver 2"), (ACCURACY, "driver 2"), (TEST, "driver 2")),
    "the dataset is forced": measured(forced=[DATASET]),
    "a test of its own data that tells no files": edited(
        lambda s: replace(s, evidence=(("dataset.files", "abc"), *s.evidence)) if s.address.kind is Kind.RUN else s,
        replace(NET, test_data=1),
    ),
    "a test of another driver with a run that is forced": forced_with_another_driver,
    "a test of another driver, begun at the same time": edited(
        with_evidence("driver 2", TEST, started="2026-01-01T000005")
    ),
    "the newest of two tests is not judged yet": not_judged_yet,
    "a verdict that names its runs alone": edited(with_runs_alone),
    "a verdict fails by speed, of three attempts": denied(1, by_speed=True, attempts=3, test_attempts=3),
    "a verdict fails by speed twice, of three attempts": denied(2, by_speed=True, attempts=3, test_attempts=3),
    "a verdict fails by speed three times, of three attempts": denied(3, by_speed=True, attempts=3, test_attempts=3),
    "the dataset was made again": repeated((DATASET, "driver 1")),
}


@pytest.mark.parametrize("name", STORIES)
def test_what_happened_to_a_test_decides_what_is_due(name: str) -> None:
    world = World()
    desired, forced = STORIES[name](world)
    found = compare(desired, world.recorded, Observed(), forced)
    cells = summarise_cells(desired, world.recorded, Observed(), found)
    assert outline(found, cells) == EXPECTED["compliance"][name]


@pytest.mark.parametrize(("speed", "most"), [(True, 2), (False, 1)], ids=["by speed", "by answers"])
def test_a_verdict_that_never_passes_ends_after_the_attempts_of_each(speed: bool, most: int) -> None:
    world = World()
    desired, _ = denied(0, by_speed=speed, attempts=2, test_attempts=2)(world)
    world.settle(desired)
    made = [s.address for s in world.summaries]
    assert (made.count(PERFORMANCE), made.count(TEST)) == (most, 2)
    assert [f.kind for f in world.compare(desired).findings] == ["AuditFails"]


LOST = ArtifactPresence.MISSING


@pytest.mark.parametrize(
    ("lost", "change", "missing"),
    [
        ((), {"target": 2}, ""),
        ((ACCURACY,), {}, "accuracy"),
        ((TEST,), {}, "audit"),
        ((PERFORMANCE,), {}, ""),  # its answers are not read
        ((ACCURACY,), {"batch": 2}, ""),  # it is made again
    ],
    ids=["nothing", "of the accuracy run", "of the test", "of the performance run", "of a run that is due"],
)
@pytest.mark.parametrize("place", ["objects", "logs"])
def test_a_due_verdict_lacks_the_answers_of_a_run_whose_log_is_not_here(
    lost: tuple[Address, ...], change: dict[str, int], missing: str, place: str
) -> None:
    """Truncated logs, of git's folder, are never read for it."""
    world = World()
    world.settle(desire([NET]))
    for number, summary in enumerate(world.summaries):
        log = Artifact(ACCURACY_LOG, f"{number:064}", 1, place)
        world.summaries[number] = replace(summary, artifacts=(*summary.artifacts, log))
    world.summaries = [s for s in world.summaries if s.address != VERDICT]
    desired = desire([replace(NET, **change)])  # type: ignore[arg-type]
    gone = {("objects", s.artifacts[-1].sha256): LOST for s in world.summaries if s.address in lost}
    observed = Observed(artifacts=gone)
    difference = world.compare(desired, observed)
    found = find_missing_answers(desired, world.recorded, observed, difference, VERDICT)
    assert found == (missing if place == "objects" else "")


def test_a_comparison_of_the_same_answers_is_without_them() -> None:
    world = World()
    world.settle(desire([NET]))
    logs = {s.address: Artifact(ACCURACY_LOG, f"{n:064}", 1, "objects") for n, s in enumerate(world.summaries)}
    world.summaries = [replace(s, artifacts=(logs[s.address],)) for s in world.summaries]
    desired = desire([replace(NET, target=2)])
    observed = Observed(artifacts={("objects", logs[ACCURACY].sha256): LOST})
    for done, missing in ((True, ""), (False, "accuracy")):
        if not done:  # the comparison was of another accuracy run
            (at,) = (n for n, s in enumerate(world.summaries) if s.address == VERDICT)
            other = tuple((n, "Run/other" if n == "accuracy" else up) for n, up in world.summaries[at].upstream)
            world.summaries[at] = replace(world.summaries[at], upstream=other)
        difference = world.compare(desired, observed)
        assert find_missing_answers(desired, world.recorded, observed, difference, VERDICT) == missing
