"""From a declared curve of MLPerf Endpoints to its points: each is a cell, with the official client as its harness.

What the rules decide before anything is measured is decided here: where points are, how long each lasts, which seeds it
has, and which of them have an accuracy run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.errors import ReconcilerError
from reconciler.mlperf.endpoints_program.regions import (
    BANDS,
    Regions,
    choose_accuracy_points,
    derive_regions,
    find_gaps,
    place_points,
)
from reconciler.mlperf.endpoints_program.rules import CurveRules
from reconciler.resource.inputs import Origin, Value
from reconciler.resource.settings import ACCURACY_FROM, CLIENT_CODE, COMMAND, MAXIMUM
from reconciler.spec.endpoints_models import AUTO
from reconciler.spec.layers import Block, LayeredSetting

PREFIX = "c"  # before the concurrency, in the name of a point's cell
SEED_SET = "seed_set"
ACCURACY_POINTS = "accuracy_points"
ELSEWHERE = "external"  # code of a benchmark whose runs are made elsewhere and imported
_SPARE = 125  # percent of the shortest duration: the steady-state window must span it, and ramps are no part of one
_MILLISECONDS = 1000
_CLIENT_COMMAND = (
    *("{client_python}", "-m", "inference_endpoint.main", "benchmark", "from-config"),
    *("--config", "{client_config}", "--mode", "{endpoints_mode}"),
)
_PYTHON = ".venv/bin/python"
REPORT = "report"  # the client's own folder, in that of a run
# What the rules ask to be kept of each run beside its results: every request, warm-up included.
_KEPT = tuple(
    f"{{run_dir}}/{REPORT}/{name}"
    for name in ("events.jsonl", "sample_idx_map.json", "report.txt", "metrics", "steady_state.json", "run_meta.json")
)
_ANSWERING = {"url": "endpoint.url", "service": "harness.service.command"}


@dataclass(frozen=True, slots=True)
class CurveProblem:
    """``name``: of the setting that is wrong, "" for the curve itself."""

    name: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class PlacedCurve:
    """``regions`` of its ``points``; ``accuracy``: those with an accuracy run of their own, ``declared`` in the spec or
    chosen by the rules."""

    points: tuple[int, ...]
    regions: Regions
    accuracy: frozenset[int]
    owners: Mapping[str, int] = field(default_factory=dict)
    declared: bool = False

    def find_source(self, concurrency: int) -> int:
        """The point of the same region whose accuracy run stands for it, else the nearest one below or above."""
        region = self.regions.find(concurrency)
        if region in self.owners:
            return self.owners[region]
        return min(self.accuracy, key=lambda other: (abs(other - concurrency), other))


def name_point(concurrency: int) -> str:
    return f"{PREFIX}{concurrency}"


def place_curve(written: tuple[str, ...], c_max: int, rules: CurveRules, scored: Collection[int] = ()) -> PlacedCurve:
    """``written``: numbers, or the word auto. ``scored``: points that are declared to have an accuracy run, in place of
    those that the rules choose. Raises ReconcilerError where the rules cannot place it."""
    automatic = AUTO in written
    if automatic and len(written) > 1:
        fix = "write 'points: auto', or numbers alone"
        raise ReconcilerError("points are placed by the rules and by hand at once", fix=fix)
    points = place_points(c_max, rules) if automatic else tuple(sorted({int(word) for word in written}))
    regions = derive_regions(points, c_max, rules)
    elected = c_max if c_max in points else None
    owners = choose_accuracy_points(scored or points, regions, rules, elected=elected)
    return PlacedCurve(points, regions, frozenset(scored or owners.values()), owners, declared=bool(scored))


def find_curve_problems(placed: PlacedCurve, rules: CurveRules) -> Iterator[CurveProblem]:
    """What the official checker would refuse at the end, told before days are spent."""
    count, most = len(placed.points), rules.number("most_points")
    least = rules.number("least_points")
    if count < least:
        fix = f"write 'points: auto', or add {least - count}"
        yield CurveProblem("points", f"{count} points are declared; the rules ask at least {least}", fix)
    if count > most:
        yield CurveProblem("points", f"{count} points are declared; the rules allow {most}", f"take {count - most} out")
    beyond = [point for point in placed.points if not placed.regions.find(point)]
    for point in beyond:
        last = placed.regions.regions[-1].last
        fix = f"take {point} out, or raise {MAXIMUM}"
        yield CurveProblem("points", f"point {point} lies beyond {last}, the end of the margin", fix)
    for gap in find_gaps(placed.points, placed.regions, rules):
        fix = f"add a point in {gap}"
        yield CurveProblem("points", f"no point lies in {gap.name.replace('_', ' ')} ({gap})", fix)
    if placed.regions.c_max not in placed.points:
        message = f"no point is at {placed.regions.c_max}, which is elected as the Offline point"
        yield CurveProblem("points", message, f"add {placed.regions.c_max}")
    if placed.declared:
        yield from _find_accuracy_problems(placed)


def _find_accuracy_problems(placed: PlacedCurve) -> Iterator[CurveProblem]:
    """Of points that are declared to have an accuracy run: each region needs one, and so does the Offline point."""
    for point in sorted(placed.accuracy - set(placed.points)):
        yield CurveProblem(ACCURACY_POINTS, f"{point} is not a point of the curve", "add it to points, or take it out")
    for band in (band for band in BANDS if band not in placed.owners):
        region = placed.regions.get(band)
        message = f"no point with an accuracy run lies in {band.replace('_', ' ')} ({region})"
        yield CurveProblem(ACCURACY_POINTS, message, f"add a point in {region}; one point counts for one region")
    if placed.regions.c_max in placed.points and placed.regions.c_max not in placed.accuracy:
        message = f"{placed.regions.c_max} is elected as the Offline point, and has no accuracy run"
        yield CurveProblem(ACCURACY_POINTS, message, f"add {placed.regions.c_max}")


def find_point_problems(settings: Block, *, rehearsal: bool) -> Iterator[tuple[str, str, str]]:
    """(name of a setting, message, fix) of what a point's run cannot be without. ``rehearsal``: durations are its
    own."""
    if "harness.model_name" not in settings:
        fix = "write 'client: {model_name: NAME}'; GET /v1/models of the server lists the names"
        yield "client.model_name", "nothing says which model the endpoint serves", fix
    if is_elsewhere(settings):
        return
    if CLIENT_CODE not in settings:
        fix = "write 'client: {code: ${MLPERF_ENDPOINTS_CLIENT}}', a checkout of mlcommons/endpoints"
        yield "client.code", "nothing says where the official client is", fix
    if "dataset.path" not in settings:
        fix = "write 'dataset: {path: …}' in the benchmark"
        yield "dataset.path", "nothing says what the performance dataset is", fix
    for name, what in {"dataset": "what the accuracy dataset is", "method": "how its answers are scored"}.items():
        if f"client.accuracy.{name}" not in settings:
            fix = "write 'client: {accuracy: {dataset: FILE, method: SCORER, …}}'"
            yield f"client.accuracy.{name}", f"nothing says {what}", fix
    named = [name for name in _ANSWERING.values() if name in settings]
    if len(named) != 1:
        message = "both an endpoint's address and a service are declared" if named else "nothing says what is measured"
        fix = "write 'endpoint: {url: …}' for one that runs elsewhere, or `harness: {service: …}` for one started here"
        yield (named or ["endpoint.url"])[0], message, fix
    if "endpoint.url" in settings and not any(name.startswith("endpoint.stack.") for name in settings):
        fix = "write 'endpoint: {stack: {engine: …, weights: …, flags: …}}': a change of it makes every point stale"
        yield "endpoint.url", "nothing says which stack answers at this address", fix
    if rehearsal:
        return
    duration, least = settings.get("min_duration"), settings["point.least_duration"][0].value.value
    if duration is not None and int(duration[0].value.value) < int(least):
        message = f"min_duration is {int(duration[0].value.value) // 1000} s; the rules ask {int(least) // 1000} s"
        yield "min_duration", message, "remove min_duration, or set `rehearsal: true` (never packaged)"


def is_elsewhere(settings: Block) -> bool:
    """Whether the runs of a point are made elsewhere, and imported."""
    return _text(settings, "benchmark.code") == ELSEWHERE


def complete_point(
    settings: Block,
    concurrency: int,
    placed: PlacedCurve,
    rules: CurveRules,
    where: LayeredSetting,
    *,
    rehearsal: bool,
) -> Block:
    """The point's settings with what follows from the rules and from the client's way to be started.

    ``where``: what stands for the curve in the spec. Raises ReconcilerError for an unknown seed set."""
    region = placed.regions.find(concurrency)
    seconds = rules.find_least_seconds(region, concurrency, agentic=False)
    ruled = Origin(f"Endpoints rules {rules.version}")
    implied: dict[str, object] = {"harness.results": "points"}
    if is_elsewhere(settings):
        implied["engine.backend"] = ELSEWHERE
    else:
        implied |= {
            COMMAND: (*_CLIENT_COMMAND, *_words(settings, "client.arguments")),
            "harness.env.PYTHONPATH": "src",
            "harness.outputs": _KEPT,
            "engine.backend": "command",
            "benchmark.code": "command",
        }
    seeds = rules.find_seed_set(_text(settings, SEED_SET) or sorted(rules.seed_sets)[-1])
    by_rules: dict[str, object] = {
        SEED_SET: seeds.id,
        "schedule_rng_seed": seeds.scheduler_rng_seed,
        "sample_index_rng_seed": seeds.sample_index_rng_seed,
        "point.concurrency": concurrency,
        "point.region": region,
        "point.least_duration": seconds * _MILLISECONDS,
    }
    if concurrency not in placed.accuracy:
        by_rules[ACCURACY_FROM] = name_point(placed.find_source(concurrency))
    result = dict(settings)
    result |= {name: (LayeredSetting(Value(value, where.value.origin), where.path),) for name, value in implied.items()}
    result |= {name: (LayeredSetting(Value(value, ruled), where.path),) for name, value in by_rules.items()}
    if rehearsal and "min_duration" in result:
        result["point.least_duration"] = result["min_duration"]
    if "min_duration" not in result:
        spare = LayeredSetting(Value(seconds * _MILLISECONDS * _SPARE // 100, ruled), where.path)
        result["min_duration"] = (spare,)
    if "client.model_name" in result:
        result["harness.model_name"] = result.pop("client.model_name")
    if CLIENT_CODE in result and "client.python" not in result:
        code = result[CLIENT_CODE][0]
        result["client.python"] = (
            LayeredSetting(Value(f"{code.value.value}/{_PYTHON}", code.value.origin), code.path),
        )
    return result


def _text(settings: Block, name: str) -> str | None:
    return str(settings[name][0].value.value) if name in settings else None


def _words(settings: Block, name: str) -> tuple[str, ...]:
    return tuple(settings[name][0].value.value) if name in settings else ()
