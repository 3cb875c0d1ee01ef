"""What the rounds take from mlperf.conf against the installed LoadGen, which carries that file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pytest

from reconciler.loadgen.settings import name_loadgen_scenario
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.rules.ruleset import BenchmarkRules, Ruleset
from tests.shared import need

need("mlperf_loadgen")

Read = Callable[..., list[dict[str, Any]]]
_SCENARIOS = ("SingleStream", "MultiStream", "Server", "Interactive", "Offline")
_NO_KEY = "no-benchmark-of-this-name"
# Our names by the attributes of TestSettings: for every scenario, then for one.
_ATTRIBUTES = {
    "min_duration": "min_duration_ms",
    "min_query_count": "min_query_count",
    "performance_sample_count": "performance_sample_count_override",
    "accuracy_sample_count": "accuracy_sample_count_override",
    "sample_concatenate_permutation": "sample_concatenate_permutation",
    "use_token_latencies": "use_token_latencies",
    "infer_token_latencies": "infer_token_latencies",
    "qsl_rng_seed": "qsl_rng_seed",
    "sample_index_rng_seed": "sample_index_rng_seed",
    "schedule_rng_seed": "schedule_rng_seed",
}
_OF_SCENARIO = {
    "SingleStream": {
        "target_latency": "single_stream_expected_latency_ns",
        "target_latency_percentile": "single_stream_target_latency_percentile",
    },
    "MultiStream": {
        "target_latency": "multi_stream_expected_latency_ns",
        "target_latency_percentile": "multi_stream_target_latency_percentile",
        "samples_per_query": "multi_stream_samples_per_query",
    },
    "Server": {
        "target_latency": "server_target_latency_ns",
        "target_latency_percentile": "server_target_latency_percentile",
        "target_qps": "server_target_qps",
        "ttft_latency": "ttft_latency",
        "tpot_latency": "tpot_latency",
    },
    "Offline": {"target_qps": "offline_expected_qps"},
}


@pytest.fixture(scope="module")
def installed(loadgen_read: Read) -> Ruleset:
    """The round whose seeds the installed LoadGen carries: measured, not derived from its version."""
    (loaded,) = loadgen_read([(b"", _NO_KEY, "Offline")], conf_type=0)
    for name in list_rounds():
        ruleset = load_ruleset(name)
        if {seed: loaded[seed] for seed in ruleset.seeds()} == ruleset.seeds():
            return ruleset
    pytest.skip("the installed LoadGen carries the seeds of no known round")


def _cases(ruleset: Ruleset) -> list[tuple[BenchmarkRules, str]]:
    """Interactive only where it is a scenario of the benchmark: elsewhere LoadGen takes it for Server."""
    pairs = ((rules, scenario) for rules in ruleset.benchmarks.values() for scenario in _SCENARIOS)
    return [(r, s) for r, s in pairs if s != "Interactive" or any(s in table.optional for table in r.tables.values())]


def _expected(rules: BenchmarkRules, name: str, scenario: str, general: Decimal) -> Decimal | None:
    """What the round takes from LoadGen; what it says nothing about is as for any key; None: a run has to state it."""
    found = rules.find_ruled_value(name, scenario)
    if found is None:
        return general
    return _number(found.value) if {"mlperf.conf", "loadgen"} & set(found.sources) else None


def _number(value: Any) -> Decimal:
    return Decimal(int(value)) if isinstance(value, bool) else Decimal(str(value))


def _read(name: str, loaded: Mapping[str, Any], attribute: str) -> Decimal:
    """Percentiles are fractions in LoadGen, percent in a round; the rest is one number in both."""
    return _number(loaded[attribute]) * (100 if name == "target_latency_percentile" else 1)


def test_what_comes_from_mlperf_conf_is_what_loadgen_reads(installed: Ruleset, loadgen_read: Read) -> None:
    cases = _cases(installed)
    confs = [(b"", rules.get_value("model_key", s), name_loadgen_scenario(s)) for rules, s in cases]
    unknown = [(b"", _NO_KEY, name_loadgen_scenario(s)) for _, s in cases]
    answers, general = (loadgen_read(asked, conf_type=0) for asked in (confs, unknown))
    wrong = []
    for (rules, scenario), loaded, plain in zip(cases, answers, general, strict=True):
        for name, attribute in _names(scenario).items():
            found = _read(name, loaded, attribute)
            expected = _expected(rules, name, scenario, _read(name, plain, attribute))
            if expected is not None and found != expected:
                wrong.append(f"{rules.name} {scenario} {name}: LoadGen {found}, the round {expected}")
    assert not wrong, "\n".join(wrong)


def _names(scenario: str) -> dict[str, str]:
    return {**_ATTRIBUTES, **_OF_SCENARIO[name_loadgen_scenario(scenario)]}


def test_every_model_key_is_one_that_loadgen_knows(installed: Ruleset, loadgen_read: Read) -> None:
    """A key that is unknown is read like any other: only the general values apply, and no one is reported."""
    confs = [(b"", _NO_KEY, s) for s in ("Server", "Offline")]
    unknown = loadgen_read(confs, conf_type=0)
    for rules in installed.benchmarks.values():
        found = rules.find_ruled_value("model_key")
        assert found is not None
        answers = loadgen_read([(b"", found.value, scenario) for _, _, scenario in confs], conf_type=0)
        assert (answers != unknown) is ("mlperf.conf" in found.sources), rules.name
