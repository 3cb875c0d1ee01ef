"""Small desired states and their records as values alone: what a pass would do, without processes or files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from reconciler.desired.detail import Detail
from reconciler.desired.state import Desired
from reconciler.diff.change import Difference, Work
from reconciler.diff.difference import compare
from reconciler.observed.state import Observed
from reconciler.plan.builder import PlanContext, Policy, Predict, make_plan
from reconciler.plan.plan import Plan
from reconciler.resource.inputs import Input, Origin, make_key
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Artifact, Ended, Recorded, Summary
from reconciler.resource.resources import Resource


class Wish(Struct, frozen=True):
    """One cell of a simulated spec."""

    benchmark: str = "net"
    scenario: str = "Offline"
    data: int = 0
    weights: int = 0
    batch: int = 1
    target: int = 1
    note: int = 0
    service: str = ""
    attempts: int = 1
    policy: str = ""
    tests: tuple[str, ...] = ()
    test_attempts: int = 1
    test_data: int = 0
    release: int = 0  # of the model that the cells of a benchmark share
    division: str = "open"

    @property
    def cell(self) -> Cell:
        return Cell(self.division, "box", self.benchmark, self.scenario)


def desire(wishes: Iterable[Wish]) -> Desired:
    """The desired state, keys and all, in pipeline order."""
    made: dict[Address, tuple[Resource, Detail]] = {}

    def put(kind: Kind, name: str, wish: Wish | None, *inputs: Input, attempts: int = 1) -> Input:
        address = Address(kind, name)
        ups = tuple(i.upstream for i in inputs if i.upstream is not None)
        key = make_key(kind, inputs)
        cell = wish.cell if wish else None
        made.setdefault(address, (Resource(address, key, ups, cell, attempts), Detail(inputs)))
        return Input(str(kind).lower(), key, Origin(str(address)), address)

    for wish in wishes:
        cell = str(wish.cell)
        own = f"{wish.benchmark}" if not (wish.data or wish.weights) else cell
        dataset = put(Kind.DATASET, own, None, Input("data", wish.data))
        release = [Input("release", wish.release)] if wish.release else []
        model = put(Kind.MODEL, own, None, Input("weights", wish.weights), *release, dataset)
        engine = put(Kind.ENGINE, cell, wish, model, Input("batch", wish.batch))
        service = [put(Kind.SERVICE, cell, wish, engine, Input("argv", wish.service))] if wish.service else []
        common = (engine, dataset, *service, Input("scenario", wish.scenario))
        runs = []
        for mode, extra in (("accuracy", ()), ("performance", (Input("target_qps", wish.target),))):
            name, inputs = f"{cell}/{mode}", (*common, Input("mode", mode), *extra)
            runs.append(replace(put(Kind.RUN, name, wish, *inputs, attempts=wish.attempts), name=mode))
        score = put(Kind.SCORE, cell, wish, replace(runs[0], name="run"), dataset)
        verdicts = []
        for name in wish.tests:
            at, tested = f"{cell}/{name}", dataset
            if wish.test_data:
                tested = put(Kind.DATASET, at, None, Input("data", wish.test_data))
            reported = (engine, tested, *service, Input("scenario", wish.scenario), Input("test", name))
            audit = put(Kind.COMPLIANCE_TEST, at, wish, *reported, attempts=wish.test_attempts)
            verdict = put(Kind.VERDICT, at, wish, Input("test", name), replace(audit, name="audit"), *runs, dataset)
            verdicts.append(replace(verdict, name=f"verdict.{name}"))
        published = [Input("policy.publish", wish.policy)] if wish.policy else []
        put(Kind.RESULT, cell, wish, *runs, score, *verdicts, Input("note", wish.note), *published)
    put(Kind.SUBMISSION, "all", None, Input("submitter", "ACME"))
    details = {address: detail for address, (_, detail) in made.items()}
    resources = tuple(resource for resource, _ in made.values())
    named = [str(r.address) + r.key for r in resources]
    return Desired(
        digest="".join(sorted(named)),
        resources=resources,
        detail=details.__getitem__,
        name="all",
        by_address={r.address: r for r in resources},
    )


@dataclass
class World:
    """Records as they add up. ``invalid``: keys of runs that LoadGen calls INVALID; ``evidence``: what it is now.
    ``denied``: key of a verdict → why it fails, and whether by speed."""

    summaries: list[Summary] = field(default_factory=list)
    invalid: set[str] = field(default_factory=set)
    failing: set[str] = field(default_factory=set)
    denied: dict[str, tuple[str, bool]] = field(default_factory=dict)
    evidence: str = "driver 1"
    clock: int = 0

    @property
    def recorded(self) -> Recorded:
        by_key: dict[str, list[Summary]] = {}
        by_address: dict[Address, list[Summary]] = {}
        for summary in self.summaries:
            by_key.setdefault(summary.key, []).append(summary)
            for address in (summary.address, *summary.shared):
                by_address.setdefault(address, []).append(summary)
        return Recorded(
            {key: tuple(found) for key, found in by_key.items()},
            {address: tuple(found) for address, found in by_address.items()},
            str(len(self.summaries)),
        )

    def compare(self, desired: Desired, observed: Observed | None = None) -> Difference:
        return compare(desired, self.recorded, observed or Observed())

    def plan(
        self,
        desired: Desired,
        policy: Policy | None = None,
        blocked: Mapping[Address, str] | None = None,
        predict: Predict = lambda _: (None, ""),
        observed: Observed | None = None,
    ) -> Plan:
        stops = blocked or {}
        context = PlanContext(
            desired.by_address,
            lambda address: (stops[address], "fix") if address in stops else None,
            predict,
            lambda _: (),
        )
        found = self.compare(desired, observed)
        return make_plan("all", desired.digest, self.recorded.digest, found, policy or Policy(), context)

    def carry_out(self, desired: Desired, plan: Plan) -> int:
        """What executing the plan would record; how many attempts that were."""
        used = dict(self.compare(desired).recorded_as)
        made = 0
        for step in plan.steps:
            address, key = step.change.address, step.change.key
            waits = step.blocked or any(up not in used for up in desired.by_address[address].upstream)
            started = step.change.how is Work.START
            if not (step.change.how is Work.MAKE or started) or waits:
                continue
            made += not started
            failed = key in self.failing
            upstream = [
                (i.name, used[Address.parse(i.origin.file)])
                for i in desired.detail(address).inputs
                if ":" in i.origin.file
            ]
            self.clock += 1
            run = address.kind in (Kind.RUN, Kind.COMPLIANCE_TEST)
            performance = address.name.endswith("/performance")
            problem, by_speed = self.denied.get(key, ("", False))
            summary = Summary(
                id=f"{address.kind}/{self.clock:06}",
                address=address,
                key=key,
                ended=Ended.FAILED if failed else Ended.DONE,
                started=f"2026-01-01T{self.clock:06}",
                seconds=1.0,
                artifacts=() if started else (Artifact("file", f"{self.clock:064}", 1, "objects"),),
                validity=("INVALID" if key in self.invalid else "VALID") if run and performance else "",
                evidence=(("driver", self.evidence),) if run else (),
                metric=("1", "samples/s") if performance else None,
                upstream=tuple(upstream),
                problem=problem,
                by_speed=by_speed,
                shared=step.shared,
            )
            self.summaries.append(summary)
            if not failed:
                used.update(dict.fromkeys((address, *step.shared), summary.id))
        return made

    def settle(self, desired: Desired) -> int:
        """Plan and carry out until nothing is left to do; how many attempts that took. Fails when it never ends."""
        total = 0
        for _ in range(30):
            made = self.carry_out(desired, self.plan(desired))
            if not made:
                return total
            total += made
        raise AssertionError("it never settles")
