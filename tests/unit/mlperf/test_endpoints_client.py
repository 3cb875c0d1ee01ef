"""The official client's configuration of a point: what is asked stands in it, and what was run is held against it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from ruamel.yaml import YAML

from reconciler.resource.ruled_values import AccuracyLogRule, Bar, Metric
from reconciler.rules.context import RuleContext
from reconciler.rules.endpoints_client import (
    ClientPlaces,
    build_client_config,
    find_config_differences,
    find_place_differences,
    list_client_settings,
)
from reconciler.rules.results import points
from reconciler.rules.results.format import RunFiles, Verdict
from reconciler.storage.documents import ResultDocument, parse_json_object, parse_yaml_mapping
from tests.unit.mlperf.endpoints_program.logs import make_even_events, write_lines

PLACES = ClientPlaces("http://127.0.0.1:9", "report", "prompts.jsonl", accuracy="questions.jsonl", tokenizer="model")
ASKED: dict[str, Any] = {
    "mode": "performance",
    "scenario": "c8",
    "point.concurrency": 8,
    "point.least_duration": 600_000,
    "harness.model_name": "oss",
    "min_duration": 750_000,
    "target_qps": "4.5",
    "performance_sample_count": 10,
    "schedule_rng_seed": 10487924139932647040,
    "sample_index_rng_seed": 586478644936801402,
    "client.parameters.temperature": "0.5",
    "client.parameters.max_new_tokens": 64,
    "client.columns.prompt": "text",
    "client.accuracy.method": "string_match",
    "client.accuracy.ground_truth": "answer",
    "accuracy_sample_count": 25,
}
SUMMARY: dict[str, Any] = {
    "version": "0.1.0",
    "git_sha": "abc",
    "n_samples_issued": 300,
    "n_samples_completed": 300,
    "n_samples_failed": 0,
    "duration_ns": 700 * 10**9,
    "state": "complete",
    "complete": True,
    "ttft": {"percentiles": {"90.0": 10**8}},
    "tpot": {"percentiles": {"90.0": 2 * 10**7}},
    "latency": {},
    "output_sequence_lengths": {"total": 70_000},
    "qps": 300 / 700,
    "tps": 100.0,
}
SCORES = {
    "accuracy_scores": [{"dataset_name": "accuracy", "score": 0.75, "total_samples": 25, "dataset_type": "accuracy"}]
}
_FEW = {"n_samples_issued": 5, "n_samples_completed": 5, "output_sequence_lengths": {"total": 700}}
RULES = RuleContext(metric=Metric("system_tps", "tokens/s"), accuracy_log=AccuracyLogRule(0, 0, 0))


def change(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    name, _, rest = path.partition(".")
    return {**document, name: change(document[name], rest, value) if rest else value}


def leave(folder: Path, config: dict[str, Any], **files: Any) -> Path:
    """Beside a summary the events of such a run."""
    (folder / "config.yaml").write_text(json.dumps(config))
    if summary := files.get("result_summary"):
        events, totals = make_even_events(summary["n_samples_issued"], summary["duration_ns"], users=8)
        (folder / "outputs").mkdir()
        (folder / "outputs/events.jsonl").write_bytes(b"".join(write_lines(events)))
        files["result_summary"] = {**summary, **{name: {**summary[name], "total": n} for name, n in totals.items()}}
    for name, document in files.items():
        (folder / f"{name}.json").write_text(json.dumps(document))
    return folder


def judge(folder: Path, asked: dict[str, Any] = ASKED, seconds: float = 800.0, *, rehearsal: bool = False) -> Verdict:
    run = RunFiles(folder, asked, RULES, seconds, {}, folder / "conf", folder, by_command=True, rehearsal=rehearsal)
    return points.judge_run(run)


def test_a_performance_run_is_told_of_its_load_its_seeds_and_its_dataset_alone() -> None:
    config = build_client_config(ASKED, PLACES)
    assert config["settings"]["load_pattern"] == {"type": "concurrency", "target_concurrency": 8, "target_qps": 4.5}
    assert config["settings"]["runtime"] == {
        "scheduler_random_seed": 10487924139932647040,
        "dataloader_random_seed": 586478644936801402,
        "min_duration_ms": 750_000,
    }
    assert config["settings"]["client"] == {"stream_all_chunks": True, "worker_initialization_timeout": 300}
    assert config["settings"]["warmup"] == {"enabled": False}
    assert [dataset["type"] for dataset in config["datasets"]] == ["performance"]
    assert config["datasets"][0]["parser"] == {"prompt": "text"}
    assert config["model_params"] == {
        "name": "oss",
        "streaming": "on",
        "max_new_tokens": 64,
        "temperature": 0.5,
        "tokenizer_name": "model",
    }


def test_an_accuracy_run_has_the_point_s_concurrency_and_is_bounded_by_its_dataset() -> None:
    config = build_client_config({**ASKED, "mode": "accuracy"}, PLACES)
    assert config["settings"]["load_pattern"]["target_concurrency"] == 8
    assert config["settings"]["runtime"]["min_duration_ms"] == 0
    assert config["settings"]["runtime"]["n_samples_to_issue"] == 1
    scored = config["datasets"][-1]
    assert (scored["type"], scored["path"]) == ("accuracy", "questions.jsonl")
    assert scored["accuracy_config"] == {"eval_method": "string_match", "ground_truth": "answer", "num_repeats": 1}


def test_a_declared_warm_up_is_salted_drained_and_seeded() -> None:
    warmup = build_client_config({**ASKED, "client.warmup": 16}, PLACES)["settings"]["warmup"]
    assert warmup == {
        "enabled": True,
        "n_requests": 16,
        "salt": True,
        "drain": True,
        "warmup_random_seed": ASKED["sample_index_rng_seed"],
    }


def test_a_client_looks_for_the_steady_state_only_where_it_is_told_to() -> None:
    """Those that cannot refuse a configuration with these words."""
    assert "steady_state" not in build_client_config(ASKED, PLACES)["settings"]
    told = {**ASKED, "client.steady_state": True}
    assert build_client_config(told, PLACES)["settings"]["steady_state"] == {"enabled": True}
    assert "steady_state" not in build_client_config({**told, "mode": "accuracy"}, PLACES)["settings"]


def test_a_dedicated_offline_run_has_everything_at_once_and_need_not_stream() -> None:
    asked = {**ASKED, "point.concurrency": 100, "point.offline": True}
    config = build_client_config(asked, PLACES)
    assert config["type"] == "offline"
    assert config["settings"]["load_pattern"] == {"type": "max_throughput", "target_qps": 4.5}
    assert config["model_params"]["streaming"] == "off"


AUDITED = {**ASKED, "client.audit.samples": 64}


def test_the_test_of_caching_is_asked_behind_a_performance_run_alone() -> None:
    audit = build_client_config(AUDITED, PLACES)["audit"]
    assert audit == {"test": "output_caching_test", "only": False, "samples": 64}
    assert "audit" not in build_client_config({**AUDITED, "mode": "accuracy"}, PLACES)


@pytest.mark.parametrize(
    ("repeated", "stated", "problem", "reason"),
    [
        (10.0, {"passed": True}, "", ""),
        (20.0, {"passed": False, "reason": "too fast"}, "", "audit: output_caching_test failed: too fast"),
        (20.0, {"passed": True}, "says passed, its phases say failed", ""),
        (None, {}, "", "audit: the spec asks for the client's output_caching_test"),
    ],
)
def test_a_server_that_caches_makes_its_point_invalid(
    tmp_path: Path, repeated: float | None, stated: dict[str, Any], problem: str, reason: str
) -> None:
    folder = leave(tmp_path, build_client_config(AUDITED, PLACES), result_summary=SUMMARY)
    if repeated is not None:
        document = {"test": "output_caching_test", "ref_qps": 10.0, "audit_qps": repeated, **stated}
        for name, rate in (("reference", 10.0), ("output_caching", repeated)):
            phase = {"n_samples_issued": 64, "n_samples_completed": 64, "qps": rate}
            (folder / f"audit/{name}/performance").mkdir(parents=True)
            (folder / f"audit/{name}/performance/result_summary.json").write_text(json.dumps(phase))
        (folder / "audit/audit_output_caching_test.json").write_text(json.dumps(document))
    verdict = judge(folder, AUDITED)
    assert problem in verdict.problem
    assert bool(verdict.problem) is bool(problem)
    assert any(found.startswith(reason) for found in verdict.values.get("reasons", [])) or not reason


def test_the_key_of_an_endpoint_is_a_reference() -> None:
    places = ClientPlaces("https://host", "report", "prompts.jsonl", key_variable="HOST_KEY")
    assert build_client_config(ASKED, places)["endpoint_config"]["api_key"] == "${HOST_KEY}"


def list_differences(path: str = "", value: Any = None) -> Iterator[str]:
    config = build_client_config(ASKED, PLACES)
    config = change(config, path, value) if path else config
    written = BytesIO()
    YAML(typ="safe").dump(config, written)
    return find_config_differences(parse_yaml_mapping(written.getvalue()), ASKED)


def test_what_ran_as_asked_has_no_difference() -> None:
    assert list(list_differences()) == []


@pytest.mark.parametrize(("declared", "said"), [({}, []), ({"client.api": "openai"}, ["endpoint_config.api_type"])])
def test_what_somebody_else_ran_is_compared_with_what_is_declared(declared: dict[str, Any], said: list[str]) -> None:
    config = build_client_config({**ASKED, "client.api": "sglang"}, PLACES)
    asked = {name: value for name, value in ASKED.items() if name != "client.api"} | declared
    written = parse_json_object(json.dumps(config).encode())
    found = find_config_differences(written, asked, foreign=True)
    assert [text.partition(":")[0] for text in found] == said


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("settings.load_pattern.target_concurrency", 16),
        ("settings.load_pattern.type", "poisson"),
        ("settings.runtime.scheduler_random_seed", 42),
        ("settings.runtime.dataloader_random_seed", 42),
        ("settings.runtime.min_duration_ms", 1000),
        ("settings.client.stream_all_chunks", False),
        ("settings.warmup.enabled", True),
        ("model_params.name", "other"),
        ("model_params.streaming", "off"),
        ("model_params.temperature", 0.7),
        ("model_params.max_new_tokens", None),
        ("endpoint_config.api_type", "sglang"),
        ("type", "offline"),
    ],
)
def test_whatever_the_client_ran_otherwise_is_named_with_its_line(path: str, value: Any) -> None:
    (found,) = list_differences(path, value)
    assert found.startswith(f"{path}: expected ")
    assert "(line " in found


def test_a_difference_fails_the_run(tmp_path: Path) -> None:
    config = change(build_client_config(ASKED, PLACES), "settings.load_pattern.target_concurrency", 16)
    verdict = judge(leave(tmp_path, config, result_summary=SUMMARY))
    assert verdict.problem_class == "contradiction"
    assert "settings.load_pattern.target_concurrency: expected 8, config.yaml says 16" in verdict.problem


def test_a_point_that_lasted_and_whose_passes_are_whole_is_valid(tmp_path: Path) -> None:
    verdict = judge(leave(tmp_path, build_client_config(ASKED, PLACES), result_summary=SUMMARY))
    assert verdict.problem == ""
    assert verdict.values["validity"] == "VALID"
    assert verdict.values["metric"] == {"value": "100", "unit": "tokens/s"}
    assert verdict.values["point"]["tps_per_user"] == "50"
    assert verdict.values["point"]["ttft_p90_ms"] == "100"


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"duration_ns": 500 * 10**9, "qps": 0.6, "tps": 140.0}, "point-duration"),
        ({"n_samples_issued": 301, "n_samples_completed": 301, "qps": 301 / 700}, "whole-passes"),
        ({"n_samples_completed": 299, "n_samples_failed": 1, "qps": 299 / 700}, "failed-samples"),
        ({"complete": False}, "run-complete"),
        ({**_FEW, "qps": 5 / 700, "tps": 1.0}, "min-query-count"),
    ],
)
def test_what_the_client_does_not_enforce_makes_a_point_invalid(
    tmp_path: Path, changes: dict[str, Any], rule: str
) -> None:
    verdict = judge(leave(tmp_path, build_client_config(ASKED, PLACES), result_summary={**SUMMARY, **changes}))
    assert verdict.problem == ""
    assert verdict.values["validity"] == "INVALID"
    assert any(reason.startswith(f"{rule}:") for reason in verdict.values["reasons"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"qps": 9.0}, "qps: expected 0.42857143, as its counts make it"),
        ({"duration_ns": 900 * 10**9, "qps": 300 / 900, "tps": 70_000 / 900}, "a run within the 800 s of the client"),
    ],
)
def test_a_summary_that_contradicts_itself_or_the_clock_fails_the_run(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    verdict = judge(leave(tmp_path, build_client_config(ASKED, PLACES), result_summary={**SUMMARY, **changes}))
    assert message in verdict.problem


def test_an_accuracy_run_is_scored_by_the_client_over_as_many_samples_as_were_asked(tmp_path: Path) -> None:
    asked = {**ASKED, "mode": "accuracy"}
    folder = leave(tmp_path, build_client_config(asked, PLACES), accuracy_results=SCORES)
    assert judge(folder, asked).problem == ""
    scored = points.judge_score(tmp_path, folder, RULES, {}).values
    assert (scored["metric"], scored["samples"]) == ({"value": "0.75", "unit": "score"}, "25")
    ruled = {name: value for name, value in asked.items() if name != "accuracy_sample_count"}
    assert judge(folder, {**ruled, "point.least_accuracy_samples": 25}).problem == ""
    assert "the rules ask at least 26" in judge(folder, {**ruled, "point.least_accuracy_samples": 26}).problem
    assert "accuracy_sample_count: expected 26" in judge(folder, {**asked, "accuracy_sample_count": 26}).problem


@pytest.mark.parametrize(
    ("score", "least", "met"),
    [(0.83, "82.2987", True), (0.82, "82.2987", False), (82.5, "82.2987", True), ({"rouge1": 0.9}, "82.2987", False)],
)
def test_shares_are_held_against_bars_in_percent(tmp_path: Path, score: Any, least: str, met: bool) -> None:
    rules = replace(RULES, bars=(Bar("exact_match", Decimal(least)),))
    scores = {"accuracy_scores": [{**SCORES["accuracy_scores"][0], "score": score}]}
    leave(tmp_path, build_client_config({**ASKED, "mode": "accuracy"}, PLACES), accuracy_results=scores)
    assert points.judge_score(tmp_path, tmp_path, rules, {}).values["accuracy_met"] is met
    assert points.judge_score(tmp_path, tmp_path, replace(rules, bars_bind=False), {}).values["accuracy_met"]


def test_a_load_that_was_not_held_makes_a_point_invalid(tmp_path: Path) -> None:
    folder = leave(tmp_path, build_client_config(ASKED, PLACES), result_summary=SUMMARY)
    asked = {**ASKED, "point.concurrency": 16}
    (folder / "config.yaml").write_text(json.dumps(build_client_config(asked, PLACES)))
    (reason,) = judge(folder, asked).values["reasons"]
    assert reason == "concurrency-sustained: at most 8 requests were under way at a time; the point is of 16"


def test_the_window_of_the_client_is_held_against_the_events(tmp_path: Path) -> None:
    claim = {"found": True, "superpass_size": 10, "window": {"sp_lo": 0, "sp_hi": 20, "n_samples": 200}}
    summary = {**SUMMARY, "steady_state": {**claim, "n_super_passes": 30, "n_post_warmup": 29}}
    assert judge(leave(tmp_path, build_client_config(ASKED, PLACES), result_summary=summary)).values["reasons"] == []
    (tmp_path / "more").mkdir()
    summary["steady_state"] = {**summary["steady_state"], "window": {**claim["window"], "n_samples": 199}}
    found = judge(leave(tmp_path / "more", build_client_config(ASKED, PLACES), result_summary=summary))
    assert found.values["reasons"] == [
        "steady-state-consistency: the client reports a window of 199 samples, its super-passes have 200"
    ]


def test_a_client_that_did_not_look_for_a_steady_state_is_told_where_it_is(tmp_path: Path) -> None:
    warnings = judge(leave(tmp_path, build_client_config(ASKED, PLACES), result_summary=SUMMARY)).values["warnings"]
    assert any("from super-pass 1 to 29" in warning for warning in warnings)


def test_results_of_another_run_and_changed_token_counts_fail_the_run(tmp_path: Path) -> None:
    summary = {**SUMMARY, "output_sequence_lengths": {"total": 700_000}, "tps": 1000.0}
    folder = leave(tmp_path, build_client_config(ASKED, PLACES), result_summary=summary)
    (tmp_path / "conf").write_text(json.dumps(build_client_config(ASKED, replace(PLACES, report="mine"))))
    problem = judge(folder).problem
    assert "report_dir: expected mine, config.yaml says report" in problem
    assert "the summary says 700000 tokens" in problem


def test_a_run_without_its_events_is_none(tmp_path: Path) -> None:
    folder = leave(tmp_path, build_client_config(ASKED, PLACES), result_summary=SUMMARY)
    (folder / "outputs/events.jsonl").unlink()
    assert "there is no events.jsonl" in judge(folder).problem


def test_a_run_without_results_fails_by_name(tmp_path: Path) -> None:
    assert "there is no config.yaml" in judge(tmp_path).problem
    leave(tmp_path, build_client_config(ASKED, PLACES))
    assert "result_summary.json: it is not there" in judge(tmp_path).problem


def _document(**changes: Any) -> ResultDocument:
    told = {
        "report_dir": "/runs/1",
        "endpoint_config": {"endpoints": ["http://127.0.0.1:9"]},
        "datasets": [{"name": "performance", "type": "performance", "path": "prompts.jsonl", "samples": 10}],
    }
    return parse_yaml_mapping(json.dumps({**told, **changes}).encode())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"datasets": [{"name": "performance", "type": "performance", "path": "prompts.jsonl", "samples": 9}]}, []),
        ({"report_dir": "/runs/2"}, ["report_dir: expected /runs/1, config.yaml says /runs/2"]),
        (
            {"endpoint_config": {}},
            ["endpoint_config.endpoints: expected ['http://127.0.0.1:9'], config.yaml says nothing"],
        ),
        (
            {"datasets": [{"name": "performance", "type": "performance", "path": "others.jsonl"}]},
            [
                "datasets: expected [('performance', 'performance', 'prompts.jsonl')], "
                "config.yaml says [('performance', 'performance', 'others.jsonl')]"
            ],
        ),
    ],
)
def test_every_place_that_is_not_the_one_of_the_run_is_named(changes: dict[str, Any], said: list[str]) -> None:
    assert list(find_place_differences(_document(**changes), _document())) == said


class _Read(dict[str, Any]):
    """Notes which names are asked for."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)


