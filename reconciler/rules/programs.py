"""Protocol of a program other than MLPerf Inference, and functions that load its package.

``reconciler.resource.programs`` lists the programs and what belongs to them, without loading any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from reconciler.resource.programs import PROGRAMS

if TYPE_CHECKING:
    from reconciler.resource.kinds import Cell
    from reconciler.resource.settings import CellSettings
    from reconciler.rules.context import RuleContext
    from reconciler.rules.results.format import ResultFormat
    from reconciler.rules.ruleset import BenchmarkRules, Ruleset


class ProgramReference(Struct, frozen=True):
    """A program's part of the spec reference. ``groups``: (title, where it is written, model, prefix of its settings);
    ``free``: groups whose names the user chooses; ``recorded``: fields whose settings have another name."""

    groups: tuple[tuple[str, str, Any, str], ...]
    free: tuple[str, ...] = ()
    recorded: Mapping[str, str] = field(default_factory=dict)


class PublishedLists(Struct, frozen=True):
    """Files of lists that are published between releases and replace those shipped; None uses the shipped list."""

    seed_sets: Path | None = None
    approved_drafters: Path | None = None


class Program(Protocol):
    """Protocol of a program for all stages. Types defined in a higher layer are ``Any`` here, and the docstring names
    them."""

    def load_ruleset(self, round_name: str) -> Ruleset:
        """Load its rules in the form of a round. Raises ReconcilerError for an unknown version."""

    def find_format(self, results: str) -> ResultFormat:
        """Find a result format by name."""

    def predict_seconds(self, results: str, inputs: Mapping[str, object]) -> float | None:
        """Predict the duration of a run with these identity inputs; None if only an earlier run can show it."""

    def complete_context(
        self, context: RuleContext, ruleset: Ruleset, rules: BenchmarkRules, cell: Cell, shortest: int
    ) -> RuleContext:
        """Add the round's rules for the cell's results. ``shortest``: the minimum duration in ms."""

    def list_fields(self, group: str) -> Mapping[str, tuple[Any, Any]]:
        """Return the fields that it adds to a group of a spec: name → (annotation, pydantic's field)."""

    def load_reference(self) -> ProgramReference:
        """Load its groups for the spec reference."""

    def declare_cells(self, declaring: Any) -> Iterator[Any]:
        """Yield a ``DeclaredCell`` for each entered result; report problems to the ``Declaring``."""

    def check_cell(self, cell: Any, rules: BenchmarkRules, ruleset: Ruleset) -> list[Any]:
        """Return each ``Problem`` of a ``DeclaredCell`` with results of this program that the round rejects."""

    def find_gaps(self, declared: Any) -> tuple[Any, ...]:
        """Return each ``Problem`` that would cause a submission of the declared cells to be refused at the end."""

    def examine_client(self, locations: Mapping[str, str], root: Path) -> Iterator[tuple[str, bool, str]]:
        """Yield (text, whether it is missing, fix) for the client that a run with these locations starts."""

    def build_client_config(
        self,
        settings: CellSettings,
        asked: Mapping[str, object],
        values: Mapping[str, str],
        find_place: Callable[[str], str],
    ) -> dict[str, Any]:
        """Build the configuration of the client started by a run's command. ``asked``: identity inputs; ``values``:
        values of placeholders, and ``report``, the folder for results; ``find_place``: returns the path of a location
        in the settings."""

    def describe_point(
        self,
        settings: CellSettings,
        performance: Mapping[str, Any],
        accuracy: Mapping[str, Any],
        load_bytes: Callable[[Any], bytes],
    ) -> Any:
        """Describe a cell for ``CellContent.point``, from the settings and files of its published runs."""

    def render(self, submission: Any, ruleset: Ruleset) -> Iterator[Any]:
        """Yield every file of a ``SubmissionContent`` as (path, content), sorted by path."""

    def group_by_cell(self, files: Mapping[str, str], cells: Any) -> dict[str, dict[str, str]]:
        """Group rendered files by the cell (``CellContent``) that they belong to."""

    def is_submission(self, path: Path) -> bool:
        """Return True if a folder contains submissions of this program."""

    def read_seeds(self, files: Any) -> tuple[Any, ...]:
        """Read the round's seeds from a scenario folder (``CellFiles``); empty if it has no results of this program."""

    def check(self, path: Path, lists: PublishedLists) -> Any:
        """Return the ``TreeReport`` of `check` for the submissions at or below a path."""

    def verify(self, path: Path) -> Any:
        """Return the ``TreeReport`` of `verify-tree`: the contradictions."""

    def run_official_checker(
        self, report: Any, path: Path, environment: Path, output: Path, lists: PublishedLists
    ) -> Any:
        """Return the ``TreeReport`` with the official checker's messages added."""

    def find_cell_format(self, results: str) -> Any:
        """Find the ``CellFormat`` that `check` uses to read a scenario folder, which is also its ``RenderedFormat``."""

    def find_cell_rules(self, results: str) -> Any:
        """Find its ``CellRules`` for `verify-tree`; None for results that are not stored in scenario folders."""

    def find_run_reader(self, results: str) -> Any:
        """Find the ``RunReader`` of a result format."""

    def list_cell_readers(self) -> tuple[Any, ...]:
        """Return each ``CellReader`` of results in scenario folders."""

    def read_submission(self, path: Path, submitter: str, *, rehearsal: bool) -> Any:
        """Read a submission for `adopt`, as a ``ProgramTree``."""

    def read_sides(self, path: Path) -> Iterator[tuple[Cell, Any]]:
        """Yield each cell of the submissions at a path, with its ``Side``."""

    def read_point(self, concurrency: int, figures: Mapping[str, object], rate: object) -> Any:
        """Read the ``CurvePoint`` of a recorded run; None if it does not belong on a curve."""

    def list_curves(self, seen: Any) -> tuple[Any, ...]:
        """Return the state of each curve of a ``PlanResult``."""

    def render_curves(self, curves: tuple[Any, ...]) -> str:
        """Render the curves as text."""

    def load_page(self) -> Any:
        """Load its ``ProgramPage``."""

    def load_plots(self) -> Any:
        """Load its ``ProgramPlots``."""

    def load_registration(self) -> Any:
        """Load its ``ProgramRegistration`` of packed submissions."""


@functools.cache
def load_program(name: str) -> Program:
    module, _, attribute = PROGRAMS[name].program.partition(":")
    program: Program = getattr(import_module(module), attribute)
    return program


def load_programs() -> Iterator[Program]:
    """Load all programs, for data that only the program itself can recognise."""
    return map(load_program, PROGRAMS)


def find_program_of_tree(path: Path) -> Program | None:
    """Find the program whose submissions a folder contains; None for a tree of MLPerf Inference."""
    return next((program for program in load_programs() if program.is_submission(path)), None)
