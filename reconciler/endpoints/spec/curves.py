"""From a declared curve of MLPerf Endpoints to its points: each is a cell, with the official client as its harness.

Everything that the rules determine before a measurement is decided here: the points, their durations and seeds, and
which of them have an accuracy run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct, field

from reconciler.endpoints.results.client import EXTRAS
from reconciler.endpoints.rules.curve_rules import SCHEDULER_SEED, CurveRules, RuledBenchmark
from reconciler.endpoints.rules.regions import (
    BANDS,
    CHOICE,
    Regions,
    choose_accuracy_points,
    derive_regions,
    find_gaps,
    place_points,
)
from reconciler.endpoints.spec.models import AUTO, OFFLINE
from reconciler.errors import ReconcilerError
from reconciler.loadgen import keys
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import name_point
from reconciler.resource.settings import ACCURACY_FROM, AGENTIC, CLIENT_CODE, COMMAND, DEDICATED_OFFLINE, MAXIMUM
from reconciler.spec.layers import Block, LayeredSetting, get_text

SEED_SET = "seed_set"
ACCURACY_POINTS = "accuracy_points"
ELSEWHERE = "external"  # code of a benchmark whose runs are made elsewhere and imported
_MARGIN_PERCENT = 125  # percent of the shortest duration, so that the steady-state window can span it without ramps
_MILLISECONDS = 1000
_CLIENT_COMMAND = (
    *("{client_python}", "-m", "inference_endpoint.main", "benchmark", "from-config"),
    *("--config", "{client_config}", "--mode", "{endpoints_mode}"),
)
_PYTHON = ".venv/bin/python"
REPORT = "report"  # the client's folder inside that of a run
# Files of each run that the rules require to be archived with its results: every request, including the warm-up.
_KEPT = tuple(
    f"{{run_dir}}/{REPORT}/{name}"
    for name in ("events.jsonl", "sample_idx_map.json", "report.txt", "metrics", "steady_state.json", "run_meta.json")
)
_KEPT_OF_AGENTS = tuple(f"{{run_dir}}/{REPORT}/{name}" for name in ("scores.json", "swe_bench_runs"))
SIZE = keys.PERFORMANCE_SAMPLE_COUNT
# (name of a setting, message, fix)
SettingProblem = tuple[str, str, str]


class PlacedCurve(Struct, frozen=True):
    """``regions``: the regions of its ``points``, which have fixed concurrencies; ``offline``: samples of a dedicated
    Offline run, which is one more point, 0 for none; ``accuracy``: points with their own accuracy run, ``declared`` in
    the spec or chosen by the rules. ``agentic``: it is of an agentic benchmark, so no point counts as Offline."""

    points: tuple[int, ...]
    regions: Regions
    accuracy: frozenset[int]
    owners: Mapping[str, int] = field(default_factory=dict)
    declared: bool = False
    offline: int = 0
    agentic: bool = False

    @property
    def all_points(self) -> tuple[int, ...]:
        return (*self.points, self.offline) if self.offline else self.points

    def find_source(self, concurrency: int) -> int:
        """Return the point of the same region whose accuracy run it shares, else the nearest one below or above."""
        region = self.regions.find(concurrency)
        if region in self.owners:
            return self.owners[region]
        return min(self.accuracy - {self.offline}, key=lambda other: (abs(other - concurrency), other))


def place_curve(
    written: tuple[str, ...],
    c_max: int,
    rules: CurveRules,
    scored: Collection[int] = (),
    *,
    size: int = 0,
    count: int = 0,
    c_min: int | None = None,
    agentic: bool = False,
) -> PlacedCurve:
    """Place the points of a curve. Raises ReconcilerError if the rules cannot place them.

    ``written``: numbers, the word auto for points that the rules place, and the word offline for a dedicated Offline
    run over a dataset of ``size`` samples. ``scored``: points declared to have an accuracy run, instead of those
    chosen by the rules. ``count``: how many points ``auto`` places, 0 for the minimum; ``c_min``: a declared lower
    bound of the regions.
    """
    by_hand = tuple(int(word) for word in written if word not in (AUTO, OFFLINE))
    automatic = AUTO in written
    if count and not automatic:
        fix = "remove point_count, or set 'points: auto'"
        raise ReconcilerError("point_count applies only to 'points: auto'", fix=fix)
    if agentic and OFFLINE in written:
        raise ReconcilerError("agentic benchmarks have no Offline run", fix="remove offline from points")
    offline = _check_offline(size, c_max) if OFFLINE in written else 0
    placed = count - bool(offline) if count else 0
    by_rules = place_points(c_max, rules, count=placed, min_concurrency=c_min or 1) if automatic else ()
    points = tuple(sorted({*by_rules, *by_hand}))
    regions = derive_regions(points, c_max, rules, c_min)
    # Also with a dedicated Offline run, so that adding one makes no other run stale.
    elected = c_max if c_max in points and not agentic else None
    owners = choose_accuracy_points(scored or points, regions, rules, elected=elected)
    accuracy = frozenset({*(scored or owners.values()), *([offline] if offline else [])})
    return PlacedCurve(points, regions, accuracy, owners, bool(scored), offline, agentic)


def _check_offline(size: int, c_max: int) -> int:
    """Return the size of the dataset, which the rules count as the concurrency of a dedicated Offline run."""
    if not size:
        fix = "write 'performance_sample_count: …' in the benchmark, or remove offline to elect the maximum"
        raise ReconcilerError("a dedicated Offline run needs the size of the dataset, which is not declared", fix=fix)
    if size <= c_max:
        message = f"the dataset has {size} samples; a dedicated Offline run needs more than {c_max}"
        raise ReconcilerError(message, fix=f"remove offline, to elect the point at {c_max}")
    return size


def find_curve_problems(placed: PlacedCurve, rules: CurveRules) -> Iterator[SettingProblem]:
    """Find what the official checker would reject at the end, before days are spent."""
    count, most, least = len(placed.all_points), rules.values.most_points, rules.values.least_points
    if placed.offline:
        least = rules.values.least_points_with_dedicated_offline
    if count < least:
        fix = f"set 'points: auto', or add {least - count}"
        yield "points", f"{count} points are declared; the rules require at least {least}", fix
    if count > most:
        yield "points", f"{count} points are declared; the rules allow {most}", f"take {count - most} out"
    for point in (point for point in placed.points if not placed.regions.find(point)):
        last = placed.regions.regions[-1].last
        fix = f"remove {point}, or raise {MAXIMUM}"
        yield "points", f"point {point} is above {last}, the end of the margin", fix
    for gap in find_gaps(placed.points, placed.regions, rules):
        fix = f"add a point in {gap}"
        yield "points", f"no point lies in {gap.name.replace('_', ' ')} ({gap})", fix
    if placed.regions.c_max not in placed.points and not placed.agentic:
        role = "the reference for Offline" if placed.offline else "to elect as the Offline point"
        message = f"no point is at {placed.regions.c_max}, {role}"
        yield "points", message, f"add {placed.regions.c_max}"
    if placed.declared:
        yield from _find_accuracy_problems(placed)


def _find_accuracy_problems(placed: PlacedCurve) -> Iterator[SettingProblem]:
    """Find problems of the points declared to have an accuracy run: each region needs one, and so does the Offline
    point."""
    for point in sorted(placed.accuracy - set(placed.all_points)):
        yield ACCURACY_POINTS, f"{point} is not a point of the curve", "add it to points, or remove it"
    for band in (band for band in BANDS if band not in placed.owners):
        region = placed.regions.get(band)
        message = f"no point with an accuracy run lies in {band.replace('_', ' ')} ({region})"
        yield ACCURACY_POINTS, message, f"add a point in {region}; a point counts for only one region"
    elected = placed.regions.c_max in placed.points and not placed.offline and not placed.agentic
    if elected and placed.regions.c_max not in placed.accuracy:
        message = f"{placed.regions.c_max} is elected as the Offline point, but has no accuracy run"
        yield ACCURACY_POINTS, message, f"add {placed.regions.c_max}"


def is_elsewhere(settings: Block) -> bool:
    """Return True if the runs of a point are made elsewhere, and imported."""
    return get_text(settings, "benchmark.code") == ELSEWHERE


def complete_point(
    settings: Block, concurrency: int, placed: PlacedCurve, rules: CurveRules, where: LayeredSetting, *, rehearsal: bool
) -> Block:
    """Return the point's settings, completed by the rules and by the way the client is started. ``where``: the curve's
    place in the spec. Raises ReconcilerError for an unknown seed set."""
    offline = concurrency == placed.offline
    region = CHOICE if offline else placed.regions.find(concurrency)
    least = rules.find_least_seconds(region, concurrency, agentic=placed.agentic)
    seconds = rules.find_offline_seconds() if offline else least
    ruled = Origin(f"Endpoints rules {rules.version}")
    implied: dict[str, object] = {"harness.results": "points"}
    if is_elsewhere(settings):
        implied["engine.backend"] = ELSEWHERE
    else:
        arguments = settings["client.arguments"][0].value.value if "client.arguments" in settings else ()
        implied |= {
            COMMAND: (*_CLIENT_COMMAND, *arguments),
            "harness.env.PYTHONPATH": "src",
            "harness.outputs": (*_KEPT, *_KEPT_OF_AGENTS) if placed.agentic else _KEPT,
            "engine.backend": "command",
            "benchmark.code": "command",
        }
    seeds = rules.find_seed_set(get_text(settings, SEED_SET) or sorted(rules.seed_sets)[-1])
    by_rules: dict[str, object] = {
        SEED_SET: seeds.id,
        keys.SCHEDULE_RNG_SEED: seeds.seeds[SCHEDULER_SEED],
        keys.SAMPLE_INDEX_RNG_SEED: seeds.seeds[keys.SAMPLE_INDEX_RNG_SEED],
        "point.concurrency": concurrency,
        "point.region": region,
        "point.least_duration": seconds * _MILLISECONDS,
    }
    if offline:
        by_rules[DEDICATED_OFFLINE] = True
    benchmark = find_benchmark(settings, rules)
    if benchmark is not None and benchmark.least_accuracy_samples and not rehearsal:
        by_rules["point.least_accuracy_samples"] = benchmark.least_accuracy_samples
    if placed.agentic:
        by_rules |= _collect_agentic_rules(benchmark, settings, rehearsal=rehearsal)
    if concurrency not in placed.accuracy:
        by_rules[ACCURACY_FROM] = name_point(placed.find_source(concurrency))
    result = dict(settings)
    result |= {name: where.imply(value) for name, value in implied.items()}
    result |= {name: where.imply(value, ruled) for name, value in by_rules.items()}
    if rehearsal and keys.MIN_DURATION in result:
        result["point.least_duration"] = result[keys.MIN_DURATION]
    if keys.MIN_DURATION not in result:
        result[keys.MIN_DURATION] = where.imply(seconds * _MILLISECONDS * _MARGIN_PERCENT // 100, ruled)
    if "client.model_name" in result:
        result["harness.model_name"] = result.pop("client.model_name")
    if CLIENT_CODE in result and "client.python" not in result:
        result["client.python"] = result[CLIENT_CODE][0].imply(f"{get_text(result, CLIENT_CODE)}/{_PYTHON}")
    return result


def find_benchmark(settings: Block, rules: CurveRules) -> RuledBenchmark | None:
    """Return the benchmark that the point is entered for; None if the rules do not know it."""
    return rules.benchmarks.get(get_text(settings, "benchmark.official"))


def _collect_agentic_rules(benchmark: RuledBenchmark | None, settings: Block, *, rehearsal: bool) -> dict[str, object]:
    """Collect the rules of agentic benchmarks. A rehearsal has its own model, so its answers need not be good."""
    found: dict[str, object] = {AGENTIC: True}
    if benchmark is None:
        return found
    named = {f"{EXTRAS}{name}": value for name, value in benchmark.extras.items()}
    found |= {name: value for name, value in named.items() if name not in settings}
    if benchmark.inline is not None and not rehearsal:
        found["point.least_inline"] = str(benchmark.inline)
    if benchmark.output_tokens is not None and not rehearsal:
        bounds = ("point.least_turn_tokens", "point.most_turn_tokens")
        found |= {name: str(tokens) for name, tokens in zip(bounds, benchmark.output_tokens, strict=True)}
    return found