@pytest.mark.parametrize(
    ("mode", "judged"),
    [
        ("performance", {"point.least_duration", "performance_sample_count", "seed_set", "endpoint.stack.name"}),
        ("accuracy", {"accuracy_sample_count", "point.least_accuracy_samples", "seed_set", "endpoint.stack.name"}),
    ],
)
def test_a_run_of_a_point_is_made_from_what_its_client_is_told_and_what_it_is_judged_by(
    mode: str, judged: set[str]
) -> None:
    asked = {**ASKED, "mode": mode, "client.warmup": 3, "client.audit.samples": 5, "endpoint.stack.name": "server"}
    asked |= {"client.accuracy.columns.answer": "text"}
    read = _Read(asked)
    build_client_config(read, PLACES)
    listed = list_client_settings(mode, asked)
    bounds = {"min_duration", "max_duration", "min_query_count", "client.steady_state"}  # of what is timed
    told = read.names - {"mode", "harness.model_name"} - (set() if mode == "performance" else bounds)
    assert set(listed) == told | judged
    assert len(listed) == len(set(listed))


EVERYTHING: dict[str, Any] = {
    "mode": "performance",
    "harness.model_name": "oss",
    "point.concurrency": "8",
    "schedule_rng_seed": "3",
    "sample_index_rng_seed": "4",
    "min_duration": "750000",
    "max_duration": "900000",
    "min_query_count": "100",
    "target_qps": "4.5",
    "client.api": "sglang",
    "client.workers": "2",
    "client.warmup": "16",
    "client.steady_state": False,
    "client.audit.samples": "64",
    "client.audit.audit_samples": "32",
    "client.audit.sample_index": "7",
    "client.parameters.temperature": "-0.5",
    "client.parameters.top_k": "-1",
    "client.parameters.stop": "1e5",
    "client.parameters.suffix": "5.",
    "client.parameters.seed": 9,
    "client.columns.prompt": "text",
    "client.columns.system": "12",
    "client.accuracy.name": "bars",
    "client.accuracy.method": "string_match",
    "client.accuracy.ground_truth": "answer",
    "client.accuracy.extractor": "letter",
    "client.accuracy.columns.prompt": "question",
}
MODEL = {
    "name": "oss",
    "streaming": "on",
    "temperature": -0.5,
    "top_k": -1,
    "stop": "1e5",
    "suffix": "5.",
    "seed": 9,
    "tokenizer_name": "model",
}
TIMED_SET = {
    "name": "performance",
    "type": "performance",
    "path": "prompts.jsonl",
    "parser": {"prompt": "text", "system": 12},
}


