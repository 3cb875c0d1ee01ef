"""Rules for a benchmark's folder: which benchmarks and scenarios are allowed and required."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from reconciler.check.demands import NEW, OLD, OURS, Complaints
from reconciler.resource.ruled_values import Presence
from reconciler.resource.rules import rule
from reconciler.rules.ruleset import BenchmarkRules, Ruleset
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.places import CellPlace, SubmitterPlace
from reconciler.tree.reading.system import SystemFile

_CHECK = f"{NEW}: scenarios check"


class BenchmarkView(Struct, frozen=True, dict=True):
    """View of a benchmark's folder. ``official``: the benchmark that it is entered as; "" if unknown."""

    submitter: SubmitterPlace
    system: SystemFile
    benchmark: str
    official: str
    ruleset: Ruleset

    @cached_property
    def scenarios(self) -> tuple[CellPlace, ...]:
        return self.submitter.list_scenario_folders(self.system.name, self.benchmark)

    @property
    def place(self) -> Place:
        return Place(f"{self.submitter.shown}/results/{self.system.name}/{self.benchmark}")

    @property
    def scenario_rules(self) -> BenchmarkRules | None:
        """The rules that require and forbid scenarios; None if they do not bind the submitter, or are unknown."""
        bound = self.ruleset.binds(self.submitter.division, "scenarios") and self.allowed and self.system.category
        return self.ruleset.find_benchmark(self.official) if bound else None

    @property
    def allowed(self) -> bool:
        """True if the benchmark may be entered for the system's category, or if either is unknown."""
        rules = self.ruleset.find_benchmark(self.official)
        if rules is None or not self.system.category:
            return True
        table = rules.tables.get(self.system.category)
        return table is not None and bool(table.required or table.optional)


@rule("benchmark.known", "a benchmark of the round", sources=(NEW, OLD))
def check_known(view: BenchmarkView) -> Complaints:
    """The folder has the name of one of the round's benchmarks, or model_mapping.json maps it to one."""
    if not view.official:
        wanted = f"a benchmark of {view.ruleset.round}"
        fix = "add the folder to model_mapping.json" if view.submitter.division == "open" else ""
        yield Complaint(view.place, f"unknown benchmark {view.benchmark}", wanted, fix=fix)


@rule("benchmark.category", "a benchmark of the system's category", sources=(_CHECK, OLD))
def check_category(view: BenchmarkView) -> Complaints:
    """The round has the benchmark for the system's category, datacenter or edge. This also applies in open, except in
    v6.0."""
    if not view.allowed and view.ruleset.binds(view.submitter.division, "categories"):
        yield Complaint(
            view.place,
            f"{view.official} in category {view.system.category}",
            f"a benchmark that {view.ruleset.round} has for {view.system.category}",
            fix="move it to a system of another category",
        )


@rule("benchmark.scenarios", "every required scenario", sources=(_CHECK, OLD))
def check_required(view: BenchmarkView) -> Complaints:
    """The submission has every scenario that the round requires for the system's category."""
    if (rules := view.scenario_rules) is None:
        return
    entered = frozenset(place.cell.scenario for place in view.scenarios)
    for name in rules.list_missing(view.system.category, entered):
        yield Complaint(view.place, f"no {name}", f"{name}, which {view.official} needs for {view.system.category}")


@rule("benchmark.forbidden", "no other scenario", sources=(_CHECK, OLD))
def check_forbidden(view: BenchmarkView) -> Complaints:
    """The submission has no scenarios that the round does not allow for the category."""
    if (rules := view.scenario_rules) is None:
        return
    for place in view.scenarios:
        if rules.find_presence(view.system.category, place.cell.scenario) is Presence.FORBIDDEN:
            yield Complaint(
                Place(f"{view.place.file}/{place.folder}"),
                f"{place.folder} of {view.official} in category {view.system.category}",
                "a scenario that the round has for it",
                fix="remove the folder, or move it to the open division",
            )


@rule("benchmark.stray", "nothing next to the scenarios", sources=(_CHECK, OLD))
def check_stray(view: BenchmarkView) -> Complaints:
    """The official checker treats every folder next to the scenarios as a scenario."""
    for name in view.submitter.list_other_folders(view.system.name, view.benchmark):
        yield Complaint(
            Place(f"{view.place.file}/{name}"),
            f"folder {name} next to the scenarios",
            "scenario folders only",
            fix="remove it: the official checker treats it as a scenario",
        )


@rule("benchmark.twice", "one folder of a scenario", sources=(OURS,))
def check_twice(view: BenchmarkView) -> Complaints:
    """No two folders have names that differ only in case: the official checkers count both as the same scenario."""
    first: dict[str, str] = {}
    for place in view.scenarios:
        other = first.setdefault(place.cell.scenario, place.folder)
        if other != place.folder:
            yield Complaint(
                Place(f"{view.place.file}/{place.folder}"),
                f"a second folder of {place.cell.scenario}, next to {other}",
                "one result of a scenario",
                fix="remove one of them",
            )


BENCHMARK_RULES = (check_known, check_category, check_required, check_forbidden, check_stray, check_twice)
