"""Read results of the official Endpoints client that were made elsewhere: a folder as the client wrote it, or r<N> of a
submission."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from reconciler.desired.detail import Detail
from reconciler.endpoints.importing.results_folder import FolderRun
from reconciler.endpoints.importing.results_folder import is_reader_of as is_reader_of
from reconciler.endpoints.results import point_format as points
from reconciler.endpoints.results.accuracy import read_accuracy_scores
from reconciler.endpoints.rules.point import AGENTIC_PATTERN
from reconciler.endpoints.rules.results import PLACES, UnreadablePointError, read_client_version
from reconciler.errors import LogError
from reconciler.importing.log_folder import refuse_special
from reconciler.importing.run_import import Import, ImportContext
from reconciler.loadgen.log_files import ACCURACY_RESULTS, CONFIG, RESULT_SUMMARY
from reconciler.resource.kinds import ACCURACY, PERFORMANCE
from reconciler.resource.quantities import parse_number
from reconciler.resource.records import REHEARSAL
from reconciler.resource.resources import Resource
from reconciler.rules.results.format import ResultFormat
from reconciler.storage.documents import parse_json_object, parse_yaml_mapping

_OWN = {PERFORMANCE: RESULT_SUMMARY, ACCURACY: ACCURACY_RESULTS}


class PointRun(FolderRun, frozen=True):
    """The performance or accuracy run of a point."""

    format: ClassVar[ResultFormat] = points

    def make_run(self, resource: Resource, detail: Detail, context: ImportContext) -> Import:
        asked, files = detail.collect_values(), {name: path.read_bytes() for name, path in self.files.items()}
        try:
            differing = tuple(points.find_other_point(files, asked, foreign=True))
        except (UnreadablePointError, ValueError, RecursionError) as error:
            fix = "provide the client's unchanged files"
            raise LogError(f"{self.folder}: {' '.join(str(error).split())}", fix=fix) from error
        fix = "change the point's settings to match, or import a run that had the declared settings"
        self.refuse_other_run(resource, differing, fix)
        timed, rehearsal = self.mode == PERFORMANCE, REHEARSAL in detail.marks
        values = points.measure_point(files, asked, rehearsal=rehearsal) if timed else {}
        return self.record_run(resource, detail, context, values)


def find_runs(path: Path, _user_conf: Path | None = None) -> tuple[PointRun, ...]:
    """Find the performance run in a folder and its accuracy run, or the only one present. Raises LogError if there is
    none, or a file cannot be read."""
    refuse_special(path)
    # The first place of a file counts.
    found = ((name, path / place) for name, places in PLACES.items() for place in reversed(places))
    there = {name: file for name, file in found if file.is_file()}
    if CONFIG not in there:
        fix = "pass the client's report folder, or the point's folder in a submission"
        raise LogError(f"{path} has no {CONFIG}", fix=fix)
    try:
        runs = tuple(_read_runs(path, there))
    except (OSError, ValueError, RecursionError) as error:
        fix = "provide the client's unchanged files"
        raise LogError(f"{path}: {' '.join(str(error).split())}", fix=fix) from error
    if not runs:
        raise LogError(f"{path} has no {RESULT_SUMMARY} of a point, and no score file", fix="run the point again")
    return runs


def _read_runs(path: Path, there: Mapping[str, Path]) -> list[PointRun]:
    """Find the runs in a folder. A performance phase of one sample is skipped: it only precedes an accuracy run."""
    config = parse_yaml_mapping(there[CONFIG].read_bytes())
    scored = ACCURACY_RESULTS in there and bool(
        list(read_accuracy_scores(parse_json_object(there[ACCURACY_RESULTS].read_bytes())))
    )
    asked = parse_number(config.get_nested("settings", "runtime", "n_samples_to_issue"))
    found: list[PointRun] = []
    if RESULT_SUMMARY in there:
        summary = parse_json_object(there[RESULT_SUMMARY].read_bytes())
        if parse_number(summary.get("n_samples_issued")) and not (scored and asked == 1):
            played = config.get_nested("settings", "load_pattern", "type") == AGENTIC_PATTERN
            found.append(_make_run(path, PERFORMANCE, there, read_client_version(summary), scored=played))
    return [*found, _make_run(path, ACCURACY, there)] if scored else found


def _make_run(path: Path, mode: str, there: Mapping[str, Path], version: str = "", *, scored: bool = False) -> PointRun:
    """``scored``: the performance run has scores, as in agentic benchmarks."""
    also = (ACCURACY_RESULTS,) if scored and ACCURACY_RESULTS in there else ()
    return PointRun(path, mode, {name: there[name] for name in (CONFIG, _OWN[mode], *also)}, version)
