"""The rules of MLPerf Endpoints: values, seed sets, benchmarks and drafters, also as a round for all stages.

They are data, in ``rules.yaml``, with their sources and open questions. Code never branches on a version or a
benchmark's name.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from reconciler.errors import ReconcilerError, suggest_nearest
from reconciler.loadgen import keys
from reconciler.resource.programs import PROGRAMS
from reconciler.resource.ruled_values import AccuracyLogRule, EndpointsRules
from reconciler.rules.programs import PublishedLists
from reconciler.rules.ruled_value import RuledValue
from reconciler.rules.ruleset import BenchmarkRules, Fields, Ruleset
from reconciler.storage.documents import parse_yaml_mapping
from reconciler.storage.untrusted_files import read_regular

V1_0 = "v1.0"
_FILE = "rules.yaml"
# The seeds of a set; the client sends the last as the sampling seed of each request.
SCHEDULER_SEED, MODEL_SEED = "scheduler_rng_seed", "model_seed"
_SEEDS = (SCHEDULER_SEED, keys.SAMPLE_INDEX_RNG_SEED, MODEL_SEED)


# Publication cohorts: two per month, named YYYY-MM-C0 and YYYY-MM-C1 (submission rules §4.2, §4.6).

_NAME = re.compile(r"(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])-C(?P<index>[01])")


class Cohort(Struct, frozen=True, order=True):
    """A cohort, ordered by time. ``index``: 0 or 1 within the month."""

    year: int
    month: int
    index: int

    def __str__(self) -> str:
        return f"{self.year:04d}-{self.month:02d}-C{self.index}"

    @classmethod
    def parse(cls, name: str) -> Cohort:
        """Parse the name of a cohort. Raises ReconcilerError if it is malformed."""
        match = _NAME.fullmatch(name)
        if match is None:
            raise ReconcilerError(f"{name!r} is not a cohort", fix="use YYYY-MM-C0 or YYYY-MM-C1, such as 2026-10-C1")
        return cls(int(match["year"]), int(match["month"]), int(match["index"]))

    def add(self, count: int) -> Cohort:
        """Return the cohort that is ``count`` cohorts later."""
        months, index = divmod(self.index + count, 2)
        years, month = divmod(self.month - 1 + months, 12)
        return Cohort(self.year + years, month + 1, index)


class ProcessorWatts(Struct, frozen=True):
    """``words``: parts of the names of an architecture's processors; ``watts``: pairs of maximum cores, None for any
    number, and watts."""

    words: tuple[str, ...]
    watts: tuple[tuple[int | None, int], ...]


class RuleValues(Struct, frozen=True, forbid_unknown_fields=True):
    """All ruled values, by their names in the file. Durations are in seconds; those of regions are by region name."""

    least_points: int
    least_points_with_dedicated_offline: int
    most_points: int
    most_ultra_low_concurrency: int
    least_max_concurrency: int
    margin: Decimal
    margin_covers_high: bool
    load_patterns: tuple[str, ...]
    agentic_load_pattern: str
    offline_load_pattern: str
    least_seconds: Mapping[str, int]
    least_seconds_agentic: Mapping[str, int]
    whole_passes: bool
    streaming: bool
    warmup_from_performance_dataset_needs_salt: bool
    failed_samples_allowed: int
    least_queries: Mapping[str, int]
    least_super_passes: int
    least_drift: Decimal
    most_scatter: Decimal
    ramp_band: Decimal
    coverage_statuses: tuple[str, ...]
    verdicts: tuple[str, ...]
    metric_states: tuple[str, ...]
    gating_metrics: tuple[str, ...]
    least_offline_share: Decimal
    accuracy_points: int
    accuracy_points_agentic: int
    adoption_cohorts: int
    drafter_lead_cohorts: int
    most_short_name: int
    metric_tolerance: Decimal
    utilization_tolerance: Decimal
    disclosure: tuple[str, ...]
    per_point_description: tuple[str, ...]
    divisions: tuple[str, ...]
    availabilities: tuple[str, ...]
    power_optional: tuple[str, ...]
    overhead: Mapping[str, Decimal]
    nic_watts: Decimal
    accelerator_watts: Mapping[str, Decimal]
    switch_watts: Mapping[str, Mapping[str, Decimal]]
    processor_watts: tuple[ProcessorWatts, ...]


class SeedSet(Struct, frozen=True):
    """Seeds to which a submission commits, by their names in point.yaml. ``cohorts``: cohorts in which a new submission
    may adopt them, ascending; empty if the list does not state the cohort of publication."""

    id: str
    cohorts: tuple[Cohort, ...]
    seeds: Mapping[str, int]


class RuledBenchmark(Struct, frozen=True):
    """``accuracy``: metric in lower case → minimum and maximum, fractions in percent; ``inline``, ``swe_bench`` and
    ``output_tokens``: limits of agentic benchmarks, None if unpublished; ``parameters``: the model_params that the
    client may use, empty if unpublished; ``dataset``: the SHA-256 of the performance dataset; ``extras``: settings of
    the SWE-bench scorer."""

    name: str
    accuracy: Mapping[str, tuple[Decimal, Decimal | None]]
    least_accuracy_samples: int = 0
    agentic: bool = False
    inline: Decimal | None = None
    swe_bench: Decimal | None = None
    output_tokens: tuple[Decimal, Decimal] | None = None
    parameters: Mapping[str, Any] = {}
    dataset: str = ""
    extras: Mapping[str, Any] = {}


class Drafter(Struct, frozen=True):
    """An approved drafter: a draft model, identified by the ``checksum`` of its weights, or a ``configuration`` of a
    target model whose checksum is ``target``. ``approved``: the cohort of its approval, None if unknown."""

    benchmark: str
    approved: Cohort | None
    model: str = ""
    checksum: str = ""
    target: str = ""
    configuration: Mapping[str, Any] = {}

    def matches(self, stated: Mapping[str, object]) -> bool:
        """Return True if the ``speculative_decoding`` of a point.yaml uses this drafter: checksums count, not names."""
        if self.checksum:
            return stated.get("weight_checksum") == self.checksum
        configured = bool(self.configuration) and stated.get("configuration") == self.configuration
        return configured and stated.get("target_checksum") == self.target


class CurveRules(Struct, frozen=True):
    """All rules of one version. ``client``: the commit of the client that they were read with. ``rehearsal``: durations
    are shortened, so nothing may be submitted."""

    version: str
    client: str
    values: RuleValues
    seed_sets: Mapping[str, SeedSet]
    benchmarks: Mapping[str, RuledBenchmark]
    drafters: tuple[Drafter, ...]
    rehearsal: bool = False

    def find_least_seconds(self, region: str, concurrency: int, *, agentic: bool) -> int:
        """Return the minimum seconds of a point's window. Up to 32 concurrent requests, the shorter duration applies in
        any region."""
        table = self.values.least_seconds_agentic if agentic else self.values.least_seconds
        if concurrency <= self.values.most_ultra_low_concurrency:
            return table["low_latency"]
        return table.get(region, 0)

    def find_offline_seconds(self) -> int:
        """Find the minimum seconds of a dedicated Offline run: the longest of all regions, since it belongs to none."""
        return max(self.values.least_seconds.values())

    def find_seed_set(self, name: str) -> SeedSet:
        """Find a seed set. Raises ReconcilerError with the most similar name as a suggestion."""
        if name not in self.seed_sets:
            fix = f"{suggest_nearest(name, self.seed_sets)}published seed sets: {', '.join(sorted(self.seed_sets))}"
            raise ReconcilerError(f"{name!r} is not a published seed set", fix=fix)
        return self.seed_sets[name]

    def shorten(self, seconds: int) -> CurveRules:
        """Return these rules with a minimum duration of ``seconds`` for all points, for a rehearsal."""
        shorter = dict.fromkeys(self.values.least_seconds, seconds)
        values = replace(self.values, least_seconds=shorter, least_seconds_agentic=shorter)
        return replace(self, values=values, rehearsal=True)


@functools.cache
def load_endpoints_rules(version: str = V1_0) -> CurveRules:
    """Load the bundled rules. Raises ReconcilerError for an unknown version."""
    if version != V1_0:
        raise ReconcilerError(f"unknown version {version!r} of the Endpoints rules", fix=f"known: {V1_0}")
    data = (importlib.resources.files(__package__) / _FILE).read_bytes()
    return parse_endpoints_rules(data)


def parse_endpoints_rules(data: bytes) -> CurveRules:
    """Parse the rules. Raises ReconcilerError for a value that is missing or has the wrong type."""
    document = parse_yaml_mapping(data).values
    try:
        values = convert({name: entry["value"] for name, entry in document["rules"].items()}, RuleValues)
        benchmarks = {name: _parse_benchmark(name, entry) for name, entry in document["benchmarks"].items()}
    except ValidationError as error:
        raise ReconcilerError(f"rules: {error}", fix="use the fields of RuleValues and RuledBenchmark") from error
    return CurveRules(
        version=document["version"],
        client=str(document["sources"]["client"]["version"]),
        values=values,
        seed_sets=_parse_seed_sets(document, values),
        benchmarks=benchmarks,
        drafters=tuple(map(_parse_drafter, document["drafters"])),
    )


def _parse_benchmark(name: str, entry: Mapping[str, Any]) -> RuledBenchmark:
    accuracy = {metric: (*bounds, None)[:2] for metric, bounds in entry.get("accuracy", {}).items()}
    return convert({**entry, "name": name, "accuracy": accuracy}, RuledBenchmark)


def adopt_lists(rules: CurveRules, lists: PublishedLists) -> CurveRules:
    """Return the rules with newer lists of seed sets and drafters, as published by MLCommons for the official checker.
    Raises ReconcilerError for an invalid file."""
    read = {"seed_sets": lists.seed_sets, "drafters": lists.approved_drafters}
    for name, path in read.items():
        try:
            listed = None if path is None else parse_yaml_mapping(read_regular(path)).values
            if listed is not None and name == "seed_sets":
                rules = replace(rules, seed_sets=_parse_seed_sets(listed, rules.values))
            elif listed is not None:
                rules = replace(rules, drafters=tuple(map(_parse_drafter, listed["drafters"])))
        except (OSError, ValueError, TypeError, KeyError, RecursionError, ReconcilerError) as error:
            said = error.message if isinstance(error, ReconcilerError) else " ".join(str(error).split())
            fix = "use the file published by MLCommons, seedset.yaml or approved_drafters.yaml"
            raise ReconcilerError(f"{path} is not a list of {name.replace('_', ' ')}: {said}", fix=fix) from error
    return rules


def _parse_seed_sets(document: Mapping[str, Any], values: RuleValues) -> dict[str, SeedSet]:
    """Parse the seed sets, at the top level or below ``cohort``, their common cohort of publication."""
    cohort = document.get("cohort")
    whole = cohort if isinstance(cohort, Mapping) else document
    sets = {}
    for entry in whole["seed_sets"]:
        published, named = entry.get("published", whole.get("cohort-id")), entry.get("cohorts")
        first = Cohort.parse(str(published)) if published else None
        window = [first.add(count) for count in range(values.adoption_cohorts)] if first else []
        cohorts = window if named is None else sorted(Cohort.parse(str(name)) for name in named)
        seeds = {name: int(entry[name]) for name in _SEEDS}
        sets[str(entry["id"])] = SeedSet(str(entry["id"]), tuple(cohorts), seeds)
    if not sets:
        raise ValueError("it has no seed set")
    return sets


def _parse_drafter(entry: Mapping[str, Any]) -> Drafter:
    benchmark, approved = str(entry["benchmark"]), entry.get("approved_cohort")
    checksum, target = (str(entry.get(name) or "") for name in ("weight_checksum", "target_checksum"))
    if not checksum and not target:
        raise ValueError(f"a drafter of {benchmark} has neither weight_checksum nor target_checksum")
    return Drafter(
        benchmark=benchmark,
        approved=Cohort.parse(str(approved)) if approved is not None else None,
        model=str(entry.get("model_id") or ""),
        checksum=checksum,
        target=target,
        configuration=dict(entry.get("configuration") or {}),
    )


NAME = "endpoints"  # name of the program and of its submissions' layout
ROUND_PREFIX = f"{NAME}-"  # prefix of the rules' version; no round of Inference starts with it
CURVE_DIVISIONS = PROGRAMS[NAME].divisions
# Inference's requirements do not apply. The required points are checked where the curve is declared.
_DEMANDS = ("scenarios", "compliance_tests", "model_mapping", "calibration", "used_systems", "whole_numbers")
_METRIC = {"metric_key": "system_tps", "metric_unit": "tokens/s", "metric_divisor": 1}


def load_endpoints_ruleset(name: str) -> Ruleset:
    """Load the rules as a round. Raises ReconcilerError for an unknown version."""
    rules = load_endpoints_rules(name.removeprefix(ROUND_PREFIX))
    general = {field: RuledValue(value, ("policy",)) for field, value in _METRIC.items()}
    benchmarks = {
        benchmark.name: BenchmarkRules(
            name=benchmark.name,
            round=name,
            tables={},
            tables_ruled=RuledValue({}, ("policy",)),
            levels={"": (_collect_bars(benchmark), general)},
        )
        for benchmark in rules.benchmarks.values()
    }
    return Ruleset(
        round=name,
        layout=NAME,
        benchmarks=benchmarks,
        general=general,
        divisions={division: dict.fromkeys(_DEMANDS, False) for division in CURVE_DIVISIONS},
        system_fields=(),
        measurements_fields=(),
        accuracy_log=AccuracyLogRule(limit=0, whole_below=0, keep=0),
        endpoints=EndpointsRules(benchmarks=tuple(benchmarks)),
    )


def _collect_bars(benchmark: RuledBenchmark) -> Fields:
    """Return the accuracy limits for the client's scores."""
    return {
        f"accuracy.{metric}.{side}": RuledValue(bound, ("checker",))
        for metric, bounds in benchmark.accuracy.items()
        for side, bound in zip(("least", "most"), bounds, strict=True)
        if bound is not None
    }
