"""Read the folder of an Endpoints submission of any submitter: each file once, problems as values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.diff.timeline import Side
from reconciler.endpoints.results.accuracy import show_plain
from reconciler.endpoints.rules.pareto import ParetoCurve, make_curve
from reconciler.endpoints.rules.point import AccuracyScore, MeasuredPoint
from reconciler.endpoints.rules.results import PointProblem, UnreadablePointError, parse_point, parse_scores
from reconciler.endpoints.tree.content import (
    ACCURACY,
    CONFIG,
    DESCRIPTION,
    POINT,
    POWER,
    RESULTS,
    SOURCES,
    SUMMARY,
    parse_point_name,
)
from reconciler.errors import ReconcilerError
from reconciler.resource.kinds import DIVISIONS, Cell, name_point
from reconciler.resource.quantities import is_whole
from reconciler.storage.documents import ResultDocument, parse_json_object, parse_yaml_mapping
from reconciler.tree.layout import is_portable
from reconciler.tree.reading.files import (
    TEXT_LIMIT,
    Read,
    UnreadableError,
    join_path,
    list_folders,
    read_bytes,
    read_file,
)
from reconciler.tree.reading.unreadable_folders import list_if_open


def _cache_file(name: str, parse: Callable[[bytes, str], ResultDocument]) -> cached_property[Read[ResultDocument]]:
    """Make a property that reads a file of a folder once."""
    return cached_property(lambda folder: read_file(folder.path / name, f"{folder.shown}/{name}", parse))


class PointFolder(Struct, frozen=True, dict=True):
    """r<N> of a curve. ``shown``: its path relative to the folder that the user named."""

    path: Path
    shown: str
    named: int

    point = _cache_file(POINT, parse_yaml_mapping)
    description = _cache_file(DESCRIPTION, parse_json_object)
    config = _cache_file(CONFIG, parse_yaml_mapping)
    summary = _cache_file(SUMMARY, parse_json_object)
    accuracy = _cache_file(ACCURACY, parse_json_object)

    @property
    def name(self) -> str:
        return self.path.name

    def get(self, name: str) -> Any:
        """Return a field of point.yaml, None if it cannot be read."""
        return None if self.point.value is None else self.point.value.get(name)

    def get_nested(self, *names: str) -> Any:
        return None if self.point.value is None else self.point.value.get_nested(*names)

    @cached_property
    def concurrency(self) -> int:
        """Return the concurrency stated in point.yaml; else that of the folder's name."""
        stated = self.get("concurrency")
        return stated if is_whole(stated) and stated > 0 else self.named

    @cached_property
    def results(self) -> tuple[MeasuredPoint | None, tuple[PointProblem, ...]]:
        """Return the run without its accuracy, or the problems that make it unreadable."""
        try:
            found = {name: data for name in (CONFIG, SUMMARY) if (data := self._read_bytes(name)) is not None}
            return parse_point(found, self.concurrency), ()
        except UnreadablePointError as error:
            return None, error.problems

    @property
    def measured(self) -> MeasuredPoint | None:
        return self.results[0]

    @cached_property
    def scored(self) -> tuple[tuple[AccuracyScore, ...], tuple[PointProblem, ...]]:
        """Return the scores of accuracy_results.json, none if the file is missing or unusable."""
        data = self._read_bytes(ACCURACY)
        if data is None:
            return (), ()
        try:
            return parse_scores(data), ()
        except UnreadablePointError as error:
            return (), error.problems

    @property
    def scores(self) -> tuple[AccuracyScore, ...]:
        return self.scored[0]

    def _read_bytes(self, name: str) -> bytes | None:
        try:
            return read_bytes(self.path / name, TEXT_LIMIT)
        except UnreadableError:
            return b""


class CurveFolder(Struct, frozen=True, dict=True):
    """results/<system>/<model>. ``root``: the submission's folder."""

    root: Path
    path: Path
    shown: str
    system: str

    @property
    def model(self) -> str:
        return self.path.name

    @cached_property
    def points(self) -> tuple[PointFolder, ...]:
        """Return the points by concurrency."""
        found = [(named, name) for name in list_folders(self.path) if (named := parse_point_name(name)) is not None]
        return tuple(PointFolder(self.path / name, f"{self.shown}/{name}", named) for named, name in sorted(found))

    @cached_property
    def stated(self) -> tuple[PointFolder, ...]:
        """Return the points whose point.yaml can be read."""
        return tuple(point for point in self.points if point.point.value is not None)

    @cached_property
    def description(self) -> Mapping[str, Any]:
        """Return the description of the first point that has one, like the official checker."""
        found = (point.description.value for point in self.points)
        return next((document.values for document in found if document is not None), {})

    @cached_property
    def pareto(self) -> ParetoCurve:
        """Return the Pareto curve of the points whose result can be read."""
        measured = [point.measured for point in self.points if point.measured is not None]
        return make_curve(measured)

    @property
    def division(self) -> str:
        stated = self.description.get("division")
        return stated if isinstance(stated, str) else ""


