"""Read the folder of an Endpoints submission into the declarations of a spec, point by point."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.endpoints.importing.point_folder import PointRun, find_runs
from reconciler.endpoints.results import point_format as points
from reconciler.endpoints.rules.point import OFFLINE_PATTERN
from reconciler.endpoints.rules.results import count_trajectories
from reconciler.endpoints.rules.ruleset import CURVE_DIVISIONS, ROUND_PREFIX
from reconciler.endpoints.tree.content import PENDING
from reconciler.endpoints.tree.layout import DOCUMENTS, POWER, RESULTS, SOURCES
from reconciler.endpoints.tree.reading import (
    CurveFolder,
    PointFolder,
    SubmissionFolder,
    find_implementation,
    find_submissions,
)
from reconciler.errors import LogError, ReconcilerError
from reconciler.importing.adopted_documents import find_publishable, is_readable
from reconciler.importing.run_reader import TakenCell
from reconciler.loadgen import keys
from reconciler.resource.kinds import ACCURACY, Cell, name_point
from reconciler.resource.quantities import is_whole, parse_number
from reconciler.resource.records import REHEARSAL
from reconciler.rules.rounds import load_ruleset
from reconciler.rules.ruleset import Ruleset
from reconciler.storage.documents import ResultDocument
from reconciler.storage.untrusted_files import list_special_entries

VERSION = "v1.0"


class TakenCurve(Struct, frozen=True):
    """One system's curve of one model. ``points``: their concurrencies; ``offline``: samples of a dedicated Offline
    run, 0 for none; ``scored``: those with an accuracy result. ``description``: system_desc.json of its first point.
    ``min_concurrency``: as declared, 0 for none."""

    division: str
    system: str
    benchmark: str
    official: str
    implementation: str
    max_concurrency: int
    points: tuple[int, ...]
    scored: tuple[int, ...]
    description: Mapping[str, object]
    statements: Mapping[str, object] = field(default_factory=dict)
    offline: int = 0
    min_concurrency: int = 0

    @property
    def all_points(self) -> tuple[int, ...]:
        return (*self.points, self.offline) if self.offline else self.points

    def name_cell(self, concurrency: int) -> Cell:
        return Cell(self.division, self.system, self.benchmark, name_point(concurrency))


class TakenCurves(Struct, frozen=True):
    """Curves of one submission. ``unreadable``: parts of the folder that cannot be read → the reason. ``stated``: cell
    → contents of the point.yaml and system_desc.json of its point."""

    submitter: str
    ruleset: Ruleset
    path: Path
    curves: tuple[TakenCurve, ...]
    cells: tuple[TakenCell, ...]
    stated: Mapping[Cell, Mapping[str, object]]
    problems: tuple[str, ...] = ()
    rehearsal: bool = False
    unreadable: Mapping[Path, str] = field(default_factory=dict)

    @property
    def folders(self) -> dict[str, Path]:
        """Map each place in a rendered tree to its folder."""
        return {f"{self.submitter}/{PENDING}": self.path}

    def find_files(self) -> dict[str, Path]:
        """Find the files that a repository stores with its spec, by place: code, documents, and the power of each
        system."""
        found: dict[str, Path] = {}
        for curve in self.curves:
            if curve.implementation:
                own = self.path / SOURCES / curve.implementation
                found |= find_publishable(own, f"{SOURCES}/{curve.benchmark}", self.unreadable)
            power = self.path / RESULTS / curve.system / POWER
            if is_readable(power, self.unreadable) and power.is_file():
                found[f"systems/{curve.system}_power.json"] = power
        return found | dict(find_publishable(self.path / DOCUMENTS, DOCUMENTS, self.unreadable))


def read_curves(path: Path, submitter: str = "") -> TakenCurves:
    """Read one submission. Raises ReconcilerError if there are several, unless ``submitter`` has exactly one."""
    found = find_submissions(path)
    chosen = [item for item in found if not submitter or item.submitter == submitter]
    if len(found) == 1:
        chosen = list(found)  # the folder above it need not have the submitter's name
    if len(chosen) != 1:
        listed = ", ".join(sorted({f"{item.submitter} ({item.path.name})" for item in found}))
        raise ReconcilerError(f"{path} contains {len(found)} submissions: {listed}", fix="pass the folder of one")
    return _take(chosen[0], submitter or chosen[0].submitter)


def _take(folder: SubmissionFolder, submitter: str) -> TakenCurves:
    unreadable = dict(list_special_entries(folder.path))
    ruleset = load_ruleset(f"{ROUND_PREFIX}{VERSION}")
    curves: list[TakenCurve] = []
    cells: list[TakenCell] = []
    stated: dict[Cell, Mapping[str, object]] = {}
    problems = [f"{path}: {what}, ignored" for path, what in unreadable.items()]
    for item in (curve for system in folder.systems for curve in system.curves if curve.points):
        if not is_readable(item.path, unreadable):
            continue
        taken, why = _curve(item, [curve.benchmark for curve in curves if curve.official != item.model])
        if taken is None:
            problems.append(f"{item.shown}: {why}; its points are not adopted")
            continue
        offline = [point for point in item.points if _is_offline(point)]
        problems += [f"{point.shown}: a second dedicated Offline run" for point in offline[1:]]
        own = [point for point in item.points if not _is_offline(point)]
        taken = replace(
            taken,
            points=tuple(point.named for point in own),
            offline=offline[0].named if offline else 0,
            scored=tuple(point.named for point in own if any(not score.inline for score in point.scores)),
        )
        curves.append(taken)
        for point in [*own, *offline[:1]]:
            cells.append(_point(point, taken))
            stated[cells[-1].cell] = _state(point)
    return TakenCurves(
        submitter, ruleset, folder.path, tuple(curves), tuple(cells), stated, tuple(problems), unreadable=unreadable
    )


def _curve(folder: CurveFolder, taken: list[str]) -> tuple[TakenCurve | None, str]:
    """``taken``: names of the benchmarks of other models. Return None with the reason for a curve that a spec cannot
    declare."""
    description = folder.description
    division = folder.division.strip().lower()
    if division not in CURVE_DIVISIONS:
        return None, f"its system_desc.json says of the division {folder.division!r}"
    stated = [point.state("max_supported_concurrency") for point in folder.stated]
    maximum = next((value for value in (*stated, description.get("max_supported_concurrency")) if is_whole(value)), 0)
    if not maximum:
        return None, "max_supported_concurrency is not declared"
    lowest = description.get("c_min_override")
    if lowest is not None and not (is_whole(lowest) and lowest in [point.named for point in folder.points]):
        return None, f"its c_min_override is {lowest!r}, but this point does not exist"
    implementation = find_implementation(folder)
    name = implementation if implementation and implementation not in taken else folder.model
    statements = {name: value for point in folder.stated[:1] for name, value in _statements(point).items()}
    curve = TakenCurve(
        division, folder.system, name, folder.model, implementation, maximum, (), (), description, statements
    )
    return replace(curve, min_concurrency=lowest or 0), ""


def _is_offline(point: PointFolder) -> bool:
    config = point.config.value
    return config is not None and config.get_nested("settings", "load_pattern", "type") == OFFLINE_PATTERN


def _point(point: PointFolder, curve: TakenCurve) -> TakenCell:
    rehearsal = point.state(REHEARSAL) is True
    taken = TakenCell(curve.name_cell(point.named), curve.official, {}, {}, rehearsal=rehearsal, needed=True)
    config = point.config.value
    if config is None:
        return replace(taken, problems=(f"run: {point.config.problem or 'there is no config.yaml'}",))
    model = str(config.get_nested("model_params", "name") or "")
    taken = replace(taken, settings=_read_settings(config), harness={"results": points.NAME, "model_name": model})
    try:
        runs: tuple[PointRun, ...] = find_runs(point.path)
    except LogError as error:
        return replace(taken, problems=(f"run: {error.message}",))
    if runs[0].mode == ACCURACY:
        return replace(taken, problems=("performance run: it left no results",))
    return replace(taken, runs=runs)


def _read_settings(config: ResultDocument) -> dict[str, Any]:
    """Read the settings with which a spec requests the run, by flat name; times in ms."""
    runtime = {
        keys.MIN_DURATION: ("settings", "runtime", "min_duration_ms"),
        keys.MAX_DURATION: ("settings", "runtime", "max_duration_ms"),
        keys.MIN_QUERY_COUNT: ("settings", "runtime", "n_samples_to_issue"),
        keys.TARGET_QPS: ("settings", "load_pattern", keys.TARGET_QPS),
    }
    found: dict[str, Any] = {n: value for n, at in runtime.items() if (value := parse_number(config.get_nested(*at)))}
    if played := count_trajectories(config):
        found[keys.MIN_QUERY_COUNT] = played
    found.setdefault(keys.MIN_DURATION, 0)
    if config.get_nested("settings", "warmup", "enabled") is True:
        requests = parse_number(config.get_nested("settings", "warmup", "n_requests"))
        found |= {"client.warmup": int(requests)} if requests else {}
    api = config.get_nested("endpoint_config", "api_type")
    found |= {"client.api": api} if api not in (None, "openai") else {}
    model = config.get("model_params")
    for name, value in model.items() if isinstance(model, Mapping) else ():
        if name not in ("name", "streaming", "tokenizer_name") and isinstance(value, (str, int, float, bool)):
            found[f"client.parameters.{name}"] = value
    return found


def _state(point: PointFolder) -> dict[str, Any]:
    described = point.description.value
    return {**(described.values if described else {}), **_statements(point)}


def _statements(point: PointFolder) -> Mapping[str, object]:
    return point.point.value.values if point.point.value else {}