def test_the_whole_configuration_of_a_timed_run() -> None:
    assert build_client_config(EVERYTHING, replace(PLACES, key_variable="HOST_KEY")) == {
        "type": "online",
        "model_params": MODEL,
        "settings": {
            "runtime": {
                "scheduler_random_seed": 3,
                "dataloader_random_seed": 4,
                "min_duration_ms": 750_000,
                "max_duration_ms": 900_000,
                "n_samples_to_issue": 100,
            },
            "load_pattern": {"type": "concurrency", "target_concurrency": 8, "target_qps": 4.5},
            "client": {"stream_all_chunks": True, "worker_initialization_timeout": 300, "num_workers": 2},
            "warmup": {"enabled": True, "n_requests": 16, "salt": True, "drain": True, "warmup_random_seed": 4},
            "steady_state": {"enabled": False},
            "service_ready_timeout_s": 300,
        },
        "endpoint_config": {
            "api_type": "sglang",
            "endpoints": ["http://127.0.0.1:9"],
            "api_key": "${HOST_KEY}",
        },
        "audit": {
            "test": "output_caching_test",
            "only": False,
            "samples": 64,
            "audit_samples": 32,
            "sample_index": 7,
        },
        "datasets": [TIMED_SET],
        "report_dir": "report",
    }


