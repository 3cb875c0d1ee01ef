"""A cell and a run together with the rules that bind them: what every rule function is given."""

from __future__ import annotations

from collections.abc import Callable
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

# SHA-256 → where a file of that content is; None: nowhere.
FindOriginal = Callable[[str], "Path | None"]


class CellView(Struct, frozen=True, dict=True):
    """``official``: the benchmark it is entered as, "" when it is unknown; ``rules`` is then None. ``original`` finds
    untruncated accuracy logs where there is an archive of them."""

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

    def binds(self, demand: str) -> bool:
        return self.ruleset.binds(self.division, demand)

    def compute_once(self, make: Callable[[CellView], T]) -> T:
        """Compute a function of this cell once, when it is first asked for."""
        if make not in self._made:
            self._made[make] = make(self)
        found: T = self._made[make]
        return found

    def forget(self) -> None:
        """Let go of the runs and of all that was made of them: they hold this view as it holds them, so that their
        logs would stay until the collector finds them."""
        for name in ("performance", "accuracy", "test_views", "_made"):
            vars(self).pop(name, None)

    @lazy_property
    def _made(self) -> dict[Callable[[CellView], Any], Any]:
        return {}

    @property
    def rehearsal(self) -> bool:
        """True where measurements.json says that this is a rehearsal, and no result."""
        read = self.files.measurements.value
        return read is not None and str(read.get(REHEARSAL)).lower() == "true"

    @lazy_property
    def tests(self) -> tuple[str, ...]:
        """The compliance tests that this cell needs."""
        return self.rules.compliance_tests if self.rules and self.binds("compliance_tests") else ()

    @lazy_property
    def performance(self) -> RunView | None:
        return self._run(self.files.performance)

    @lazy_property
    def accuracy(self) -> RunView | None:
        return self._run(self.files.accuracy)

    @lazy_property
    def test_views(self) -> dict[str, RunView]:
        """Compliance runs whose detail log can be read, by test."""
        found = {name: self._run(run) for name, run in self.files.test_runs.items()}
        return {name: run for name, run in found.items() if run is not None}

    def is_foreign(self, run: str) -> bool:
        """True for a run of a test that the round does not have, as one of an earlier round that was left there."""
        return run in self.files.tests and self.rules is not None and self.find_test(run) is None

    def find_test(self, test: str) -> TestRules | None:
        """None for a test that the round does not know."""
        try:
            return self.rules.find_test(test, self.cell.scenario) if self.rules else None
        except KeyError:
            return None

    def audit_settings(self, test: str) -> dict[str, Any]:
        """Settings of a test's audit.config, by LoadGen's names; nothing for a test that the round does not know."""
        rules = self.find_test(test)
        return {name: item.value for name, item in rules.settings.items()} if rules else {}

    def _run(self, run: RunFolder) -> RunView | None:
        log = run.detail.value
        return None if log is None else RunView(self, run, log)


class RunView(Struct, frozen=True, dict=True):
    """One run whose detail log can be read."""

    cell: CellView
    run: RunFolder
    log: DetailLog

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def seeds(self) -> dict[str, int]:
        """The seeds that the log must show: the round's, but for those that a test sets itself."""
        own = self.cell.audit_settings(self.name)
        return {name: own.get(name, seed) for name, seed in self.cell.ruleset.seeds().items()}

    @property
    def inferred(self) -> bool:
        """True where the folder's scenario is not the one that ran, so that its result is derived from another's."""
        return self.log.scenario != name_loadgen_scenario(self.cell.cell.scenario)

    @property
    def scenario(self) -> str:
        """The scenario whose demands bind the run: the folder's, or the one that ran when the result is inferred."""
        return self.log.scenario if self.inferred else self.cell.cell.scenario
