"""Whole plans, step by step: what is selected, in which order, for how long, and why something cannot be done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace
from ruamel.yaml import YAML

from reconciler.desired.state import Desired
from reconciler.diff.change import Change, Finding, InputChange, Work
from reconciler.diff.difference import compare
from reconciler.observed.state import ArtifactPresence, Observed
from reconciler.plan.builder import PlanContext, Policy, make_plan
from reconciler.plan.plan import Plan
from reconciler.plan.select import Selection, parse, parse_repeated
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import Address, Cell, Kind
from tests.unit.diff.simulated import Wish, World, desire

EXPECTED = YAML(typ="safe").load(Path(__file__).with_name("plans.yaml"))
NET, SERVER, OTHER = Wish(), Wish(scenario="Server"), Wish("other")
DATASET, MODEL = Address(Kind.DATASET, "net"), Address(Kind.MODEL, "net")
TIMED, SCORED = (Address(Kind.RUN, f"{NET.cell}/{mode}") for mode in ("performance", "accuracy"))
ENGINE, SCORE = Address(Kind.ENGINE, str(NET.cell)), Address(Kind.SCORE, str(NET.cell))
SERVED = replace(NET, service="one")


class Asked(Struct):
    """``world``: what is recorded; ``frozen``: benchmarks and scenarios that people want left alone."""

    desired: Desired
    policy: Policy = Policy()
    world: World | None = None
    observed: Observed = Observed()
    forced: Iterable[Address] = ()
    blocked: Mapping[Address, str] = {}
    frozen: tuple[Cell, ...] = ()
    findings: tuple[Finding, ...] = ()


def measured(*wishes: Wish, without: Address | None = None) -> World:
    world = World()
    world.settle(desire(wishes))
    world.summaries = [s for s in world.summaries if s.address != without]
    return world


def select(*words: str, only: Iterable[str] = (), exclude: Iterable[str] = ()) -> Policy:
    return Policy(parse(words), parse_repeated(list(exclude)) if exclude else Selection(), frozenset(only))


def all_of(desired: Desired, *wishes: Wish, kinds: Iterable[Kind] = tuple(Kind)) -> dict[Address, str]:
    cells = {wish.cell for wish in wishes}
    return {r.address: "another machine" for r in desired.resources if r.cell in cells and r.kind in kinds}


def logs_are_missing(*kinds: Kind) -> tuple[World, Observed]:
    """Logs in git of records of these kinds."""
    world = measured(NET)
    own = [s for s in world.summaries if s.address.kind in kinds]
    for summary in own:
        kept = tuple(a._replace(place="logs") for a in summary.artifacts)
        world.summaries[world.summaries.index(summary)] = replace(summary, artifacts=kept)
    lost = {("logs", a.sha256): ArtifactPresence.MISSING for s in own for a in s.artifacts}
    return world, Observed(artifacts=lost)


def restore(
    policy: Policy | None = None, frozen: tuple[Cell, ...] = (), forced: Iterable[Address] = (), because: str = ""
) -> Asked:
    """``because``: why the performance run is blocked."""
    world, observed = logs_are_missing(Kind.RUN)
    blocked = {TIMED: because} if because else {}
    return Asked(desire([NET]), policy or Policy(), world, observed, forced, blocked, frozen)


def rendered(**given: object) -> Asked:
    """A tree that shows another rendering, submission and all, next to a due run."""
    tree = Observed(tree_present=True, rendered={str(NET.cell): "before", "submission": "before"})
    return Asked(desire([replace(NET, target=2), SERVER]), world=measured(NET, SERVER), observed=tree, **given)  # type: ignore[arg-type]


BOTH, THREE = desire([NET, SERVER]), desire([NET, SERVER, OTHER])
FINDINGS = tuple(
    Finding("Invalid", where, "m")
    for where in (str(NET.cell), str(SERVER.cell), str(OTHER.cell), "state/records/Run/x.json")
)
APART = desire([
    Wish("a", service="one", data=1), Wish("b"), Wish("c", scenario="Server", service="one", data=1), Wish("d", data=1),
])  # fmt: skip
STORIES: dict[str, Callable[[], Asked]] = {
    "all": lambda: Asked(THREE),
    "all again": lambda: Asked(THREE, world=measured(NET, SERVER, OTHER)),
    "another target": lambda: Asked(desire([replace(NET, target=2), SERVER]), world=measured(NET, SERVER)),
    "a scenario": lambda: Asked(THREE, select("scenario=Server")),
    "a benchmark": lambda: Asked(THREE, select("benchmark=other"), findings=FINDINGS),
    "a scenario of a benchmark": lambda: Asked(THREE, select("benchmark=net", "scenario=Offline"), findings=FINDINGS),
    "without a scenario": lambda: Asked(THREE, select(exclude=["scenario=Offline"]), findings=FINDINGS),
    "without a benchmark": lambda: Asked(THREE, select(exclude=["benchmark=net"]), findings=FINDINGS),
    "a benchmark without a scenario": lambda: Asked(
        THREE, select("benchmark=net", exclude=["scenario=Server"]), findings=FINDINGS
    ),
    "without two of three": lambda: Asked(
        THREE, select(exclude=["benchmark=net scenario=Server", "benchmark=other"]), findings=FINDINGS
    ),
    "performance runs": lambda: Asked(BOTH, select("mode=performance")),
    "a kind": lambda: Asked(BOTH, select("kind=Engine")),
    "kinds by their names": lambda: Asked(BOTH, select(only=["ENGINE", "run accuracy"])),
    "results alone": lambda: Asked(desire([replace(NET, batch=2)]), select(only=["Result"]), measured(NET)),
    "results alone, of one run that is due": lambda: Asked(
        desire([replace(NET, target=2)]), select(only=["Result"]), measured(NET)
    ),
    "results by their kind": lambda: Asked(desire([NET]), select("kind=Result")),
    "servers alone": lambda: Asked(desire([SERVED]), select(only=["Service"])),
    "cells of one server": lambda: Asked(APART),
    "cells of one server, and the last without it": lambda: Asked(APART, select("benchmark=c")),
    "a server and its runs": lambda: Asked(desire([SERVED, replace(SERVER, service="one")])),
    "runs of a server that are blocked": lambda: Asked(
        desire([SERVED]), blocked=all_of(desire([SERVED]), SERVED, kinds=(Kind.RUN,))
    ),
    "one run of a server that is blocked": lambda: Asked(desire([SERVED]), blocked={TIMED: "no meter"}),
    "a server that is blocked": lambda: Asked(
        desire([SERVED]), blocked=all_of(desire([SERVED]), SERVED, kinds=(Kind.SERVICE,))
    ),
    "a dataset that is blocked": lambda: Asked(BOTH, blocked={DATASET: "no disk"}),
    "an engine that is blocked": lambda: Asked(desire([NET]), blocked={ENGINE: "no compiler"}),
    "one cell that is blocked": lambda: Asked(THREE, blocked=all_of(THREE, OTHER)),
    "two cells of a benchmark that are blocked": lambda: Asked(THREE, blocked=all_of(THREE, NET, SERVER)),
    "one of two cells that is blocked": lambda: Asked(
        desire([NET, replace(SERVER, batch=2)]), blocked={Address(Kind.ENGINE, str(SERVER.cell)): "another machine"}
    ),
    "one cell that is frozen": lambda: Asked(desire([NET, replace(SERVER, batch=2)]), frozen=(NET.cell,)),
    "two cells that are frozen": lambda: Asked(BOTH, frozen=(NET.cell, SERVER.cell)),
    "a frozen cell that is blocked": lambda: Asked(desire([NET]), frozen=(NET.cell,), blocked={ENGINE: "no compiler"}),
    "logs that are missing": restore,
    "logs that are missing of a frozen cell": lambda: restore(frozen=(NET.cell,)),
    "logs that are missing of a blocked run": lambda: restore(because="no meter"),
    "logs that are missing beside a score that is due": lambda: restore(select("kind=Score"), forced=[SCORE]),
    "a tree of another rendering": rendered,
    "a tree of another rendering, and a run that is blocked": lambda: rendered(blocked={TIMED: "no meter"}),
    "the tree alone": lambda: rendered(policy=select(only=["Submission"])),
    "the submission of a scenario": lambda: rendered(policy=select("scenario=Server")),
}


def predict(address: Address) -> tuple[float | None, str]:
    return (None, "") if address.kind is Kind.MODEL else (len(str(address)) / 2, "history")


def explain(change: Change) -> tuple[InputChange, ...]:
    return (InputChange("batch", 1, 2, Origin("specs/a.yaml", 3)),) if change.address.kind is Kind.ENGINE else ()


def plan(asked: Asked) -> Plan:
    recorded = (asked.world or World()).recorded
    difference = compare(asked.desired, recorded, asked.observed, frozenset(asked.forced))
    difference = replace(difference, findings=(*difference.findings, *asked.findings))
    context = PlanContext(
        asked.desired.by_address,
        lambda address: (asked.blocked[address], f"mend {address}") if address in asked.blocked else None,
        predict,
        explain,
        lambda address: ("frozen", "thaw it") if address.cell in asked.frozen else None,
    )
    return make_plan("box", "desired", "recorded", difference, asked.policy, context)


def outline(found: Plan) -> dict[str, object]:
    """Steps in their order, those that are blocked, findings, and how many changes were left out."""
    reported = {
        "steps": [" and ".join(map(str, (step.change.address, *step.shared))) for step in found.steps],
        "blocked": [str(step.change.address) for step in found.steps if step.blocked],
        "findings": [finding.where for finding in found.findings],
        "excluded": found.excluded,
        "unchanged": found.unchanged,
    }
    return {name: _shorten(value) for name, value in reported.items() if value}


def _shorten(value: object) -> object:
    return [line.replace("open/box/", "").replace(":", " ") for line in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", STORIES)
def test_a_plan_has_the_steps_that_are_asked_for(name: str) -> None:
    assert outline(plan(STORIES[name]())) == EXPECTED[name]


@pytest.mark.parametrize("name", STORIES)
def test_steps_come_after_what_causes_them_and_have_their_prediction(name: str) -> None:
    asked = STORIES[name]()
    found = plan(asked)
    planned = {address for step in found.steps for address in (step.change.address, *step.shared)}
    done: set[Address] = set()
    for step in found.steps:
        own = (step.change.address, *step.shared)
        upstream = {up for address in own for up in asked.desired.by_address[address].upstream}
        assert set(step.because) <= upstream
        assert upstream & planned <= done
        made = step.change.how in (Work.MAKE, Work.START)
        assert (step.seconds, step.basis) == (predict(step.change.address) if made else (0.0, "")), step
        assert step.explained == explain(step.change) or not made
        done.update(own)