def test_the_whole_configuration_of_a_run_that_is_scored() -> None:
    assert build_client_config({**EVERYTHING, "mode": "accuracy"}, PLACES) == {
        "type": "online",
        "model_params": MODEL,
        "settings": {
            "runtime": {
                "scheduler_random_seed": 3,
                "dataloader_random_seed": 4,
                "min_duration_ms": 0,
                "n_samples_to_issue": 1,
            },
            "load_pattern": {"type": "concurrency", "target_concurrency": 8},
            "client": {"stream_all_chunks": True, "worker_initialization_timeout": 300, "num_workers": 2},
            "warmup": {"enabled": False},
            "service_ready_timeout_s": 300,
        },
        "endpoint_config": {"api_type": "sglang", "endpoints": ["http://127.0.0.1:9"]},
        "datasets": [
            TIMED_SET,
            {
                "name": "bars",
                "type": "accuracy",
                "path": "questions.jsonl",
                "parser": {"prompt": "question"},
                "accuracy_config": {
                    "eval_method": "string_match",
                    "ground_truth": "answer",
                    "extractor": "letter",
                    "num_repeats": 1,
                },
            },
        ],
        "report_dir": "report",
    }


LEAST = {
    name: EVERYTHING[name]
    for name in ("mode", "harness.model_name", "point.concurrency", "schedule_rng_seed", "sample_index_rng_seed")
}