class SystemFolder(Struct, frozen=True, dict=True):
    """results/<system>."""

    root: Path
    path: Path
    shown: str

    power = _cache_file(POWER, parse_json_object)

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def curves(self) -> tuple[CurveFolder, ...]:
        return tuple(
            CurveFolder(self.root, self.path / name, f"{self.shown}/{name}", self.name)
            for name in list_folders(self.path)
        )


class SubmissionFolder(Struct, frozen=True, dict=True):
    """<submitter>/<submission id>. ``shown``: "" or a path that ends in "/"."""

    path: Path
    shown: str
    submitter: str

    @cached_property
    def systems(self) -> tuple[SystemFolder, ...]:
        results = self.path / RESULTS
        return tuple(
            SystemFolder(self.path, results / name, f"{self.shown}{RESULTS}/{name}") for name in list_folders(results)
        )

    def list_implementations(self) -> tuple[str, ...]:
        return list_folders(self.path / SOURCES)


_DEPTH = 2


def find_submissions(path: Path) -> tuple[SubmissionFolder, ...]:
    """Find every Endpoints submission at or up to two folders below a path: a results repository, an organisation, or
    one submission. Raises ReconcilerError if there is none."""
    found = tuple(_find_below(str(path), "", _DEPTH))
    if not found:
        raise ReconcilerError(
            f"{path} is not an Endpoints submission: no {RESULTS}/ with points r<N>",
            fix="pass the folder with src, docs and results",
        )
    return found


def is_endpoints_submission(path: Path) -> bool:
    """Return True if a path has points of MLPerf Endpoints rather than a tree of MLPerf Inference."""
    return path.is_dir() and any(_find_below(str(path), "", _DEPTH))


def _find_below(path: str, shown: str, depth: int) -> Iterator[SubmissionFolder]:
    names = list_folders(path) if depth == _DEPTH else list_if_open(list_folders, path)
    if RESULTS in names and _has_points(join_path(path, RESULTS)):
        yield SubmissionFolder(Path(path), shown, Path(path).resolve().parent.name)
        return
    for name in names:
        if depth and not name.startswith(".") and name not in DIVISIONS:
            yield from _find_below(join_path(path, name), f"{shown}{name}/", depth - 1)


def _has_points(results: str) -> bool:
    for system in list_if_open(list_folders, results):
        for model in list_if_open(list_folders, join_path(results, system)):
            names = list_if_open(list_folders, join_path(join_path(results, system), model))
            if any(parse_point_name(name) is not None for name in names):
                return True
    return False


def find_implementation(curve: CurveFolder) -> str:
    """Return the folder of its code below src/, as named by its points; "" if none names it."""
    source = next((str(value) for point in curve.stated if (value := point.get("shared_src"))), "")
    name = source.strip().strip("/").rpartition("/")[2]
    return name if is_portable(name) else ""


def resolve_shared(root: Path, value: object) -> Path | None:
    """Resolve shared_src or shared_docs: a folder below the submission, None for anything else."""
    if not isinstance(value, str) or not value.strip() or value.strip()[0] in "/~":
        return None
    parts = [part for part in value.strip().replace("\\", "/").split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        return None
    found = root.joinpath(*parts)
    return found if found.is_dir() else None


def read_sides(path: Path) -> Iterator[tuple[Cell, Side]]:
    """Yield the points of every curve, with the names that `adopt` uses."""
    curves = (curve for item in find_submissions(path) for system in item.systems for curve in system.curves)
    for curve in curves:
        benchmark, division = find_implementation(curve) or curve.model, curve.division.strip().lower()
        drawn = {point.concurrency: point for point in curve.pareto.points}
        for folder in curve.points:
            measured, cell = folder.measured, Cell(division, curve.system, benchmark, name_point(folder.named))
            if measured is not None:
                offline = measured.is_offline
                side = Side(cell, show_plain(measured.system_tps), "tokens/s", entered=curve.model, offline=offline)
                yield cell, side if offline else replace(side, point=drawn.get(measured.concurrency))
