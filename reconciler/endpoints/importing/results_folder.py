"""Read results of the endpoints harness that were made elsewhere, from a folder of the harness or of a submission
tree."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.desired.detail import Detail
from reconciler.endpoints.results import harness_format as endpoints_results
from reconciler.endpoints.results.accuracy import read_accuracy_scores
from reconciler.endpoints.results.harness_format import AUDIT, find_other_results, measure_results, parse_results
from reconciler.endpoints.results.measurements import SEEDS, Results, collect_result_settings
from reconciler.endpoints.rules.results import read_client_version
from reconciler.errors import LogError
from reconciler.execute.attempt_record import describe_artifact
from reconciler.importing.log_folder import refuse_special
from reconciler.importing.run_import import Import, ImportContext, Made, make_record
from reconciler.importing.run_reader import TakenCell
from reconciler.loadgen.log_files import ACCURACY_RESULTS, CONFIG, RESULT_SUMMARY
from reconciler.loadgen.settings import read_min_duration
from reconciler.resource.canonical import digest
from reconciler.resource.kinds import ACCURACY, PERFORMANCE
from reconciler.resource.quantities import parse_number
from reconciler.resource.resources import Resource
from reconciler.rules.results.format import KeptFile, ResultFormat
from reconciler.rules.ruleset import BenchmarkRules
from reconciler.storage.files import hash_file
from reconciler.tree.reading.cell import CellFiles

_CONFIGS = (CONFIG, "config.yml")
_PARTS = {ACCURACY: ACCURACY_RESULTS, PERFORMANCE: RESULT_SUMMARY}


class FolderRun(Struct, frozen=True):
    """A run made elsewhere, as a folder of files. ``files``: the files that its record keeps, by artifact name;
    ``version``: the client's."""

    folder: Path
    mode: str
    files: Mapping[str, Path]
    version: str = ""

    format: ClassVar[ResultFormat]

    @property
    def made(self) -> Made:
        return Made("endpoints.version", self.version)

    @property
    def has_score(self) -> bool:
        return self.mode == ACCURACY

    @property
    def logged_scenario(self) -> str:
        return ""

    def read_log(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.files.values())

    def record_run(self, resource: Resource, detail: Detail, context: ImportContext, values: dict[str, Any]) -> Import:
        kept = tuple(KeptFile(path, name, in_git=True) for name, path in self.files.items())
        source = digest([[name, hash_file(path)] for name, path in self.files.items()])
        record = make_record(resource, detail, self.made, {}, context, values=values, source=source)
        return Import(replace(record, artifacts=tuple(map(describe_artifact, kept))), kept)

    def make_score(
        self, resource: Resource, detail: Detail, upstream: Mapping[str, str], context: ImportContext
    ) -> Import:
        files = {name: path.read_bytes() for name, path in self.files.items()}
        try:
            values = self.format.recheck_score({}, files, detail.ruling).values
        except ValueError as error:
            raise LogError(f"{self.folder}: {error}", fix="score the accuracy run again") from error
        return Import(make_record(resource, detail, self.made, upstream, context, values=values, source=resource.key))

    def refuse_other_run(self, resource: Resource, differing: Collection[str], fix: str) -> None:
        """Raise LogError if the run differs from the declared one."""
        if differing:
            listed = "\n".join(f"  {item}" for item in differing)
            what = f"is not a run of {resource.address}; the spec declares other settings"
            raise LogError(f"{self.folder} {what}:\n{listed}", fix=fix)


class EndpointsRun(FolderRun, frozen=True, kw_only=True):
    """A run of the harness. ``left``: the contents of its files."""

    format: ClassVar[ResultFormat] = endpoints_results
    left: Results

    def make_run(self, resource: Resource, detail: Detail, context: ImportContext) -> Import:
        wanted = detail.collect_values()
        if self.mode == ACCURACY:
            wanted = {name: value for name, value in wanted.items() if name not in SEEDS}
        fix = "change the cell's settings to match, or import results with the declared settings"
        self.refuse_other_run(resource, find_other_results(self.left, wanted), fix)
        least = read_min_duration(detail.settings.values)
        values = measure_results(self.left, detail.ruling, least) if self.mode == PERFORMANCE else {}
        return self.record_run(resource, detail, context, values)


def is_reader_of(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _CONFIGS)


def is_reader_of_cell(files: CellFiles) -> bool:
    return files.format.NAME == endpoints_results.NAME


def read_cell(cell: TakenCell, files: CellFiles, _: BenchmarkRules) -> TakenCell:
    """Read a cell; the configuration determines what a spec must request."""
    try:
        runs = find_runs(files.results.path)
    except LogError as error:
        return replace(cell, problems=(str(error.message),))
    there = {run.mode for run in runs}
    missing = tuple(f"{mode} run: it wrote no results" for mode in _PARTS if mode not in there)
    config = runs[-1].left.config
    model = str(config.get_nested("model_params", "name") or "")
    harness = {"results": endpoints_results.NAME, "model_name": model} if model else {}
    return replace(cell, settings=collect_result_settings(config), runs=runs, harness=harness, problems=missing)


def find_runs(path: Path, _user_conf: Path | None = None) -> tuple[EndpointsRun, ...]:
    """Find the accuracy run and the performance run in a folder, or the only one present. Raises LogError if there is
    none, or a file cannot be read."""
    refuse_special(path)
    config = next((path / name for name in _CONFIGS if (path / name).is_file()), path / CONFIG)
    found = [_read_run(path, config, mode) for mode in _PARTS if (path / mode / _PARTS[mode]).is_file()]
    runs = tuple(item for item in found if item is not None)
    if not runs:
        wanted = " or ".join(f"{mode}/{name}" for mode, name in _PARTS.items())
        fix = "pass the report folder of the endpoints harness"
        raise LogError(f"{path} has no {wanted} of a run", fix=fix)
    return runs


def _read_run(path: Path, config: Path, mode: str) -> EndpointsRun | None:
    """Skip a file without samples or scores, which the harness writes for the mode that it did not run."""
    files = {CONFIG: config, _PARTS[mode]: path / mode / _PARTS[mode]}
    if mode == PERFORMANCE:
        audits = sorted(item for item in (path / AUDIT).rglob("*.json") if item.is_file())
        # A test's verdict, and the result of each of its phases.
        kept = (item for item in audits if item.parent == path / AUDIT or item.name == RESULT_SUMMARY)
        files |= {item.relative_to(path).as_posix(): item for item in kept}
    try:
        left = parse_results({name: file.read_bytes() for name, file in files.items()})
    except (OSError, ValueError) as error:
        raise LogError(f"{path}: {error}", fix="provide the harness's unchanged files") from error
    summary, scores = left.summary, left.scores
    if mode == PERFORMANCE:
        there = bool(summary and parse_number(summary.get("n_samples_issued")))
    else:
        there = bool(scores and list(read_accuracy_scores(scores)))
    version = read_client_version(summary) if summary else ""
    return EndpointsRun(path, mode, files, version, left=left) if there else None