def test_what_nobody_asks_for_is_not_in_the_configuration() -> None:
    places = ClientPlaces("http://host", "report", "prompts.jsonl")
    config = build_client_config({**LEAST, "client.warmup": 0, "client.api": ""}, places)
    assert config == {
        "type": "online",
        "model_params": {"name": "oss", "streaming": "on"},
        "settings": {
            "runtime": {"scheduler_random_seed": 3, "dataloader_random_seed": 4},
            "load_pattern": {"type": "concurrency", "target_concurrency": 8},
            "client": {"stream_all_chunks": True, "worker_initialization_timeout": 300},
            "warmup": {"enabled": False},
            "service_ready_timeout_s": 300,
        },
        "endpoint_config": {"api_type": "openai", "endpoints": ["http://host"]},
        "datasets": [{"name": "performance", "type": "performance", "path": "prompts.jsonl"}],
        "report_dir": "report",
    }
    scored = build_client_config({**LEAST, "mode": "accuracy"}, places)["datasets"][1]
    assert scored == {"name": "accuracy", "type": "accuracy", "path": "", "accuracy_config": {"num_repeats": 1}}


SHARED = (
    *("point.concurrency", "point.offline", "client.api", "client.workers"),
    *("schedule_rng_seed", "sample_index_rng_seed", "seed_set"),
)


