"""The whole point that files of the client state: of files that say all that they can, and that say the least."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from reconciler.endpoints.rules.point import AccuracyScore, Distribution, MeasuredPoint, SteadyWindow, Warmup
from reconciler.endpoints.rules.results import UnreadablePointError, parse_point

FULL_CONFIG: dict[str, Any] = {
    "model_params": {"name": "tiny", "seed": 3, "streaming": "auto"},
    "datasets": [7, {"name": "bars", "type": "accuracy"}, {"name": "first"}, {"name": "second", "type": "performance"}],
    "settings": {
        "runtime": {
            "min_duration_ms": 1000,
            "n_samples_to_issue": 192,
            "scheduler_random_seed": 1,
            "dataloader_random_seed": 2,
        },
        "load_pattern": {"type": "concurrency", "target_concurrency": 5},
        "client": {"stream_all_chunks": True},
        "warmup": {"enabled": True, "salt": True, "n_requests": 9},
    },
}
FULL_SUMMARY: dict[str, Any] = {
    "version": "0.1.0",
    "git_sha": "abc",
    "n_samples_issued": 10,
    "n_samples_completed": 8,
    "n_samples_failed": 2,
    "duration_ns": 77,
    "output_sequence_lengths": {"total": 6568},
    "output_sequence_lengths_full_run": {"output_sequence_lengths": {"avg": 34.5}},
    "ttft": {"total": 11, "avg": 1, "min": 2, "max": 3, "median": 4, "percentiles": {"0": 5, "90.0": 6, "100": 7}},
    "tpot": {"total": 12, "percentiles": {"90": 8}},
    "latency": {"total": 13},
    "state": "complete",
    "complete": True,
    "steady_state": {
        "found": True,
        "window": {"sp_lo": 2, "sp_hi": 9, "n_samples": 960, "n_super_passes": 5},
        "short_window": {"window_duration_s": 1201.5},
        "global_trend": {"tpot": "steady", "ttft": "up", "latency": "down", "qps": "odd"},
        "anomaly": {"detected": True, "change_point_sp": 7, "delta_pct": 12.53},
        "superpass_size": 192,
        "n_super_passes": 12,
        "n_post_warmup": 9,
    },
}
FULL_ACCURACY = {"accuracy_scores": [{"dataset_name": "bars", "score": 0.5, "num_samples": 4, "n_repeats": 2}]}
LEAST_CONFIG = {"settings": {"load_pattern": {"type": "poisson", "target_concurrency": 1}}}
LEAST_SUMMARY = {"n_samples_completed": 0, "duration_ns": 1}
NOTHING = Distribution()
FULL = MeasuredPoint(
    concurrency=5,
    load_pattern="concurrency",
    model="tiny",
    dataset="first",
    issued=10,
    completed=8,
    failed=2,
    duration_ns=77,
    output_tokens=6568,
    ttft=Distribution(
        Decimal(11),
        Decimal(1),
        {Decimal(0): Decimal(5), Decimal(90): Decimal(6), Decimal(100): Decimal(7)},
        least=Decimal(2),
        most=Decimal(3),
        median=Decimal(4),
    ),
    tpot=Distribution(Decimal(12), None, {Decimal(90): Decimal(8)}),
    latency=Distribution(Decimal(13)),
    finished=True,
    streaming=True,
    stream_all_chunks=True,
    min_duration_ms=1000,
    seeds={"scheduler_rng_seed": 1, "sample_index_rng_seed": 2, "model_seed": 3},
    samples_asked=192,
    warmup=Warmup(requests=9, salt=True, concurrency=5),
    window=SteadyWindow(
        found=True,
        first=2,
        last=6,
        super_pass_size=192,
        samples=960,
        seconds=Decimal("1201.5"),
        states={"tpot": "Plateau", "ttft": "Drifting Up", "latency": "Drifting Down", "qps": "odd"},
        anomaly="level shift by 12.5 % at super-pass 7",
        skipped=3,
    ),
    accuracy=(AccuracyScore("bars", inline=False, scores={"score": Decimal("0.5")}, samples=4, issued=8),),
    turn_tokens=Decimal("34.5"),
    client="0.1.0 abc",
)
LEAST = MeasuredPoint(
    concurrency=1,
    load_pattern="poisson",
    model="",
    dataset="",
    issued=0,
    completed=0,
    failed=0,
    duration_ns=1,
    output_tokens=0,
    ttft=NOTHING,
    tpot=NOTHING,
    latency=NOTHING,
    finished=True,
    streaming=True,
    stream_all_chunks=False,
    min_duration_ms=0,
)


def merged(base: object, changes: object) -> Any:
    """With the changes at any depth; None takes a name away."""
    if not isinstance(base, dict) or not isinstance(changes, dict):
        return changes
    made = {**base, **{name: merged(base.get(name), change) for name, change in changes.items()}}
    return {name: value for name, value in made.items() if value is not None}


def parse(config: object, summary: object, accuracy: object = None, dataset_size: int = 0) -> MeasuredPoint:
    files = {"config.yaml": config, "result_summary.json": summary, "accuracy_results.json": accuracy}
    written = {name: json.dumps(content).encode() for name, content in files.items() if content is not None}
    return parse_point(written, dataset_size)  # JSON is YAML


def test_all_that_a_run_states_is_read() -> None:
    assert parse(FULL_CONFIG, FULL_SUMMARY, FULL_ACCURACY) == FULL


def test_what_a_run_does_not_state_has_the_values_of_one_that_did_nothing_of_it() -> None:
    assert parse(LEAST_CONFIG, LEAST_SUMMARY) == LEAST


ASKED, FOUND, SCORED = "ran-as-asked", "result-file-valid", "accuracy-valid"


def score(name: object, **more: object) -> dict[str, object]:
    return {"dataset_name": name, "score": 1, **more}


@pytest.mark.parametrize(
    ("file", "changes", "rule", "named"),
    [
        ("config", {"settings": {"load_pattern": {"type": ""}}}, ASKED, "load_pattern.type"),
        ("config", {"settings": {"load_pattern": {"target_concurrency": 0}}}, ASKED, "load_pattern.target_concurrency"),
        ("config", {"settings": {"load_pattern": {"target_concurrency": None}}}, ASKED, ".target_concurrency"),
        ("config", {"settings": {"runtime": {"min_duration_ms": -1}}}, ASKED, "runtime.min_duration_ms"),
        ("config", {"settings": {"runtime": {"n_samples_to_issue": 1.5}}}, ASKED, "runtime.n_samples_to_issue"),
        ("summary", {"duration_ns": 0}, FOUND, "duration_ns"),
        ("summary", {"n_samples_issued": -1}, FOUND, "n_samples_issued"),
        ("summary", {"n_samples_completed": None}, FOUND, "n_samples_completed"),
        ("summary", {"n_samples_failed": "9" * 41}, FOUND, "n_samples_failed"),
        ("summary", {"n_samples_failed": True}, FOUND, "n_samples_failed"),
        ("summary", {"ttft": [1]}, FOUND, "ttft"),
        ("summary", {"ttft": {"percentiles": {"90.0": None}}}, FOUND, "ttft.percentiles: '90.0'"),
        ("summary", {"tpot": "fast"}, FOUND, "tpot"),
        ("summary", {"latency": {"percentiles": {"101": 1}}}, FOUND, "latency.percentiles: '101'"),
        ("summary", {"latency": {"percentiles": {"-1": 1}}}, FOUND, "latency.percentiles: '-1'"),
        ("summary", {"tpot": {"percentiles": {"a" * 21: 1}}}, FOUND, f"tpot.percentiles: '{'a' * 20}'"),
        ("summary", {"ttft": {"percentiles": {"90": 1, "90.0": 2}}}, FOUND, "ttft.percentiles"),
        ("accuracy", [], SCORED, ""),
        ("accuracy", {}, SCORED, ""),
        ("accuracy", {"accuracy_scores": 7}, SCORED, "accuracy_scores"),
        ("accuracy", {"accuracy_scores": [7, score("q")]}, SCORED, "dataset_name"),
        ("accuracy", {"accuracy_scores": [score(" "), score("q")]}, SCORED, "dataset_name"),
        ("accuracy", {"accuracy_scores": [{"dataset_name": "p"}, score("q")]}, SCORED, "p "),
        ("accuracy", {"accuracy_scores": [score("q")] * 2}, SCORED, "q"),
        ("accuracy", {name: score(None, dataset_type="performance") for name in "ab"}, SCORED, "a, b"),
    ],
)
def test_a_mistake_in_a_file_is_the_only_problem(file: str, changes: object, rule: str, named: str) -> None:
    files: dict[str, Any] = {"config": LEAST_CONFIG, "summary": LEAST_SUMMARY, "accuracy": {"q": {"score": 1}}}
    files[file] = changes if file == "accuracy" else merged(files[file], changes)
    with pytest.raises(UnreadablePointError) as caught:
        parse(**files)
    names = {"config": "config.yaml", "summary": "result_summary.json", "accuracy": "accuracy_results.json"}
    (problem,) = caught.value.problems
    assert problem.rule == rule
    assert str(problem).startswith(f"{names[file]}: ")
    assert named in str(problem)
