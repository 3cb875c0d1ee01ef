"""The interface for reading external runs: what each format's module provides and returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from reconciler.desired.detail import Detail
from reconciler.importing.run_import import Import, ImportContext, Made
from reconciler.resource.kinds import Cell
from reconciler.resource.resources import Resource
from reconciler.rules.results.format import ResultFormat
from reconciler.rules.ruleset import BenchmarkRules, Ruleset
from reconciler.tree.reading.cell import CellFiles


class FoundRun(Protocol):
    """An external run, as its files describe it."""

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
        """True if its score was included."""

    @property
    def logged_scenario(self) -> str:
        """LoadGen's name of the scenario that ran; "" if the files do not contain it."""

    def make_run(self, resource: Resource, detail: Detail, context: ImportContext) -> Import:
        """Return the run's record for the resource that it satisfies. Raises LogError with every setting in which its
        files contradict the cell. An INVALID run is recorded as such."""

    def make_score(
        self, resource: Resource, detail: Detail, upstream: Mapping[str, str], context: ImportContext
    ) -> Import:
        """Return the record of the included score. ``upstream``: input name → record id. Raises LogError if it does not
        contain what the round requires."""

    def read_log(self) -> bytes:
        """Return the bytes that identify the run."""


class TakenCell(Struct, frozen=True):
    """One scenario folder. ``settings``: those that a spec must declare, from its performance log.

    ``harness``: what a spec must declare about the program that made the runs. ``problems``: parts that could not be
    imported, with the reason. ``needed``: it is declared although none of its runs could be imported, since others
    depend on it. ``source``: the cell whose logs these are. ``power``: files of a power measurement by their path below
    performance/. ``failing``: compliance test → why it is not passed. ``rehearsal``: its tree is marked as one.
    ``requirements``: packages installed on the machine of its performance run. ``measured_with``: groups of settings,
    such as engine, that a tree of ours lists for its measurement; ``hardware``: of its system, likewise.
    """

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
    requirements: tuple[str, ...] = ()
    measured_with: Mapping[str, object] = field(default_factory=dict)
    hardware: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_nothing(self) -> bool:
        """True if a spec can leave it out."""
        return not self.runs and self.source is None and not self.needed


class TakenSubmission(Struct, frozen=True):
    """One submitter's results, as read from their folder. ``ruleset``: the rules of their own round; ``folders``: the
    submitter's folders by their place in a rendering; ``unreadable``: entries that are not read, with their
    descriptions."""

    submitter: str
    ruleset: Ruleset
    folders: Mapping[str, Path]
    cells: tuple[TakenCell, ...]
    problems: tuple[str, ...] = ()
    rehearsal: bool = False
    unreadable: Mapping[Path, str] = field(default_factory=dict)


class ProgramTree(TakenSubmission, frozen=True):
    """Results of a program other than MLPerf Inference."""

    def find_files(self) -> dict[str, Path]:
        """Find the files that a repository keeps with its spec, by their place."""
        raise NotImplementedError

    def refuse_round(self, round_name: str) -> None:
        """Raise ReconcilerError for a version of the rules for which the results cannot be declared; "" is their
        own."""
        raise NotImplementedError

    def render_spec(self, cells: Sequence[TakenCell], left_out: Mapping[str, str], files: Collection[str]) -> str:
        """Return the spec that declares the cells. ``left_out``: cell or file → why it is not declared; ``files``:
        those of ``find_files`` that were copied."""
        raise NotImplementedError


class RunReader(Protocol):
    """A module for each format of results."""

    def is_reader_of(self, folder: Path) -> bool:
        """Return True if the runs in a folder have this format."""

    def find_runs(self, folder: Path, user_conf: Path | None) -> tuple[FoundRun, ...]:
        """Return the runs of one measurement. ``user_conf``: if it is not in the folder. Raises LogError if there is
        none, or nothing that may be imported."""


class CellReader(RunReader, Protocol):
    """A reader of a format used in scenario folders of MLPerf Inference."""

    def is_reader_of_cell(self, files: CellFiles) -> bool:
        """Return True if a tree's scenario folder contains runs of this format."""

    def read_cell(self, cell: TakenCell, files: CellFiles, rules: BenchmarkRules) -> TakenCell:
        """Return the cell with its runs, the settings that a spec must declare for them, and a problem for each run
        that cannot be imported."""