def test_the_settings_of_a_run_are_listed_in_one_order() -> None:
    declared = ["endpoint.stack.name", "client.columns.b", "client.columns.a", "client.accuracy.columns.q", "other.x"]
    declared += ["client.parameters.z", "client.accuracy.method"]
    free = ("client.columns.a", "client.columns.b", "client.parameters.z", "endpoint.stack.name")
    assert list_client_settings("performance", declared) == (
        *SHARED,
        *("min_duration", "max_duration", "min_query_count", "target_qps", "client.warmup"),
        *("point.least_duration", "performance_sample_count", "client.steady_state"),
        *("client.audit.samples", "client.audit.audit_samples", "client.audit.sample_index"),
        *free,
    )
    assert list_client_settings("accuracy", declared) == (
        *SHARED,
        *("client.accuracy.name", "client.accuracy.method", "client.accuracy.ground_truth"),
        *("client.accuracy.extractor", "accuracy_sample_count", "point.least_accuracy_samples"),
        *("client.accuracy.columns.q", *free),
    )


def find(written: str, asked: dict[str, Any], *, foreign: bool = False) -> list[str]:
    return list(find_config_differences(parse_yaml_mapping(written.encode()), asked, foreign=foreign))


SAID_NOTHING = "config.yaml says nothing"


