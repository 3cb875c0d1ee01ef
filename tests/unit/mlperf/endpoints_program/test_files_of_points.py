"""The whole point that files of the client state: of files that say all that they can, and that say the least."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from reconciler.rules.endpoints_program.point import AccuracyScore, Distribution, MeasuredPoint, SteadyWindow, Warmup
from reconciler.rules.endpoints_program.results import UnreadablePointError, parse_point, parse_scores, read_point

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
    "endpoint_config": {"endpoints": ["http://one", "http://two"]},
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
    warmup=Warmup(requests=9, whole_pass=False, salt=True, concurrency=5),
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
    endpoints=("http://one", "http://two"),
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


def parse(config: object, summary: object, accuracy: object = None, **options: int) -> MeasuredPoint:
    files = {"config.yaml": config, "result_summary.json": summary, "accuracy_results.json": accuracy}
    written = {name: json.dumps(content).encode() for name, content in files.items() if content is not None}
    return parse_point(written, **options)  # JSON is YAML


def test_all_that_a_run_states_is_read() -> None:
    assert parse(FULL_CONFIG, FULL_SUMMARY, FULL_ACCURACY) == FULL


def test_what_a_run_does_not_state_has_the_values_of_one_that_did_nothing_of_it() -> None:
    assert parse(LEAST_CONFIG, LEAST_SUMMARY) == LEAST


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model_params": {"streaming": True}}, {"streaming": True}),
        ({"model_params": {"streaming": "on"}}, {"streaming": True}),
        ({"model_params": {"streaming": "off"}}, {"streaming": False}),
        ({"model_params": {"streaming": False}}, {"streaming": False}),
        ({"settings": {"client": {"stream_all_chunks": "yes"}}}, {"stream_all_chunks": False}),
        ({"settings": {"warmup": {"enabled": False, "n_requests": 3}}}, {"warmup": None}),
        ({"settings": {"warmup": {"enabled": "yes"}}}, {"warmup": None}),
        ({"settings": {"warmup": {"enabled": True}}}, {"warmup": Warmup(0, True, False, 1)}),
        ({"settings": {"warmup": {"enabled": True, "n_requests": 0}}}, {"warmup": Warmup(0, False, False, 1)}),
        ({"settings": {"warmup": {"enabled": True, "salt": "yes"}}}, {"warmup": Warmup(0, True, False, 1)}),
        ({"endpoint_config": {"endpoints": "http://one"}}, {"endpoints": ()}),
        ({"datasets": {"name": "first"}}, {"dataset": ""}),
        ({"datasets": [{"type": "performance"}]}, {"dataset": ""}),
        ({"settings": {"runtime": {"scheduler_random_seed": "many"}}}, {"seeds": {}}),
        ({"settings": {"runtime": {"min_duration_ms": 0, "n_samples_to_issue": 1}}}, {"samples_asked": 1}),
    ],
    ids=str,
)
def test_each_setting_of_the_client_is_read(changes: object, expected: dict[str, object]) -> None:
    found = parse(merged(LEAST_CONFIG, changes), LEAST_SUMMARY)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("stated", "streams"), [(None, False), ("auto", False), ("off", False), ("on", True), (True, True)]
)
def test_a_dedicated_offline_run_streams_where_it_is_told_to_alone(stated: object, streams: bool) -> None:
    config = {"settings": {"load_pattern": {"type": "max_throughput"}}, "model_params": {"streaming": stated}}
    found = parse(config, LEAST_SUMMARY, dataset_size=24)
    assert (found.is_offline, found.concurrency, found.streaming) == (True, 24, streams)
    assert parse(config, LEAST_SUMMARY).concurrency == 0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"version": "0.2"}, {"client": "0.2"}),
        ({"git_sha": "abc"}, {"client": "abc"}),
        ({"ttft": {}}, {"ttft": NOTHING}),
        ({"ttft": {"percentiles": [90]}}, {"ttft": NOTHING}),
        ({"ttft": {"total": "much"}}, {"ttft": NOTHING}),
        ({"output_sequence_lengths_full_run": {"output_sequence_lengths": {"avg": "x"}}}, {"turn_tokens": None}),
        ({"steady_state": [True]}, {"window": None}),
        ({"steady_state": {"found": False}}, {"window": SteadyWindow(found=False)}),
        (
            {"steady_state": {"window": {"sp_lo": 3, "sp_hi": 8}, "warmup": 4, "n_super_passes": 12}},
            {"window": SteadyWindow(found=False, first=3, last=7, skipped=4)},
        ),
        (
            {"steady_state": {"window": 3, "short_window": 4, "global_trend": 5, "anomaly": 6}},
            {"window": SteadyWindow(found=False)},
        ),
        (
            {"steady_state": {"anomaly": {"detected": False, "change_point_sp": 7}}},
            {"window": SteadyWindow(found=False)},
        ),
        (
            {"steady_state": {"anomaly": {"detected": True, "change_point_sp": "odd"}}},
            {"window": SteadyWindow(found=False, anomaly="level shift at super-pass 0")},
        ),
    ],
    ids=str,
)
def test_each_part_of_a_summary_is_read(changes: object, expected: dict[str, object]) -> None:
    found = parse(LEAST_CONFIG, merged(LEAST_SUMMARY, changes))
    assert {name: getattr(found, name) for name in expected} == expected


ASKED, FOUND, SCORED = "ran-as-asked", "result-file-valid", "accuracy-valid"
WHOLE = "a whole number of at least"


@pytest.mark.parametrize(
    ("file", "changes", "rule", "text"),
    [
        ("config", {"settings": {"load_pattern": {"type": ""}}}, ASKED, "settings.load_pattern.type is missing"),
        (
            "config",
            {"settings": {"load_pattern": {"target_concurrency": 0}}},
            ASKED,
            f"settings.load_pattern.target_concurrency is '0', {WHOLE} 1 is needed",
        ),
        (
            "config",
            {"settings": {"load_pattern": {"target_concurrency": None}}},
            ASKED,
            f"settings.load_pattern.target_concurrency is missing, {WHOLE} 1 is needed",
        ),
        (
            "config",
            {"settings": {"runtime": {"min_duration_ms": -1}}},
            ASKED,
            f"settings.runtime.min_duration_ms is '-1', {WHOLE} 0 is needed",
        ),
        (
            "config",
            {"settings": {"runtime": {"n_samples_to_issue": 1.5}}},
            ASKED,
            f"settings.runtime.n_samples_to_issue is '1.5', {WHOLE} 0 is needed",
        ),
        ("summary", {"duration_ns": 0}, FOUND, f"duration_ns is '0', {WHOLE} 1 is needed"),
        ("summary", {"n_samples_issued": -1}, FOUND, f"n_samples_issued is '-1', {WHOLE} 0 is needed"),
        ("summary", {"n_samples_completed": None}, FOUND, f"n_samples_completed is missing, {WHOLE} 0 is needed"),
        (
            "summary",
            {"n_samples_failed": "9" * 41},
            FOUND,
            f"n_samples_failed is '{'9' * 40}', {WHOLE} 0 is needed",
        ),
        ("summary", {"ttft": [1]}, FOUND, "ttft is list, not an object"),
        ("summary", {"tpot": "fast"}, FOUND, "tpot is str, not an object"),
        (
            "summary",
            {"latency": {"percentiles": {"101": 1}}},
            FOUND,
            "latency.percentiles: '101' is not a percentile of a number",
        ),
        (
            "summary",
            {"latency": {"percentiles": {"-1": 1}}},
            FOUND,
            "latency.percentiles: '-1' is not a percentile of a number",
        ),
        (
            "summary",
            {"tpot": {"percentiles": {"a" * 21: 1}}},
            FOUND,
            f"tpot.percentiles: '{'a' * 20}' is not a percentile of a number",
        ),
        (
            "summary",
            {"ttft": {"percentiles": {"90": 1, "90.0": 2}}},
            FOUND,
            "ttft.percentiles: two values for 90",
        ),
        ("accuracy", [], SCORED, "it holds a list, not an object"),
        ("accuracy", {}, SCORED, "it has no score"),
        ("accuracy", {"accuracy_scores": 7}, SCORED, "accuracy_scores is neither a list nor an object"),
        (
            "accuracy",
            {"accuracy_scores": [7, {"dataset_name": "q", "score": 1}]},
            SCORED,
            "an entry has no dataset_name",
        ),
        (
            "accuracy",
            {"accuracy_scores": [{"dataset_name": " ", "score": 1}, {"dataset_name": "q", "score": 1}]},
            SCORED,
            "an entry has no dataset_name",
        ),
        (
            "accuracy",
            {"accuracy_scores": [{"dataset_name": "p"}, {"dataset_name": "q", "score": 1}]},
            SCORED,
            "p has no score",
        ),
        (
            "accuracy",
            {"accuracy_scores": [{"dataset_name": "q", "score": 1}] * 2},
            SCORED,
            "two entries are of q",
        ),
        (
            "accuracy",
            {name: {"score": 1, "dataset_type": "performance"} for name in "ab"},
            SCORED,
            "several entries are of the performance run: a, b",
        ),
    ],
    ids=lambda value: "-".join(value.split()[:4]) if isinstance(value, str) else "",
)
def test_what_is_wrong_with_a_file_is_told_alone(file: str, changes: object, rule: str, text: str) -> None:
    files: dict[str, Any] = {"config": LEAST_CONFIG, "summary": LEAST_SUMMARY, "accuracy": {"q": {"score": 1}}}
    files[file] = changes if file == "accuracy" else merged(files[file], changes)
    with pytest.raises(UnreadablePointError) as caught:
        parse(**files)
    names = {"config": "config.yaml", "summary": "result_summary.json", "accuracy": "accuracy_results.json"}
    assert [(told.rule, str(told)) for told in caught.value.problems] == [(rule, f"{names[file]}: {text}")]


@pytest.mark.parametrize(
    ("entries", "inline"),
    [
        ({"performance": {"score": 1}}, [True]),
        ({"performance": {"score": 1}, "q": {"score": 1}}, [True, False]),
        ({"performance": {"score": 1, "dataset_type": "accuracy"}}, [False]),
        ({"performance": {"score": 1}, "q": {"score": 1, "dataset_type": "performance"}}, [False, True]),
        ({"q": {"score": 1}}, [False]),
    ],
    ids=str,
)
def test_the_score_of_the_performance_run_is_known_by_its_type_or_without_one_by_its_name(
    entries: object, inline: list[bool]
) -> None:
    assert [score.inline for score in parse_scores(json.dumps(entries).encode())] == inline


@pytest.mark.parametrize(
    ("entry", "scores"),
    [
        ({"score": 0.25}, {"score": "0.25"}),
        ({"score": "0.25"}, {"score": "0.25"}),
        ({"score": {"rouge1": "38.7", "rouge2": 16, "note": "good"}}, {"rouge1": "38.7", "rouge2": "16"}),
        ({"rouge1": 38.7, "num_samples": 3, "complete": True}, {"rouge1": "38.7"}),
        ({"note": "good"}, {}),
    ],
    ids=str,
)
def test_a_score_is_one_number_or_several_by_name(entry: object, scores: dict[str, str]) -> None:
    (found,) = parse_scores(json.dumps({"q": entry}).encode())
    assert found.scores == {name: Decimal(value) for name, value in scores.items()}


def test_what_stands_beside_a_metric_is_none() -> None:
    about = ["dataset_name", "num_samples", "status", "extractor", "ground_truth_column", "n_repeats", "complete"]
    about += ["unit_samples", "total_samples", "num_repeats", "duration_s", "dataset_type", "response_counts"]
    about += ["osl_tokenize_s", "output_sequence_lengths", "breakdown"]
    (found,) = parse_scores(json.dumps({"q": {**dict.fromkeys(about, 5), "metric": 7}}).encode())
    assert found.scores == {"metric": Decimal(7)}


@pytest.mark.parametrize(
    ("there", "problem"),
    [
        ("result_summary.json", ("config-file-present", "config.yaml: it is not there")),
        ("config.yaml", ("result-summary-present", "result_summary.json: it is not there")),
    ],
)
def test_a_file_that_is_not_there_is_told_by_its_rule(there: str, problem: tuple[str, str]) -> None:
    content = {"config.yaml": LEAST_CONFIG, "result_summary.json": LEAST_SUMMARY}[there]
    with pytest.raises(UnreadablePointError) as caught:
        parse_point({there: json.dumps(content).encode()})
    assert [(told.rule, str(told)) for told in caught.value.problems] == [problem]


def test_the_words_of_a_reader_are_told_up_to_a_length() -> None:
    twice = b"x" * 400 + b": 1\n"
    files = {"config.yaml": twice + twice, "result_summary.json": json.dumps(LEAST_SUMMARY).encode()}
    with pytest.raises(UnreadablePointError) as caught:
        parse_point(files)
    (told,) = caught.value.problems
    assert (told.rule, len(told.text), " ".join(told.text.split())) == ("config-file-present", 200, told.text)


def test_scores_that_are_none_are_refused_by_themselves() -> None:
    with pytest.raises(UnreadablePointError) as caught:
        parse_scores(b"{")
    assert [problem.rule for problem in caught.value.problems] == [SCORED]
    assert parse_scores(b'{"a": 1, "q": {"score": 1}}')[0].dataset == "q"


def test_a_file_of_a_submission_is_read_before_one_of_the_clients_own_folder(tmp_path: Path) -> None:
    written = {
        "config.yaml": LEAST_CONFIG,
        "performance/result_summary.json": LEAST_SUMMARY,
        "result_summary.json": {},
        "accuracy/accuracy_results.json": {"inner": {"score": 1}},
        "accuracy_results.json": {"outer": {"score": 1}},
    }
    for name, content in written.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    assert [score.dataset for score in read_point(tmp_path).accuracy] == ["inner"]
    (tmp_path / "accuracy/accuracy_results.json").unlink()
    assert [score.dataset for score in read_point(tmp_path).accuracy] == ["outer"]
    (tmp_path / "config.yaml").write_text(json.dumps({"settings": {"load_pattern": {"type": "max_throughput"}}}))
    assert (read_point(tmp_path).concurrency, read_point(tmp_path, 24).concurrency) == (0, 24)


def test_a_file_that_cannot_be_read_is_told_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").mkdir()
    with pytest.raises(UnreadablePointError) as caught:
        read_point(tmp_path)
    (told,) = caught.value.problems
    assert (told.rule, told.file) == (FOUND, "config.yaml")
    assert told.text == "Is a directory"
