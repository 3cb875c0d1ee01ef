"""What a round says of a cell whose results come from the endpoints harness."""

from __future__ import annotations

from decimal import Decimal

import pytest

from reconciler.desired.compile import compile_desired
from reconciler.desired.state import Pins
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.ruled_values import LatencyLimits, Metric
from reconciler.rules.context import EndpointsContext, RuleContext
from reconciler.rules.rounds import load_ruleset
from tests.unit.spec import writing

SPEC = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {{name: acme}}
spec:
  round: v6.1
  submitter: ACME
  systems: {{box: {{category: datacenter, status: available}}}}
  benchmarks:
    net:
      as: {benchmark}
      harness: {{command: [run, "{{run_dir}}"], code: ., {results}}}
  divisions: {{{division}: {{box: {{net: {{{scenario}: {{target_qps: 1}}}}}}}}}}
"""
LOGS = 'user_conf: harvested, score: {command: [score, "{accuracy_log}"]}'
ENDPOINTS = "results: endpoints, model_name: net"
TEN_MINUTES = 600_000


def rule(division: str, benchmark: str, scenario: str, results: str = ENDPOINTS) -> RuleContext:
    named = {"division": division, "benchmark": benchmark, "scenario": scenario, "results": results}
    desired, _ = compile_desired(writing.declare(SPEC.format(**named)), load_ruleset("v6.1"), Pins())
    rules = desired.detail(Address(Kind.RUN, f"{division}/box/net/{scenario}/performance")).rules
    assert rules is not None
    return rules


def seconds(ttft: str | None, tpot: str | None, latency: str | None) -> LatencyLimits:
    return LatencyLimits(*(None if text is None else Decimal(text) * 10**9 for text in (ttft, tpot, latency)))


@pytest.mark.parametrize(
    ("division", "benchmark", "scenario", "wanted"),
    [
        ("closed", "llama3.1-8b", "Offline", EndpointsContext()),
        ("closed", "llama3.1-8b", "Server", EndpointsContext(seconds("2", "0.1", "20"))),
        (
            "closed",
            "gpt-oss-120b",
            "Server",
            EndpointsContext(seconds("3", "0.08", "60"), mean_tokens=(Decimal("1150.38"), Decimal("1406.02"))),
        ),
        ("open", "gpt-oss-120b", "Server", EndpointsContext(seconds("3", "0.08", "60"))),
        ("closed", "wan-2.2-t2v-a14b", "Offline", EndpointsContext(audits={"TEST04": "output_caching_test"})),
        ("open", "wan-2.2-t2v-a14b", "Offline", EndpointsContext()),
        (
            "closed",
            "qwen3-vl-235b-a22b",
            "Server",
            EndpointsContext(seconds(None, None, "12"), single_score=True),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_round_asks_of_results_of_endpoints(
    division: str, benchmark: str, scenario: str, wanted: EndpointsContext
) -> None:
    """Its tests bind closed alone; ten minutes are what the harness is told in any division."""
    found = rule(division, benchmark, scenario).endpoints
    assert found is not None
    assert (found.limits, dict(found.audits)) == (wanted.limits, dict(wanted.audits))
    assert (found.mean_tokens, found.single_score) == (wanted.mean_tokens, wanted.single_score)
    assert found.min_duration == TEN_MINUTES


@pytest.mark.parametrize(
    ("scenario", "of_endpoints", "of_logs"),
    [
        (
            "Offline",
            Metric("result_completed_tokens_per_second", "tokens/s"),
            Metric("result_tokens_per_second", "tokens/s"),
        ),
        (
            "Server",
            Metric("result_completed_tokens_per_second", "tokens/s"),
            Metric("result_completed_tokens_per_second", "tokens/s"),
        ),
        (
            "SingleStream",
            Metric("result_mean_latency_ns", "ms", 1_000_000, lower_is_better=True),
            Metric("early_stopping_latency_ss", "ms", 1_000_000, lower_is_better=True),
        ),
    ],
)
def test_the_metric_is_the_one_of_what_is_left(scenario: str, of_endpoints: Metric, of_logs: Metric) -> None:
    endpoints, logs = (rule("open", "llama3.1-8b", scenario, results) for results in (ENDPOINTS, LOGS))
    assert (endpoints.metric, logs.metric, logs.endpoints) == (of_endpoints, of_logs, None)