def test_whatever_an_empty_configuration_does_not_say_was_asked() -> None:
    assert find("a: b\n", LEAST) == [
        f"{path}: expected {value}, {SAID_NOTHING}"
        for path, value in (
            ("type", "online"),
            ("model_params.name", "oss"),
            ("model_params.streaming", "on"),
            ("settings.runtime.scheduler_random_seed", 3),
            ("settings.runtime.dataloader_random_seed", 4),
            ("settings.load_pattern.type", "concurrency"),
            ("settings.load_pattern.target_concurrency", 8),
            ("settings.client.stream_all_chunks", True),
            ("settings.client.worker_initialization_timeout", 300),
            ("settings.warmup.enabled", False),
            ("settings.service_ready_timeout_s", 300),
            ("endpoint_config.api_type", "openai"),
        )
    ]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (LEAST, []),
        ({"client.api": "openai"}, [("endpoint_config.api_type", "openai")]),
        ({"client.warmup": "5"}, [("settings.warmup.enabled", True), ("settings.warmup.n_requests", 5)]),
        ({"client.warmup": "0", "client.steady_state": True, "client.audit.samples": 5, "client.workers": 3}, []),
        ({"client.parameters.top_k": "4"}, [("model_params.top_k", 4)]),
        (
            {"min_duration": 5, "max_duration": 6, "min_query_count": 7},
            [
                ("settings.runtime.min_duration_ms", 5),
                ("settings.runtime.max_duration_ms", 6),
                ("settings.runtime.n_samples_to_issue", 7),
            ],
        ),
        ({"target_qps": "2.5"}, [("settings.load_pattern.target_qps", 2.5)]),
        ({"mode": "accuracy", "min_duration": 5, "target_qps": "2.5"}, []),
    ],
    ids=str,
)
def test_of_a_run_made_elsewhere_what_is_declared_is_asked(asked: dict[str, Any], said: list[tuple[str, Any]]) -> None:
    always = {
        "model_params.name": "oss",
        "settings.runtime.scheduler_random_seed": 3,
        "settings.runtime.dataloader_random_seed": 4,
        "settings.load_pattern.type": "concurrency",
        "settings.load_pattern.target_concurrency": 8,
    }
    expected = {f"{path}: expected {value}, {SAID_NOTHING}" for path, value in {**always, **dict(said)}.items()}
    assert set(find("a: b\n", {**LEAST, **asked}, foreign=True)) == expected


