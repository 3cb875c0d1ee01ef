"""Each rule of a result of the endpoints harness: what it finds, what it wants, and at which line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.check.cell_formats import LoadGenCells
from reconciler.check.demands import Complaints
from reconciler.endpoints import cells
from reconciler.endpoints.cells import (
    check_accuracy,
    check_audits,
    check_benchmark,
    check_latencies,
    check_metric,
    check_scenario,
)
from reconciler.resource.ruled_values import Metric
from reconciler.rules.rounds import load_ruleset
from tests.unit.tree.small_cells import rules, say, small_cell

CONFIG, SUMMARY, ACCURACY = "config.yaml", "performance/result_summary.json", "accuracy/accuracy_results.json"


def find(check: Callable[[Any], Complaints], root: Path, files: Mapping[str, object], **options: Any) -> list[str]:
    """Documents with one name a line, from the second on."""
    texts = {path: text if isinstance(text, str) else json.dumps(text, indent=1) for path, text in files.items()}
    scenario = options.setdefault("scenario", "Offline")
    options.setdefault("benchmark", rules())
    place = f"closed/Acme/results/sys1/resnet/{scenario}"
    return [line.replace(place, ".") for line in say(check(small_cell(root, texts, **options)))]


@pytest.mark.parametrize(
    ("scenario", "kind", "said"),
    [
        ("Offline", "offline", ""),
        ("Server", "online", ""),
        ("Interactive", "online", ""),
        ("Server", "offline", ":2"),
        ("Offline", None, None),
    ],
)
def test_the_scenario_that_ran_is_the_folders(
    tmp_path: Path, scenario: str, kind: str | None, said: str | None
) -> None:
    config = {CONFIG: f"x: 1\ntype: {kind}\n" if kind else "x: 1\n"}
    assert find(check_scenario, tmp_path / "a", config, scenario=scenario) == (
        [f"./{CONFIG}{said or ''}"] if said != "" else []
    )
    assert not find(check_scenario, tmp_path / "b", {}, scenario=scenario)


def test_what_is_published_is_stated(tmp_path: Path) -> None:
    metric = Metric("result_samples_per_second", "samples/s")
    asked = rules(name="resnet", values={"metric_key": "x"}, find_metric=lambda _: metric)
    said = f"./{SUMMARY}"
    assert find(check_metric, tmp_path / "a", {SUMMARY: {"x": 1}}, benchmark=asked) == [said]
    stated = {SUMMARY: {"n_samples_issued": 5, "duration_ns": 10}}
    assert not find(check_metric, tmp_path / "b", stated, benchmark=asked)
    assert not find(check_metric, tmp_path / "c", {}, benchmark=asked)
    assert not find(check_metric, tmp_path / "a", {}, benchmark=None)
    assert not find(check_metric, tmp_path / "a", {}, benchmark=rules(find_metric=lambda _: metric))


MILLISECOND = 1_000_000
LIMITS = {"most_ttft_latency": 2000 * MILLISECOND, "most_tpot_latency": 100 * MILLISECOND}


def p99(**latencies: object) -> dict[str, object]:
    return {SUMMARY: {name: {"early_stopping_percentiles": {"99": value}} for name, value in latencies.items()}}


@pytest.mark.parametrize(
    ("latencies", "limits", "said"),
    [
        ({"ttft": 2000 * MILLISECOND - 1, "tpot": 100 * MILLISECOND - 1}, LIMITS, []),
        ({"ttft": 2000 * MILLISECOND, "tpot": 123_456_789}, LIMITS, [":2", ":7"]),
        ({"ttft": 1}, LIMITS, [""]),
        ({}, {}, []),
        ({"latency": 7 * MILLISECOND}, {"most_target_latency": 6 * MILLISECOND}, [":2"]),
    ],
)
def test_latencies_are_below_the_limits_of_their_scenario(
    tmp_path: Path, latencies: Mapping[str, object], limits: Mapping[str, int], said: list[str]
) -> None:
    asked, files = rules(values=limits), p99(**latencies)
    for scenario in ("Server", "Interactive"):
        found = find(check_latencies, tmp_path / scenario, files, scenario=scenario, benchmark=asked)
        assert found == [f"./{SUMMARY}{line}" for line in said]
    assert not find(check_latencies, tmp_path / "a", files, scenario="Offline", benchmark=asked)
    assert not find(check_latencies, tmp_path / "b", files, scenario="Server", benchmark=None)
    assert not find(check_latencies, tmp_path / "c", {}, scenario="Server", benchmark=asked)


@pytest.mark.parametrize(
    ("scores", "score", "samples"),
    [
        ([{"score": 0, "total_samples": 10}], True, False),
        ([{"score": 1, "total_samples": 4}, {"score": 2, "total_samples": 6}], True, False),
        ([{"score": 1, "total_samples": 9}], True, True),
        ([{"score": 1, "total_samples": 11}], True, True),
        ([{"score": None, "total_samples": 10}], False, False),
        ([{"score": 1, "total_samples": 10}, {"total_samples": 0}], False, False),
        ([{"score": 1}], True, True),
        ([], False, True),
    ],
)
def test_every_dataset_is_scored_in_full(tmp_path: Path, scores: list[object], score: bool, samples: bool) -> None:
    files = {ACCURACY: {"x": 1, "accuracy_scores": scores}}
    place = f"./{ACCURACY}:3"
    unscored, counted = [place] * (not score), [place] * samples
    asked = rules(values={"exact_accuracy_sample_count": 10})
    assert find(check_accuracy, tmp_path / "a", files, benchmark=asked) == [*unscored, *counted]
    assert find(check_accuracy, tmp_path / "a", files) == unscored
    assert find(check_accuracy, tmp_path / "a", files, benchmark=None) == unscored
    assert not find(check_accuracy, tmp_path / "b", {}, benchmark=asked)


def needing(*names: str, **limits: str) -> Any:
    found = SimpleNamespace(limits={name: SimpleNamespace(value=value) for name, value in limits.items()})
    return rules(tests=dict.fromkeys(names, found))


CACHING, CONSISTENT = "audit/audit_output_caching_test.json", "audit/audit_consistency_output_test.json"


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (None, ""),
        ({"test": "output_caching_test", "passed": True}, None),
        ({"test": "output_caching_test", "passed": 1}, ":3"),
        ({"test": "output_caching_test", "passed": False}, ":3"),
        ({"test": "x", "passed": True}, ":3"),
        ({}, ""),
    ],
)
def test_a_test_that_the_round_asks_for_is_passed(tmp_path: Path, stated: object, said: str | None) -> None:
    files = {} if stated is None else {CACHING: stated}
    found = find(check_audits, tmp_path, files, benchmark=needing("TEST04"))
    assert found == ([] if said is None else [f"./{CACHING}{said}"])
    assert not find(check_audits, tmp_path, {}, benchmark=needing("TEST04"), exempt=("compliance_tests",))


def test_a_test_that_may_be_left_out_is_passed_where_it_is_there(tmp_path: Path) -> None:
    assert not find(check_audits, tmp_path / "a", {}, benchmark=needing("TEST06"))
    (broken,) = find(check_audits, tmp_path / "b", {CONSISTENT: '{\n"test": '}, benchmark=needing("TEST06"))
    assert broken == f"./{CONSISTENT}:2"


@pytest.mark.parametrize(("mean", "within"), [(9.9, False), (10, True), (20.5, True), (20.6, False), (None, False)])
def test_answers_are_of_the_length_that_the_round_bounds(tmp_path: Path, mean: object, within: bool) -> None:
    files = {SUMMARY: {"x": 1, "output_sequence_lengths": {"avg": mean}}}
    asked = needing("TEST09", least_mean_tokens="10", most_mean_tokens="20.5")
    said = f"./{SUMMARY}:3"
    assert find(check_audits, tmp_path / "a", files, benchmark=asked) == ([] if within else [said])
    for limits in ({}, {"least_mean_tokens": "10"}, {"most_mean_tokens": "20.5"}):
        assert not find(check_audits, tmp_path / "a", files, benchmark=needing("TEST09", **limits))
    assert not find(check_audits, tmp_path / "b", {}, benchmark=asked)


def test_only_some_benchmarks_are_entered_with_the_harness(tmp_path: Path) -> None:
    allowed = load_ruleset("v6.1").endpoints.benchmarks
    said = f"./{CONFIG}"
    assert find(check_benchmark, tmp_path, {}, official="resnet") == [said]
    for official in ("", allowed[0]):
        assert not find(check_benchmark, tmp_path, {}, official=official)
    none = SimpleNamespace(benchmarks=())
    assert len(find(check_benchmark, tmp_path, {}, official="resnet", more={"endpoints": none})) == 1


def test_every_rule_is_described_and_has_an_id_of_its_own() -> None:
    tables = (*LoadGenCells.CHECK_TABLES, *cells.CHECK_TABLES)
    rules = {rule for table in tables for rule, _ in table}
    assert all("." in rule.id and rule.title and rule.sources for rule in rules)
    assert len({rule.id for rule in rules}) == len(rules)


def test_results_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    names = ("config.yaml", "performance/result_summary.json", "accuracy/accuracy_results.json", "measurements.json")
    found = say(cells.check_readable_results(small_cell(tmp_path, dict.fromkeys(names, "["))))
    assert [line.partition(": ")[0].partition(":")[0] for line in found] == [f"./{name}" for name in names]
