"""The entry point of MLPerf Endpoints for the rest of the project; each part is loaded on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler.loadgen.settings import read_min_duration

if TYPE_CHECKING:
    from reconciler.check.cell_formats import CellFormat
    from reconciler.check.demands import CellRules
    from reconciler.diff.timeline import CurvePoint, Side
    from reconciler.endpoints.importing.curves import TakenCurves
    from reconciler.endpoints.tree.content import PointFacts
    from reconciler.endpoints.views.curve_status import CurveStatus
    from reconciler.errors import Problem
    from reconciler.history.packaging import ProgramRegistration
    from reconciler.importing.run_reader import CellReader, RunReader
    from reconciler.reconcile.planning import PlanResult
    from reconciler.render.charts import ProgramPage, ProgramPlots
    from reconciler.resource.kinds import Cell
    from reconciler.resource.settings import CellSettings
    from reconciler.rules.context import RuleContext
    from reconciler.rules.programs import Program, ProgramReference, PublishedLists
    from reconciler.rules.results.format import ResultFormat
    from reconciler.rules.ruleset import BenchmarkRules, Ruleset
    from reconciler.spec.declaration import Declaring
    from reconciler.spec.declared import Declared, DeclaredCell
    from reconciler.tree.content import CellContent, LogRef, Rendered, SubmissionContent
    from reconciler.tree.findings import TreeReport
    from reconciler.tree.reading.cell import CellFiles

_POINTS = "points"  # results format of a point; the harness format is for a round of Inference
_MILLISECONDS = 1000


class Endpoints:
    """Implement ``reconciler.rules.programs.Program``."""

    def load_ruleset(self, round_name: str) -> Ruleset:
        from reconciler.endpoints.rules.curve_rules import load_endpoints_ruleset

        return load_endpoints_ruleset(round_name)

    def find_format(self, results: str) -> ResultFormat:
        from reconciler.endpoints.results import harness_format, point_format

        return point_format if results == _POINTS else harness_format

    def predict_seconds(self, results: str, inputs: Mapping[str, object]) -> float | None:
        """Predict the duration of a point's performance run, which ends after its minimum duration and the requests
        still in progress. The duration of an accuracy run is only known from an earlier one."""
        from reconciler.loadgen.duration import predict_run_seconds

        if results != _POINTS:
            return predict_run_seconds(inputs)
        if inputs.get("mode") != "performance":
            return None
        return read_min_duration(inputs) / _MILLISECONDS or None

    def complete_context(
        self, context: RuleContext, ruleset: Ruleset, rules: BenchmarkRules, cell: Cell, shortest: int
    ) -> RuleContext:
        from reconciler.endpoints.results.harness_format import complete_context

        return complete_context(context, ruleset, rules, cell, shortest)

    def list_fields(self, group: str) -> Mapping[str, tuple[Any, Any]]:
        from reconciler.endpoints.spec.models import ADDED_FIELDS

        return ADDED_FIELDS.get(group, {})

    def load_reference(self) -> ProgramReference:
        from reconciler.endpoints.spec.models import REFERENCE

        return REFERENCE

    def declare_cells(self, declaring: Declaring) -> Iterator[DeclaredCell]:
        from reconciler.endpoints.spec.declaring import declare_cells

        return declare_cells(declaring)

    def check_cell(self, cell: DeclaredCell, rules: BenchmarkRules, ruleset: Ruleset) -> list[Problem]:
        from reconciler.endpoints.spec.checks import check_cell

        return check_cell(cell, rules, ruleset)

    def find_gaps(self, declared: Declared) -> tuple[Problem, ...]:
        from reconciler.endpoints.spec.declaring import find_curve_gaps

        return find_curve_gaps(declared)

    def examine_client(self, locations: Mapping[str, str], root: Path) -> Iterator[tuple[str, bool, str]]:
        from reconciler.endpoints.results.client import examine_client

        return examine_client(locations, root)

    def build_client_config(
        self,
        settings: CellSettings,
        asked: Mapping[str, object],
        values: Mapping[str, str],
        find_place: Callable[[str], str],
    ) -> dict[str, Any]:
        from reconciler.endpoints.results.client import place_client_config

        return place_client_config(settings, asked, values, find_place)

    def describe_point(
        self,
        settings: CellSettings,
        performance: Mapping[str, LogRef],
        accuracy: Mapping[str, LogRef],
        load_bytes: Callable[[LogRef], bytes],
    ) -> PointFacts:
        from reconciler.endpoints.tree.collecting import describe_point

        return describe_point(settings, performance, accuracy, load_bytes)

    def render(self, submission: SubmissionContent, ruleset: Ruleset) -> Iterator[Rendered]:
        from reconciler.endpoints.rules.curve_rules import ROUND_PREFIX, load_endpoints_rules
        from reconciler.endpoints.tree.collecting import collect_curves
        from reconciler.endpoints.tree.render import render_endpoints

        rules = load_endpoints_rules(ruleset.round.removeprefix(ROUND_PREFIX))
        return render_endpoints(collect_curves(submission, rules), rules)

    def group_by_cell(self, files: Mapping[str, str], cells: tuple[CellContent, ...]) -> dict[str, dict[str, str]]:
        from reconciler.endpoints.tree.collecting import group_by_cell

        return group_by_cell(files, cells)

    def is_submission(self, path: Path) -> bool:
        from reconciler.endpoints.tree.reading import is_endpoints_submission

        return is_endpoints_submission(path)

    def read_seeds(self, files: CellFiles) -> tuple[Any, ...]:
        from reconciler.endpoints.results.measurements import SEEDS

        if (config := files.config.value) is None:
            return ()
        return tuple(config.get_nested("settings", "runtime", name) for name in SEEDS.values())

    def check(self, path: Path, lists: PublishedLists) -> TreeReport:
        from reconciler.endpoints.check.engine import check_endpoints
        from reconciler.endpoints.rules.curve_rules import adopt_lists, load_endpoints_rules

        return check_endpoints(path, adopt_lists(load_endpoints_rules(), lists))

    def verify(self, path: Path) -> TreeReport:
        from reconciler.endpoints.check.engine import verify_endpoints

        return verify_endpoints(path)

    def run_official_checker(
        self, report: TreeReport, path: Path, environment: Path, output: Path, lists: PublishedLists
    ) -> TreeReport:
        from reconciler.endpoints.check.official import run_official_checker

        return run_official_checker(report, path, environment, output, lists)

    def find_cell_format(self, results: str) -> CellFormat:  # noqa: ARG002 - points are in no scenario folder
        from reconciler.endpoints import cells

        return cells

    def find_cell_rules(self, results: str) -> CellRules | None:
        from reconciler.endpoints.cells import CELL_RULES

        return None if results == _POINTS else CELL_RULES

    def find_run_reader(self, results: str) -> RunReader:
        from reconciler.endpoints.importing import point_folder, results_folder

        return point_folder if results == _POINTS else results_folder

    def list_cell_readers(self) -> tuple[CellReader, ...]:
        from reconciler.endpoints.importing import results_folder

        return (results_folder,)

    def read_submission(self, path: Path, submitter: str, *, rehearsal: bool) -> TakenCurves:
        from reconciler.endpoints.importing.curves import read_submission

        return read_submission(path, submitter, rehearsal=rehearsal)

    def read_sides(self, path: Path) -> Iterator[tuple[Cell, Side]]:
        from reconciler.endpoints.tree.reading import read_sides

        return read_sides(path)

    def read_point(self, concurrency: int, figures: Mapping[str, object], rate: object) -> CurvePoint | None:
        from reconciler.endpoints.rules.pareto import read_recorded_point

        return read_recorded_point(concurrency, figures, rate)

    def list_curves(self, seen: PlanResult) -> tuple[CurveStatus, ...]:
        from reconciler.endpoints.views.curve_status import list_curves

        return list_curves(seen)

    def render_curves(self, curves: tuple[CurveStatus, ...]) -> str:
        from reconciler.endpoints.views.curve_status import render_curves_text

        return render_curves_text(curves)

    def load_page(self) -> ProgramPage:
        from reconciler.endpoints.views import page

        return page

    def load_plots(self) -> ProgramPlots:
        from reconciler.endpoints.views import plots

        return plots

    def load_registration(self) -> ProgramRegistration:
        from reconciler.endpoints import registration

        return registration


PROGRAM: Program = Endpoints()