@pytest.mark.parametrize(
    ("path", "asked", "written", "differs"),
    [
        ("seed", "9", "9", False),
        ("seed", "9", "9.0", False),
        ("seed", "9", "'9'", True),
        ("seed", "9", "true", True),
        ("seed", "1", "true", True),
        ("seed", "9", "10", True),
        ("temperature", "0.1", "0.1", False),
        ("temperature", "0.1", "0.10000000001", True),
        ("temperature", "-0.0", "0", False),
        ("stop", "end", "end", False),
        ("stop", "end", "ends", True),
        ("greedy", True, "true", False),
        ("greedy", True, "1", True),
        ("greedy", False, "0", True),
        ("greedy", True, "'True'", True),
    ],
)
def test_a_parameter_is_the_same_number_truth_or_text(path: str, asked: object, written: str, differs: bool) -> None:
    text = f"model_params: {{name: oss, {path}: {written}}}\n"
    found = find(text, {**LEAST, f"client.parameters.{path}": asked})
    assert any(told.startswith(f"model_params.{path}: ") for told in found) is differs


def test_what_was_written_instead_is_told_on_one_line_up_to_a_length() -> None:
    told = find(f"x: y\nmodel_params:\n  name: |\n    two\n    lines {'z' * 90}\n", LEAST)
    assert told[1] == f"model_params.name: expected oss, config.yaml says two lines {'z' * 70} (line 3)"


PLACED: dict[str, Any] = {
    "report_dir": "/runs/1",
    "model_params": {"tokenizer_name": "model"},
    "endpoint_config": {"endpoints": ["http://one"]},
    "datasets": [{"name": "performance", "type": "performance", "path": "a"}, 7],
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_params": {}}, ["model_params.tokenizer_name: expected model, config.yaml says nothing"]),
        (
            {"endpoint_config": {"endpoints": ["http://one", "http://two"]}},
            ["endpoint_config.endpoints: expected ['http://one'], config.yaml says ['http://one', 'http://two']"],
        ),
        ({"report_dir": "x" * 170}, [f"report_dir: expected /runs/1, config.yaml says {'x' * 160}"]),
        ({"report_dir": "two\n lines"}, ["report_dir: expected /runs/1, config.yaml says two lines"]),
        (
            {"datasets": "none"},
            ["datasets: expected [('performance', 'performance', 'a')], config.yaml says []"],
        ),
        (
            {"datasets": [{"name": "other", "path": "a"}]},
            ["datasets: expected [('performance', 'performance', 'a')], config.yaml says [('other', 'None', 'a')]"],
        ),
    ],
    ids=["tokenizer", "endpoints", "long", "lines", "no list", "another set"],
)
def test_every_place_of_a_run_is_its_own(changes: dict[str, Any], said: list[str]) -> None:
    told, written = (parse_yaml_mapping(json.dumps(each).encode()) for each in (PLACED, {**PLACED, **changes}))
    assert list(find_place_differences(written, told)) == said
    assert list(find_place_differences(told, told)) == []


def test_a_place_that_nobody_told_may_be_any() -> None:
    told, written = (parse_yaml_mapping(json.dumps(each).encode()) for each in ({"a": 1}, {**PLACED, "datasets": []}))
    assert list(find_place_differences(written, told)) == []
