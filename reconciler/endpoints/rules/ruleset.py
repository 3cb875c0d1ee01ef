"""The rules of MLPerf Endpoints in the form of a round, so that every stage can use them like one.

Rules of single points (regions, durations, seeds) are in the points' own settings; those for all points are here.
"""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.endpoints.rules.curve_rules import CurveRules, RuledBenchmark, load_endpoints_rules
from reconciler.resource.programs import PROGRAMS
from reconciler.resource.ruled_values import AccuracyLogRule, EndpointsRules
from reconciler.rules.ruled_value import RuledValue
from reconciler.rules.ruleset import BenchmarkRules, Fields, Ruleset

NAME = "endpoints"  # of the program, and of the layout of its submissions
ROUND_PREFIX = f"{NAME}-"  # before the version of the rules: no round of Inference has such a name
CURVE_DIVISIONS = PROGRAMS[NAME].divisions
# None of Inference's requirements applies: the required points are checked where the curve is declared.
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
    """Return the accuracy that the client's scorer must reach."""
    found: dict[str, RuledValue] = {}
    for metric, (least, most) in benchmark.accuracy.items():
        bounds: Mapping[str, object] = {"least": least, "most": most}
        found |= {
            f"accuracy.{metric}.{side}": RuledValue(v, ("checker",)) for side, v in bounds.items() if v is not None
        }
    return found
