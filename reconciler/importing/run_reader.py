"""How runs that were made elsewhere are read: what a module per format of results provides, and what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from reconciler.desired.detail import Detail
from reconciler.importing.run_import import Import, ImportContext, Made
from reconciler.resource.kinds import Cell
from reconciler.resource.resources import Resource
from reconciler.rules.results.format import ResultFormat
from reconciler.rules.ruleset import BenchmarkRules
from reconciler.tree.reading.cell import CellFiles


class FoundRun(Protocol):
    """A run that was made elsewhere, as its files say."""

    @property
    def folder(self) -> Path: ...

    @property
    def mode(self) -> str: ...

    @property
    def format(self) -> ResultFormat: ...

    @property
    def made(self) -> Made: ...

    @property
    def has_score(self) -> bool:
        """True where its score came with it."""

    @property
    def logged_scenario(self) -> str:
        """LoadGen's name of the scenario that ran; "" where the files do not say."""

    def make_run(self, resource: Resource, detail: Detail, context: ImportContext) -> Import:
        """The record of the run for the resource that it satisfies. LogError names every setting in which its files
        contradict the cell. An INVALID run is recorded as what it is."""

    def make_score(
        self, resource: Resource, detail: Detail, upstream: Mapping[str, str], context: ImportContext
    ) -> Import:
        """The record of the score that came with it. ``upstream``: input name → record id. LogError when it does not
        state what the round asks."""

    def read_log(self) -> bytes:
        """By which two runs are the same."""


class TakenCell(Struct, frozen=True):
    """One scenario folder. ``settings``: what its performance log says a spec must ask for.

    ``harness``: what a spec must say of what made the runs. ``problems``: what could not be taken of it, and why.
    ``needed``: it is declared though none of its runs could be taken, since others depend on it. ``source``: the cell
    whose logs these are. ``power``: files of a power measurement by their path below performance/. ``failing``:
    compliance test → why it is not passed. ``rehearsal``: its tree says that it is one. ``installed``: package →
    version, where its performance run was made. ``measured_with``: groups of settings, such as engine, with which a
    tree of ours says that it was measured; ``hardware``: of its system, likewise."""

    cell: Cell
    official: str
    settings: Mapping[str, Any]
    measurements: Mapping[str, str]
    runs: tuple[FoundRun, ...] = ()
    tests: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)
    source: Cell | None = None
    problems: tuple[str, ...] = ()
    harness: Mapping[str, str] = field(default_factory=dict)
    power: Mapping[str, Path] = field(default_factory=dict)
    failing: Mapping[str, str] = field(default_factory=dict)
    rehearsal: bool = False
    needed: bool = False
    installed: Mapping[str, str] = field(default_factory=dict)
    measured_with: Mapping[str, object] = field(default_factory=dict)
    hardware: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_nothing(self) -> bool:
        """True where a spec can do without it."""
        return not self.runs and self.source is None and not self.needed


class RunReader(Protocol):
    """A module for each format of results."""

    def is_reader_of(self, folder: Path) -> bool:
        """True where the runs in a folder are of this format."""

    def find_runs(self, folder: Path, user_conf: Path | None) -> tuple[FoundRun, ...]:
        """The runs of one measurement. ``user_conf``: where it is not in the folder. LogError where there is none, or
        nothing that may be imported."""


class CellReader(RunReader, Protocol):
    """A reader of a format that scenario folders of MLPerf Inference show."""

    def is_reader_of_cell(self, files: CellFiles) -> bool:
        """True where a scenario folder of a tree shows runs of this format."""

    def read_cell(self, cell: TakenCell, files: CellFiles, rules: BenchmarkRules) -> TakenCell:
        """With the runs, and what a spec must declare for them; with a problem for each that cannot be taken."""
