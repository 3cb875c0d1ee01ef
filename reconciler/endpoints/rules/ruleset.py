"""Present the rules of MLPerf Endpoints as a round, so that all stages can use them.

These are the rules for all points; those of single points (regions, durations, seeds) are in the points' settings.
"""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.endpoints.rules.curve_rules import CurveRules, RuledBenchmark, load_endpoints_rules
from reconciler.resource.programs import PROGRAMS
from reconciler.resource.ruled_values import AccuracyLogRule, EndpointsRules
from reconciler.rules.ruled_value import RuledValue
from reconciler.rules.ruleset import BenchmarkRules, Fields, Ruleset

NAME = "endpoints"  # of the program and of its submissions' layout
ROUND_PREFIX = f"{NAME}-"  # prefix of the rules' version; no round of Inference starts with it
CURVE_DIVISIONS = PROGRAMS[NAME].divisions
# Inference's requirements do not apply. The required points are checked where the curve is declared.
_DEMANDS = ("scenarios", "compliance_tests", "model_mapping", "calibration", "used_systems", "whole_numbers")
_METRIC = {"metric_key": "system_tps", "metric_unit": "tokens/s", "metric_divisor": 1}


def load_endpoints_ruleset(name: str) -> Ruleset:
    """Load the rules as a round. Raises ReconcilerError for an unknown version."""
    return _make(name, load_endpoints_rules(name.removeprefix(ROUND_PREFIX)))


def _make(name: str, rules: CurveRules) -> Ruleset:
    general = {field: RuledValue(value, ("policy",)) for field, value in _METRIC.items()}
    benchmarks = {
        benchmark.name: BenchmarkRules(
            name=benchmark.name,
            round=name,
            tables={},
            tables_ruled=RuledValue({}, ("policy",)),
            levels={"": (_bars(benchmark), general)},
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


def _bars(benchmark: RuledBenchmark) -> Fields:
    """Return the accuracy limits for the client's scores."""
    found: dict[str, RuledValue] = {}
    for metric, (least, most) in benchmark.accuracy.items():
        bounds: Mapping[str, object] = {"least": least, "most": most}
        found |= {
            f"accuracy.{metric}.{side}": RuledValue(v, ("checker",)) for side, v in bounds.items() if v is not None
        }
    return found
