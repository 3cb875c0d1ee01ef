"""Each rule of a result of the endpoints harness: what it finds, what it wants, and at which line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.check.accuracy import check_extra_files
from reconciler.check.demands import Complaints
from reconciler.check.endpoints import (
    ENDPOINTS_RULES,
    check_accuracy,
    check_audits,
    check_benchmark,
    check_duration,
    check_failures,
    check_files,
    check_latencies,
    check_metric,
    check_scenario,
    check_seeds,
)
from reconciler.resource.ruled_values import Metric
from reconciler.rules.rounds import load_ruleset
from tests.unit.tree.small_cells import rules, say, small_cell

CONFIG, SUMMARY, ACCURACY = "config.yaml", "performance/result_summary.json", "accuracy/accuracy_results.json"
SEEDS = load_ruleset("v6.1").seeds()
SAMPLES, SCHEDULE = SEEDS["sample_index_rng_seed"], SEEDS["schedule_rng_seed"]


def tell(check: Callable[[Any], Complaints], root: Path, files: Mapping[str, object], **options: Any) -> list[str]:
    """Documents with one name a line, from the second on."""
    texts = {path: text if isinstance(text, str) else json.dumps(text, indent=1) for path, text in files.items()}
    scenario = options.setdefault("scenario", "Offline")
    options.setdefault("benchmark", rules())
    place = f"closed/Acme/results/sys1/resnet/{scenario}"
    return [line.replace(place, ".") for line in say(check(small_cell(root, texts, **options)))]


@pytest.mark.parametrize("left_out", [None, CONFIG, SUMMARY, ACCURACY])
def test_what_the_harness_writes_is_there(tmp_path: Path, left_out: str | None) -> None:
    files = {path: "{" for path in (CONFIG, SUMMARY, ACCURACY) if path != left_out}
    said = [f"./{left_out}: missing; wanted what the endpoints harness writes"] if left_out else []
    assert tell(check_files, tmp_path, files) == said


@pytest.mark.parametrize(
    ("scenario", "kind", "said"),
    [
        ("Offline", "offline", ""),
        ("Server", "online", ""),
        ("Interactive", "online", ""),
        ("Server", "offline", ":2: type offline; wanted a run of Server"),
        ("Offline", None, ": type nothing; wanted a run of Offline"),
    ],
)
def test_the_scenario_that_ran_is_the_folders(tmp_path: Path, scenario: str, kind: str | None, said: str) -> None:
    config = {CONFIG: f"x: 1\ntype: {kind}\n" if kind else "x: 1\n"}
    assert tell(check_scenario, tmp_path / "a", config, scenario=scenario) == ([f"./{CONFIG}{said}"] if said else [])
    assert not tell(check_scenario, tmp_path / "b", {}, scenario=scenario)


def runtime(**settings: object) -> dict[str, object]:
    """They stand from the third line on."""
    lines = "".join(f"    {name}: {json.dumps(value)}\n" for name, value in settings.items())
    return {CONFIG: f"settings:\n  runtime:\n{lines}"}


def test_seeds_are_those_of_the_round(tmp_path: Path) -> None:
    first, second = "dataloader_random_seed", "scheduler_random_seed"
    right = {first: SAMPLES, second: SCHEDULE}
    assert tell(check_seeds, tmp_path / "a", runtime(**right)) == []
    wrong = runtime(**{first: 5, second: str(SCHEDULE)})
    assert tell(check_seeds, tmp_path / "b", wrong) == [
        f"./{CONFIG}:3: {first} 5; wanted {SAMPLES}, the seed of v6.1",
        f"./{CONFIG}:4: {second} {SCHEDULE}; wanted {SCHEDULE}, the seed of v6.1",
    ]
    assert tell(check_seeds, tmp_path / "c", runtime(**{first: SAMPLES})) == [
        f"./{CONFIG}: {second} nothing; wanted {SCHEDULE}, the seed of v6.1"
    ]
    assert tell(check_seeds, tmp_path / "d", {}) == []


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (600_000, ""),
        (600_001, ""),
        (599_999, ":3: min_duration_ms 599999"),
        ("long", ":3: min_duration_ms long"),
        (None, ":3: min_duration_ms nothing"),
    ],
)
def test_the_configured_duration_is_at_least_the_rounds(tmp_path: Path, value: object, said: str) -> None:
    asked = rules(values={"least_min_duration": 600_000})
    config = runtime(min_duration_ms=value)
    wanted = [f"./{CONFIG}{said}; wanted at least 600000"] if said else []
    assert tell(check_duration, tmp_path / "a", config, benchmark=asked) == wanted
    assert not tell(check_duration, tmp_path / "a", config)
    assert not tell(check_duration, tmp_path / "a", config, benchmark=None)
    assert not tell(check_duration, tmp_path / "b", {}, benchmark=asked)


@pytest.mark.parametrize(
    ("failed", "said"), [(0, ""), (1, "1 sample failed"), (2, "2 samples failed"), (None, ""), ("many", "")]
)
def test_no_sample_failed(tmp_path: Path, failed: object, said: str) -> None:
    found = tell(check_failures, tmp_path / "a", {SUMMARY: {"x": 1, "n_samples_failed": failed}})
    assert found == ([f"./{SUMMARY}:3: {said}; wanted none"] if said else [])
    assert not tell(check_failures, tmp_path / "b", {})


def test_what_is_published_is_stated(tmp_path: Path) -> None:
    metric = Metric("result_samples_per_second", "samples/s")
    asked = rules(name="resnet", values={"metric_key": "x"}, metric=lambda _: metric)
    said = f"./{SUMMARY}: nothing to take samples/s from; wanted what the checker calls result_samples_per_second"
    assert tell(check_metric, tmp_path / "a", {SUMMARY: {"x": 1}}, benchmark=asked) == [said]
    stated = {SUMMARY: {"n_samples_issued": 5, "duration_ns": 10}}
    assert not tell(check_metric, tmp_path / "b", stated, benchmark=asked)
    assert not tell(check_metric, tmp_path / "c", {}, benchmark=asked)
    assert not tell(check_metric, tmp_path / "a", {}, benchmark=None)
    assert not tell(check_metric, tmp_path / "a", {}, benchmark=rules(metric=lambda _: metric))


MILLISECOND = 1_000_000
LIMITS = {"most_ttft_latency": 2000 * MILLISECOND, "most_tpot_latency": 100 * MILLISECOND}


def p99(**latencies: object) -> dict[str, object]:
    return {SUMMARY: {name: {"early_stopping_percentiles": {"99": value}} for name, value in latencies.items()}}


@pytest.mark.parametrize(
    ("latencies", "limits", "said"),
    [
        ({"ttft": 2000 * MILLISECOND - 1, "tpot": 100 * MILLISECOND - 1}, LIMITS, []),
        (
            {"ttft": 2000 * MILLISECOND, "tpot": 123_456_789},
            LIMITS,
            [":2: p99 ttft 2000.0 ms; wanted below 2000.0 ms", ":7: p99 tpot 123.5 ms; wanted below 100.0 ms"],
        ),
        ({"ttft": 1}, LIMITS, [": p99 tpot nothing; wanted below 100.0 ms"]),
        ({}, {}, []),
        (
            {"latency": 7 * MILLISECOND},
            {"most_target_latency": 6 * MILLISECOND},
            [":2: p99 latency 7.0 ms; wanted below 6.0 ms"],
        ),
    ],
)
def test_latencies_are_below_the_limits_of_their_scenario(
    tmp_path: Path, latencies: Mapping[str, object], limits: Mapping[str, int], said: list[str]
) -> None:
    asked, files = rules(values=limits), p99(**latencies)
    for scenario in ("Server", "Interactive"):
        found = tell(check_latencies, tmp_path / scenario, files, scenario=scenario, benchmark=asked)
        assert found == [f"./{SUMMARY}{line}" for line in said]
    assert not tell(check_latencies, tmp_path / "a", files, scenario="Offline", benchmark=asked)
    assert not tell(check_latencies, tmp_path / "b", files, scenario="Server", benchmark=None)
    assert not tell(check_latencies, tmp_path / "c", {}, scenario="Server", benchmark=asked)


@pytest.mark.parametrize(
    ("scores", "score", "samples"),
    [
        ([{"score": 0, "total_samples": 10}], True, ""),
        ([{"score": 1, "total_samples": 4}, {"score": 2, "total_samples": 6}], True, ""),
        ([{"score": 1, "total_samples": 9}], True, "9"),
        ([{"score": 1, "total_samples": 11}], True, "11"),
        ([{"score": None, "total_samples": 10}], False, ""),
        ([{"score": 1, "total_samples": 10}, {"total_samples": 0}], False, ""),
        ([{"score": 1}], True, "nothing"),
        ([], False, "nothing"),
    ],
)
def test_every_dataset_is_scored_in_full(tmp_path: Path, scores: list[object], score: bool, samples: str) -> None:
    files = {ACCURACY: {"x": 1, "accuracy_scores": scores}}
    place = f"./{ACCURACY}:3: "
    unscored = [] if score else [f"{place}no score; wanted a score for every dataset"]
    counted = [f"{place}{samples} samples; wanted exactly 10"] if samples else []
    asked = rules(values={"exact_accuracy_sample_count": 10})
    assert tell(check_accuracy, tmp_path / "a", files, benchmark=asked) == [*unscored, *counted]
    assert tell(check_accuracy, tmp_path / "a", files) == unscored
    assert tell(check_accuracy, tmp_path / "a", files, benchmark=None) == unscored
    assert not tell(check_accuracy, tmp_path / "b", {}, benchmark=asked)


def needing(*names: str, **limits: str) -> Any:
    found = SimpleNamespace(limits={name: SimpleNamespace(value=value) for name, value in limits.items()})
    return rules(tests=dict.fromkeys(names, found))


CACHING, CONSISTENT = "audit/audit_output_caching_test.json", "audit/audit_consistency_output_test.json"


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (None, ": missing; wanted the result of TEST04"),
        ({"test": "output_caching_test", "passed": True}, ""),
        ({"test": "output_caching_test", "passed": 1}, ":3: test output_caching_test, passed 1"),
        ({"test": "output_caching_test", "passed": False}, ":3: test output_caching_test, passed false"),
        ({"test": "x", "passed": True}, ":3: test x, passed true"),
        ({}, ": test nothing, passed nothing"),
    ],
)
def test_a_test_that_the_round_asks_for_is_passed(tmp_path: Path, stated: object, said: str) -> None:
    files = {} if stated is None else {CACHING: stated}
    wanted = "; wanted test output_caching_test, passed true" if said and stated is not None else ""
    found = tell(check_audits, tmp_path, files, benchmark=needing("TEST04"))
    assert found == ([f"./{CACHING}{said}{wanted}"] if said else [])
    assert not tell(check_audits, tmp_path, {}, benchmark=needing("TEST04"), exempt=("compliance_tests",))


def test_a_test_that_may_be_left_out_is_passed_where_it_is_there(tmp_path: Path) -> None:
    assert not tell(check_audits, tmp_path / "a", {}, benchmark=needing("TEST06"))
    (broken,) = tell(check_audits, tmp_path / "b", {CONSISTENT: '{\n"test": '}, benchmark=needing("TEST06"))
    assert broken.startswith(f"./{CONSISTENT}:2: ")
    assert broken.endswith("; wanted a JSON object")


@pytest.mark.parametrize(("mean", "within"), [(9.9, False), (10, True), (20.5, True), (20.6, False), (None, False)])
def test_answers_are_of_the_length_that_the_round_bounds(tmp_path: Path, mean: object, within: bool) -> None:
    files = {SUMMARY: {"x": 1, "output_sequence_lengths": {"avg": mean}}}
    asked = needing("TEST09", least_mean_tokens="10", most_mean_tokens="20.5")
    shown = "nothing" if mean is None else mean
    said = f"./{SUMMARY}:3: a mean of {shown} output tokens; wanted between 10 and 20.5 (TEST09)"
    assert tell(check_audits, tmp_path / "a", files, benchmark=asked) == ([] if within else [said])
    for limits in ({}, {"least_mean_tokens": "10"}, {"most_mean_tokens": "20.5"}):
        assert not tell(check_audits, tmp_path / "a", files, benchmark=needing("TEST09", **limits))
    assert not tell(check_audits, tmp_path / "b", {}, benchmark=asked)


def test_only_some_benchmarks_are_entered_with_the_harness(tmp_path: Path) -> None:
    allowed = load_ruleset("v6.1").endpoints.benchmarks
    said = f"./{CONFIG}: resnet by the endpoints harness; wanted one of {', '.join(allowed)}"
    assert tell(check_benchmark, tmp_path, {}, official="resnet") == [said]
    for official in ("", allowed[0]):
        assert not tell(check_benchmark, tmp_path, {}, official=official)
    none = SimpleNamespace(benchmarks=())
    (unknown,) = tell(check_benchmark, tmp_path, {}, official="resnet", more={"endpoints": none})
    assert unknown.endswith("; wanted one of none in v6.1")


def test_rules_of_the_harness_by_their_ids() -> None:
    assert [(rule.id, check) for rule, check in ENDPOINTS_RULES] == [
        ("endpoints.benchmark", check_benchmark),
        ("endpoints.files", check_files),
        ("endpoints.scenario", check_scenario),
        ("endpoints.seeds", check_seeds),
        ("endpoints.duration", check_duration),
        ("endpoints.failures", check_failures),
        ("endpoints.metric", check_metric),
        ("endpoints.latencies", check_latencies),
        ("endpoints.accuracy", check_accuracy),
        ("endpoints.extra", check_extra_files),
        ("endpoints.audits", check_audits),
    ]
