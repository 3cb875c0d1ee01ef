"""Protocol of a program other than MLPerf Inference, and how its package is loaded.

Which programs there are, and what belongs to them, is in ``reconciler.resource.programs``, which loads none.
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
    """For the reference of specs. ``groups``: (title, where it is written, model, prefix of its settings); ``free``:
    groups of free names; ``recorded``: fields whose settings have another name."""

    groups: tuple[tuple[str, str, Any, str], ...]
    free: tuple[str, ...] = ()
    recorded: Mapping[str, str] = field(default_factory=dict)


class PublishedLists(Struct, frozen=True):
    """Files of lists that are published between releases, in place of those that ship; None for these."""

    seed_sets: Path | None = None
    approved_drafters: Path | None = None


class Program(Protocol):
    """Protocol of a program for all stages. Where a value is of a type that a higher place defines, it is ``Any`` here,
    and the docstring names the type."""

    def load_ruleset(self, round_name: str) -> Ruleset:
        """Its rules in the form of a round. ReconcilerError for an unknown version."""

    def find_format(self, results: str) -> ResultFormat:
        """The format of results of this name."""

    def predict_seconds(self, results: str, inputs: Mapping[str, object]) -> float | None:
        """How long a run with these identity inputs takes; None where only an earlier one shows it."""

    def complete_context(
        self, context: RuleContext, ruleset: Ruleset, rules: BenchmarkRules, cell: Cell, shortest: int
    ) -> RuleContext:
        """With what the round rules of a cell's results. ``shortest``: the ruled duration in ms."""

    def list_fields(self, group: str) -> Mapping[str, tuple[Any, Any]]:
        """Fields that it adds to a group of a spec: name → (annotation, pydantic's field)."""

    def load_reference(self) -> ProgramReference:
        """Its groups, for the reference of specs."""

    def declare_cells(self, declaring: Any) -> Iterator[Any]:
        """The ``DeclaredCell`` of everything that is entered; problems go to the ``Declaring``."""

    def check_cell(self, cell: Any, rules: BenchmarkRules, ruleset: Ruleset) -> list[Any]:
        """Each ``Problem`` of a ``DeclaredCell`` with results of this program that the round does not take."""

    def find_gaps(self, declared: Any) -> tuple[Any, ...]:
        """Each ``Problem`` for which a submission of the declared cells would be refused at its end."""

    def examine_client(self, locations: Mapping[str, str], root: Path) -> Iterator[tuple[str, bool, str]]:
        """(text, whether it is missing, fix) of the client that a run of these locations starts."""

    def build_client_config(
        self,
        settings: CellSettings,
        asked: Mapping[str, object],
        values: Mapping[str, str],
        find_place: Callable[[str], str],
    ) -> dict[str, Any]:
        """The configuration of the client that a run's command starts. ``asked``: identity inputs; ``values``: of
        placeholders, and ``report``, the folder of its results; ``find_place``: the path of a location among the
        settings."""

    def describe_point(
        self,
        settings: CellSettings,
        performance: Mapping[str, Any],
        accuracy: Mapping[str, Any],
        load_bytes: Callable[[Any], bytes],
    ) -> Any:
        """Describe a cell for ``CellContent.point``, from the settings and files of its published runs."""

    def render(self, submission: Any, ruleset: Ruleset) -> Iterator[Any]:
        """Every file of a ``SubmissionContent`` as (path, content), sorted by path."""

    def group_by_cell(self, files: Mapping[str, str], cells: Any) -> dict[str, dict[str, str]]:
        """Rendered files by the cell (``CellContent``) to which they belong."""

    def find_rendered_format(self, results: str) -> Any:
        """The ``RenderedFormat`` of results that a scenario folder shows."""

    def is_submission(self, path: Path) -> bool:
        """True where a folder has submissions of this program."""

    def read_seeds(self, files: Any) -> tuple[Any, ...]:
        """The round's seeds that a scenario folder (``CellFiles``) states; none where it holds no such results."""

    def check(self, path: Path, lists: PublishedLists) -> Any:
        """The ``TreeReport`` of the submissions at or below a path."""

    def verify(self, path: Path) -> Any:
        """The same of what contradicts itself."""

    def run_official_checker(
        self, report: Any, path: Path, environment: Path, output: Path, lists: PublishedLists
    ) -> Any:
        """The ``TreeReport`` with what the official checker says."""

    def find_cell_format(self, results: str) -> Any:
        """The ``CellFormat`` by which `check` reads a scenario folder."""

    def find_cell_rules(self, results: str) -> Any:
        """Its own ``CellRules`` of `verify-tree`; None for results that no scenario folder shows."""

    def find_run_reader(self, results: str) -> Any:
        """The ``RunReader`` of a format of results."""

    def list_cell_readers(self) -> tuple[Any, ...]:
        """Each ``CellReader`` of results that a scenario folder shows."""

    def read_submission(self, path: Path, submitter: str, *, rehearsal: bool) -> Any:
        """A submission as `adopt` takes it: a ``ProgramTree``."""

    def read_sides(self, path: Path) -> Iterator[tuple[Cell, Any]]:
        """Each cell of the submissions at a path, with its ``Side``."""

    def read_point(self, concurrency: int, figures: Mapping[str, object], rate: object) -> Any:
        """The ``CurvePoint`` of a recorded run; None where it has no place on a curve."""

    def list_curves(self, seen: Any) -> tuple[Any, ...]:
        """The state of each curve of a ``PlanResult``."""

    def render_curves(self, curves: tuple[Any, ...]) -> str:
        """The same as text."""

    def load_page(self) -> Any:
        """Its ``ProgramPage``."""

    def load_plots(self) -> Any:
        """Its ``ProgramPlots``."""

    def load_registration(self) -> Any:
        """Its ``ProgramRegistration`` of packed submissions."""


@functools.cache
def load_program(name: str) -> Program:
    module, _, attribute = PROGRAMS[name].program.partition(":")
    program: Program = getattr(import_module(module), attribute)
    return program


def load_programs() -> Iterator[Program]:
    """All of them, where only a program itself knows whether something belongs to it."""
    return map(load_program, PROGRAMS)


def find_program_of_tree(path: Path) -> Program | None:
    """The program whose submissions a folder holds; None for a tree of MLPerf Inference."""
    return next((program for program in load_programs() if program.is_submission(path)), None)
