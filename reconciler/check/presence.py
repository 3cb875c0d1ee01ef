"""Rules of a benchmark's folder: which benchmarks and scenarios may and must be there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from msgspec import Struct

from reconciler.check.demands import NEW, OLD, OURS, Complaints
from reconciler.resource.ruled_values import Presence
from reconciler.rules.ruleset import Ruleset
from reconciler.tree.findings import Complaint, Place, Rule, Severity
from reconciler.tree.reading.files import list_files
from reconciler.tree.reading.places import CellPlace, SubmitterPlace
from reconciler.tree.reading.system import SystemFile


class BenchmarkView(Struct, frozen=True, dict=True):
    """``official``: the benchmark that the folder is entered as; "" when it is unknown."""

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
    def bound(self) -> bool:
        return self.ruleset.binds(self.submitter.division, "scenarios")

    @property
    def allowed(self) -> bool:
        """True where the benchmark may be entered for the system's category at all, and while that is not known."""
        rules = self.ruleset.find_benchmark(self.official)
        if rules is None or not self.system.category:
            return True
        table = rules.tables.get(self.system.category)
        return table is not None and bool(table.required or table.optional)


BenchmarkRule = Callable[[BenchmarkView], Complaints]


def check_known(view: BenchmarkView) -> Complaints:
    if not view.official:
        wanted = f"a benchmark of {view.ruleset.round}"
        fix = "enter the folder in model_mapping.json" if view.submitter.division == "open" else ""
        yield Complaint(view.place, f"unknown benchmark {view.benchmark}", wanted, fix=fix)


def check_official_name(view: BenchmarkView) -> Complaints:
    if view.official and view.benchmark != view.official and view.submitter.division != "open":
        yield Complaint(
            view.place, f"folder {view.benchmark}", view.official, fix=f"rename the folder to {view.official}"
        )


def check_category(view: BenchmarkView) -> Complaints:
    if view.bound and not view.allowed:
        yield Complaint(
            view.place,
            f"{view.official} in category {view.system.category}",
            f"a benchmark that {view.ruleset.round} has for {view.system.category}",
            fix="enter it in the open division",
        )


def check_required(view: BenchmarkView) -> Complaints:
    rules = view.ruleset.find_benchmark(view.official)
    if rules is None or not view.bound or not view.allowed or not view.system.category:
        return
    entered = frozenset(place.cell.scenario for place in view.scenarios)
    for name in rules.list_missing(view.system.category, entered):
        yield Complaint(view.place, f"no {name}", f"{name}, which {view.official} needs for {view.system.category}")


def check_forbidden(view: BenchmarkView) -> Complaints:
    rules = view.ruleset.find_benchmark(view.official)
    if rules is None or not view.bound or not view.allowed or not view.system.category:
        return
    for place in view.scenarios:
        if rules.find_presence(view.system.category, place.cell.scenario) is Presence.FORBIDDEN:
            yield Complaint(
                Place(f"{view.place.file}/{place.folder}"),
                f"{place.folder} of {view.official} in category {view.system.category}",
                "a scenario that the round has for it",
                fix="remove the folder, or enter it in the open division",
            )


def check_stray(view: BenchmarkView) -> Complaints:
    for name in view.submitter.list_other_folders(view.system.name, view.benchmark):
        yield Complaint(
            Place(f"{view.place.file}/{name}"),
            f"folder {name} next to the scenarios",
            "scenario folders only",
            fix="remove it: the official checker takes it for a scenario",
        )
    for name in list_files(view.submitter.path / "results" / view.system.name / view.benchmark):
        yield Complaint(
            Place(f"{view.place.file}/{name}"),
            f"file {name} next to the scenarios",
            "scenario folders only",
            severity=Severity.NOTE,
        )


def check_twice(view: BenchmarkView) -> Complaints:
    """Names of scenarios are read in whatever case: the official checkers count both folders."""
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


_CHECK = f"{NEW}: scenarios check"
BENCHMARK_RULES: tuple[tuple[Rule, BenchmarkRule], ...] = (
    (Rule("benchmark.known", "a benchmark of the round", (NEW, OLD)), check_known),
    (Rule("benchmark.name", "the official name", (OURS,), Severity.WARNING), check_official_name),
    (Rule("benchmark.category", "a benchmark of the system's category", (_CHECK, OLD)), check_category),
    (Rule("benchmark.scenarios", "every required scenario", (_CHECK, OLD)), check_required),
    (Rule("benchmark.forbidden", "no other scenario", (_CHECK, OLD)), check_forbidden),
    (Rule("benchmark.stray", "nothing next to the scenarios", (_CHECK, OLD)), check_stray),
    (Rule("benchmark.twice", "one folder of a scenario", (OURS,)), check_twice),
)
