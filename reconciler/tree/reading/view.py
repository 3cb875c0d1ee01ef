"""A cell or run with the rules that bind it: the argument of every rule function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.settings import name_loadgen_scenario
from reconciler.resource.kinds import Cell
from reconciler.resource.lazy_property import lazy_property
from reconciler.resource.records import REHEARSAL
from reconciler.resource.ruled_values import TestRules
from reconciler.rules.ruleset import BenchmarkRules, Ruleset
from reconciler.tree.reading.cell import CellFiles, RunFolder
from reconciler.tree.reading.system import SystemFile

T = TypeVar("T")

# SHA-256 → path of a file with that content, or None.
FindOriginal = Callable[[str], "Path | None"]


class CellView(Struct, frozen=True, dict=True):
    """Cell with its rules. ``official``: the benchmark it is entered as, "" if unknown; ``rules`` is then None.
    ``original``: finds untruncated accuracy logs, if there is an archive of them."""

    files: CellFiles
    system: SystemFile
    ruleset: Ruleset
    official: str = ""
    original: FindOriginal | None = None

    @property
    def cell(self) -> Cell:
        return self.files.place.cell

    @property
    def division(self) -> str:
        return self.cell.division

    @property
    def rules(self) -> BenchmarkRules | None:
        return self.ruleset.find_benchmark(self.official)

    def find_rule(self, name: str) -> Any:
        """Return the value that the round rules for the cell; None if there is none."""
        return self.rules.get_value(name, self.cell.scenario) if self.rules else None

    def binds(self, demand: str) -> bool:
        return self.ruleset.binds(self.division, demand)

    def compute_once(self, make: Callable[[CellView], T]) -> T:
        """Compute a function of this cell on its first use and cache the result."""
        if make not in self._made:
            self._made[make] = make(self)
        found: T = self._made[make]
        return found

    def forget(self) -> None:
        """Release the runs and all derived values. They refer to this view and it to them, so their logs would stay in
        memory until the garbage collector runs."""
        for name in ("performance", "accuracy", "test_views", "_made"):
            vars(self).pop(name, None)

    @lazy_property
    def _made(self) -> dict[Callable[[CellView], Any], Any]:
        return {}

    @property
    def rehearsal(self) -> bool:
        """True if measurements.json declares this a rehearsal rather than a result."""
        read = self.files.measurements.value
        return read is not None and str(read.get(REHEARSAL)).lower() == "true"

    @lazy_property
    def tests(self) -> tuple[str, ...]:
        """Compliance tests that this cell needs."""
        return self.rules.compliance_tests if self.rules and self.binds("compliance_tests") else ()

    @lazy_property
    def performance(self) -> RunView | None:
        return self._make_run_view(self.files.performance)

    @lazy_property
    def accuracy(self) -> RunView | None:
        return self._make_run_view(self.files.accuracy)

    @lazy_property
    def test_views(self) -> dict[str, RunView]:
        """Compliance runs whose detail log is readable, by test."""
        found = {name: self._make_run_view(run) for name, run in self.files.test_runs.items()}
        return {name: run for name, run in found.items() if run is not None}

    def list_runs(self) -> Iterator[RunView]:
        """List the runs whose detail log is readable."""
        return (run for run in (self.performance, self.accuracy, *self.test_views.values()) if run is not None)

    def is_foreign(self, run: str) -> bool:
        """Return True for a run of a test that the round does not have, such as one left over from an earlier round."""
        return run in self.files.tests and self.rules is not None and self.find_test(run) is None

    def find_test(self, test: str) -> TestRules | None:
        """Find a test's rules; None if the round does not have the test."""
        try:
            return self.rules.find_test(test, self.cell.scenario) if self.rules else None
        except KeyError:
            return None

    def get_audit_settings(self, test: str) -> dict[str, Any]:
        """Return the settings of a test's audit.config, by LoadGen's names; empty for a test that the round does not
        have."""
        rules = self.find_test(test)
        return {name: item.value for name, item in rules.settings.items()} if rules else {}

    def _make_run_view(self, run: RunFolder) -> RunView | None:
        log = run.detail.value
        return None if log is None else RunView(self, run, log)


class RunView(Struct, frozen=True, dict=True):
    """One run whose detail log is readable."""

    cell: CellView
    run: RunFolder
    log: DetailLog

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def seeds(self) -> dict[str, int]:
        """Seeds that the log must show: the round's, except those that a test sets itself."""
        own = self.cell.get_audit_settings(self.name)
        return {name: own.get(name, seed) for name, seed in self.cell.ruleset.seeds().items()}

    @property
    def inferred(self) -> bool:
        """True if the folder's scenario is not the one that ran, so that its result is derived from another
        scenario's."""
        return self.log.scenario != name_loadgen_scenario(self.cell.cell.scenario)

    @property
    def scenario(self) -> str:
        """Scenario whose demands bind the run: the folder's, or the one that ran if the result is inferred."""
        return self.log.scenario if self.inferred else self.cell.cell.scenario
