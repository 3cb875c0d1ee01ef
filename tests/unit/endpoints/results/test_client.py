"""The official client's configuration of a point: what is asked is in it, and what was run is checked against it."""

from __future__ import annotations

import json
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.endpoints.results import point_format as points
from reconciler.endpoints.results.client import (
    ClientPlaces,
    build_client_config,
    examine_client,
    find_config_differences,
    list_client_settings,
)
from reconciler.endpoints.rules.curve_rules import load_endpoints_rules
from reconciler.resource.ruled_values import AccuracyLogRule, Bar, Metric
from reconciler.rules.context import RuleContext
from reconciler.rules.results.format import AttemptVerdict, Kept, RunFiles
from reconciler.storage.documents import parse_json_object
from tests.passes.repository import Repository
from tests.unit.endpoints.rules.logs import make_even_events, write_lines

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
RULES = RuleContext(metric=Metric("system_tps", "tokens/s"), accuracy_log=AccuracyLogRule(0, 0, 0))


def change(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    name, _, rest = path.partition(".")
    return {**document, name: change(document[name], rest, value) if rest else value}


def leave(folder: Path, config: dict[str, Any] | None = None, **files: Any) -> Path:
    """Next to a summary the events of such a run."""
    (folder / "config.yaml").write_text(json.dumps(config or build_client_config(ASKED, PLACES)))
    if summary := files.get("result_summary"):
        events, totals = make_even_events(summary["n_samples_issued"], summary["duration_ns"], users=8)
        (folder / "outputs").mkdir()
        (folder / "outputs/events.jsonl").write_bytes(b"".join(write_lines(events)))
        files["result_summary"] = {**summary, **{name: {**summary[name], "total": n} for name, n in totals.items()}}
    for name, document in files.items():
        (folder / f"{name}.json").write_text(json.dumps(document))
    return folder


def judge(folder: Path, asked: dict[str, Any] = ASKED, *, rehearsal: bool = False) -> AttemptVerdict:
    run = RunFiles(folder, asked, RULES, {}, folder / "conf", folder, by_command=True, rehearsal=rehearsal)
    return points.judge_run(run)


def judge_kept(folder: Path, seconds: float = 800.0) -> list[tuple[str, str]]:
    """The rule and the text of each finding on the record of such a run."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    read = [name for name in names if any(fnmatchcase(name, pattern) for pattern in points.JUDGED)]
    kept = Kept(ASKED, seconds, 0.0, {name: folder / name for name in read})
    assert points.find_missing(kept) == ""
    return [(item.rule, item.text) for item in points.judge_kept(kept)]


def test_an_accuracy_run_has_the_point_s_concurrency_and_is_bounded_by_its_dataset() -> None:
    config = build_client_config({**ASKED, "mode": "accuracy"}, PLACES)
    runtime = config["settings"]["runtime"]
    assert config["settings"]["load_pattern"]["target_concurrency"] == 8
    assert (runtime["min_duration_ms"], runtime["n_samples_to_issue"]) == (0, 1)
    scored = config["datasets"][-1]
    assert (scored["type"], scored["path"]) == ("accuracy", "questions.jsonl")
    assert scored["accuracy_config"] == {"eval_method": "string_match", "ground_truth": "answer", "num_repeats": 1}


def test_a_declared_warm_up_is_salted_drained_and_seeded() -> None:
    warmup = build_client_config({**ASKED, "client.warmup": 16}, PLACES)["settings"]["warmup"]
    seeded = {"warmup_random_seed": ASKED["sample_index_rng_seed"]}
    assert warmup == {"enabled": True, "n_requests": 16, "salt": True, "drain": True, **seeded}


def test_a_client_looks_for_the_steady_state_only_where_it_is_asked_to() -> None:
    """Those that cannot refuse a configuration with these words."""
    assert "steady_state" not in build_client_config(ASKED, PLACES)["settings"]
    reported = {**ASKED, "client.steady_state": True}
    assert build_client_config(reported, PLACES)["settings"]["steady_state"] == {"enabled": True}
    assert "steady_state" not in build_client_config({**reported, "mode": "accuracy"}, PLACES)["settings"]


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
    ("repeated", "stated", "rules", "reason"),
    [
        (10.0, {"passed": True}, [], ""),
        (20.0, {"passed": False, "reason": "too fast"}, [], "audit: output_caching_test failed: too fast"),
        (20.0, {"passed": True}, ["audit.phases"], ""),
        (None, {}, [], "audit: the spec asks for the client's output_caching_test"),
    ],
)
def test_a_server_that_caches_makes_its_point_invalid(
    tmp_path: Path, repeated: float | None, stated: dict[str, Any], rules: list[str], reason: str
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
    assert verdict.problem == ""
    assert [rule for rule, _ in judge_kept(folder)] == rules
    assert any(found.startswith(reason) for found in verdict.values.get("reasons", [])) or not reason


def test_the_key_of_an_endpoint_is_a_reference() -> None:
    places = ClientPlaces("https://host", "report", "prompts.jsonl", key_variable="HOST_KEY")
    assert build_client_config(ASKED, places)["endpoint_config"]["api_key"] == "${HOST_KEY}"


def list_differences(config: dict[str, Any], asked: dict[str, Any] = ASKED, *, foreign: bool = False) -> list[str]:
    document = parse_json_object(json.dumps(config, indent=1).encode())
    return list(find_config_differences(document, asked, foreign=foreign))


@pytest.mark.parametrize(("declared", "said"), [({}, []), ({"client.api": "openai"}, ["endpoint_config.api_type"])])
def test_what_somebody_else_ran_is_compared_with_what_is_declared(declared: dict[str, Any], said: list[str]) -> None:
    config = build_client_config({**ASKED, "client.api": "sglang"}, PLACES)
    asked = {name: value for name, value in ASKED.items() if name != "client.api"} | declared
    assert [text.partition(":")[0] for text in list_differences(config, asked, foreign=True)] == said


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
    (found,) = list_differences(change(build_client_config(ASKED, PLACES), path, value))
    assert found.startswith(f"{path}: expected ")
    assert "(line " in found


def test_a_difference_fails_the_run(tmp_path: Path) -> None:
    config = change(build_client_config(ASKED, PLACES), "settings.load_pattern.target_concurrency", 16)
    verdict = judge(leave(tmp_path, config, result_summary=SUMMARY))
    assert verdict.problem_class == "contradiction"
    assert "settings.load_pattern.target_concurrency: expected 8, config.yaml says 16" in verdict.problem


def test_a_point_that_lasted_and_whose_passes_are_whole_is_valid(tmp_path: Path) -> None:
    verdict = judge(leave(tmp_path, result_summary=SUMMARY))
    assert verdict.problem == ""
    assert verdict.values["validity"] == "VALID"
    assert verdict.values["metric"] == {"value": "100", "unit": "tokens/s"}
    assert verdict.values["point"]["tps_per_user"] == "50"
    assert verdict.values["point"]["ttft_p90_ms"] == "100"


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({}, []),
        ({"qps": 9.0}, ["summary.counts"]),
        ({"duration_ns": 900 * 10**9, "qps": 300 / 900, "tps": 70_000 / 900}, ["run.duration"]),
        ({"output_sequence_lengths": {"total": 700_000}, "tps": 1000.0}, ["summary.events"]),
    ],
)
def test_a_summary_that_contradicts_itself_its_events_or_the_clock_is_a_finding_on_its_record(
    tmp_path: Path, changes: dict[str, Any], rules: list[str]
) -> None:
    folder = leave(tmp_path, result_summary={**SUMMARY, **changes})
    assert judge(folder).problem == ""
    assert [rule for rule, _ in judge_kept(folder)] == rules
    (folder / points.EVENTS).unlink()  # not in git
    assert [rule for rule, _ in judge_kept(folder)] == [rule for rule in rules if rule != "summary.events"]


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
def test_shares_are_checked_against_bars_in_percent(tmp_path: Path, score: Any, least: str, met: bool) -> None:
    rules = replace(RULES, bars=(Bar("exact_match", Decimal(least)),))
    scores = {"accuracy_scores": [{**SCORES["accuracy_scores"][0], "score": score}]}
    leave(tmp_path, build_client_config({**ASKED, "mode": "accuracy"}, PLACES), accuracy_results=scores)
    assert points.judge_score(tmp_path, tmp_path, rules, {}).values["accuracy_met"] is met
    assert points.judge_score(tmp_path, tmp_path, replace(rules, bars_bind=False), {}).values["accuracy_met"]


def test_a_load_that_was_not_sustained_makes_a_point_invalid(tmp_path: Path) -> None:
    folder = leave(tmp_path, result_summary=SUMMARY)
    asked = {**ASKED, "point.concurrency": 16}
    (folder / "config.yaml").write_text(json.dumps(build_client_config(asked, PLACES)))
    (reason,) = judge(folder, asked).values["reasons"]
    assert reason == "concurrency-sustained: at most 8 requests were under way at a time; the point is of 16"


def test_the_window_of_the_client_is_checked_against_the_events(tmp_path: Path) -> None:
    claim = {"found": True, "superpass_size": 10, "window": {"sp_lo": 0, "sp_hi": 20, "n_samples": 200}}
    summary = {**SUMMARY, "steady_state": {**claim, "n_super_passes": 30, "n_post_warmup": 29}}
    assert judge(leave(tmp_path, result_summary=summary)).values["reasons"] == []
    (tmp_path / "more").mkdir()
    summary["steady_state"] = {**summary["steady_state"], "window": {**claim["window"], "n_samples": 199}}
    found = judge(leave(tmp_path / "more", result_summary=summary))
    assert found.values["reasons"] == [
        "steady-state-consistency: the client reports a window of 199 samples, its super-passes have 200"
    ]


def test_a_client_that_did_not_look_for_a_steady_state_is_reported_where_it_is(tmp_path: Path) -> None:
    warnings = judge(leave(tmp_path, result_summary=SUMMARY)).values["warnings"]
    assert any("from super-pass 1 to 29" in warning for warning in warnings)


def test_results_of_another_run_fail_the_run(tmp_path: Path) -> None:
    folder = leave(tmp_path, result_summary=SUMMARY)
    (tmp_path / "conf").write_text(json.dumps(build_client_config(ASKED, replace(PLACES, report="mine"))))
    problem = judge(folder).problem
    assert "report_dir: expected mine, config.yaml says report" in problem


def test_a_run_without_its_events_is_none(tmp_path: Path) -> None:
    folder = leave(tmp_path, result_summary=SUMMARY)
    (folder / "outputs/events.jsonl").unlink()
    assert "there is no events.jsonl" in judge(folder).problem


def test_a_run_without_results_fails_by_name(tmp_path: Path) -> None:
    assert "there is no config.yaml" in judge(tmp_path).problem
    leave(tmp_path)
    assert "result_summary.json: it does not exist" in judge(tmp_path).problem


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


_OF_AGENTS = {"point.least_inline", "point.least_turn_tokens", "point.most_turn_tokens"}


@pytest.mark.parametrize(
    ("mode", "judged"),
    [
        ("performance", {"point.least_duration", "performance_sample_count", *_OF_AGENTS}),
        ("accuracy", {"accuracy_sample_count", "point.least_accuracy_samples"}),
    ],
)
def test_a_run_of_a_point_is_made_from_what_its_client_is_given_and_what_it_is_judged_by(
    mode: str, judged: set[str]
) -> None:
    judged = {*judged, "seed_set", "endpoint.stack.name"}
    asked = {**ASKED, "mode": mode, "client.warmup": 3, "client.audit.samples": 5, "endpoint.stack.name": "server"}
    asked |= {"client.accuracy.columns.answer": "text"}
    read = _Read(asked)
    build_client_config(read, PLACES)
    listed = list_client_settings(mode, asked)
    bounds = {"min_duration", "max_duration", "min_query_count", "client.steady_state"}  # of what is timed
    reported = read.names - {"mode", "harness.model_name"} - (set() if mode == "performance" else bounds)
    assert set(listed) == reported | judged
    assert len(listed) == len(set(listed))


LEAST: dict[str, Any] = {
    "mode": "performance",
    "harness.model_name": "oss",
    "point.concurrency": "8",
    "schedule_rng_seed": "3",
    "sample_index_rng_seed": "4",
}


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
    wanted = {**always, **dict(said)}
    expected = {f"{path}: expected {value}, config.yaml says nothing" for path, value in wanted.items()}
    assert set(list_differences({}, {**LEAST, **asked}, foreign=True)) == expected


AGENTIC: dict[str, Any] = {
    **{name: value for name, value in ASKED.items() if name not in ("target_qps", "client.columns.prompt")},
    "point.agentic": True,
    "client.parameters.chat_template_kwargs.preserve_thinking": True,
    "client.accuracy.extras.swebench_template": "qwen_tools",
}


def test_a_performance_run_of_an_agentic_benchmark_plays_whole_passes_of_conversations() -> None:
    config = build_client_config({**AGENTIC, "min_query_count": 20}, PLACES)
    assert config["settings"]["load_pattern"] == {"type": "agentic_inference", "target_concurrency": 8}
    assert "n_samples_to_issue" not in config["settings"]["runtime"]
    assert config["model_params"]["chat_template_kwargs"] == {"preserve_thinking": True}
    (played,) = config["datasets"]
    assert played["accuracy_config"] == {"eval_method": "agentic_inference_inline"}
    assert played["agentic_inference"] == {
        "turn_timeout_s": 86400,
        "enable_salt": True,
        "inject_tool_delay": True,
        "stop_issuing_on_first_user_complete": False,
        "num_trajectories_to_issue": 20,
    }
    one_pass = build_client_config(AGENTIC, PLACES)["datasets"][0]["agentic_inference"]
    assert one_pass["num_trajectories_to_issue"] == 10


def test_an_accuracy_run_of_an_agentic_benchmark_leaves_the_asking_to_the_scoring_service() -> None:
    config = build_client_config({**AGENTIC, "mode": "accuracy"}, replace(PLACES, service="http://scorer:1"))
    assert config["settings"]["load_pattern"] == {"type": "agentic_inference", "target_concurrency": 1}
    scored = config["datasets"][-1]
    assert (scored["name"], scored["type"], "path" in scored) == ("swe_bench", "accuracy", False)
    assert scored["accuracy_config"]["extras"] == {
        "swebench_service_url": "http://scorer:1",
        "num_instances": 25,
        "workers": 8,
        "swebench_template": "qwen_tools",
    }


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("enable_salt", False, "expected True, config.yaml says False"),
        ("inject_tool_delay", False, "expected True, config.yaml says False"),
        ("stop_issuing_on_first_user_complete", True, "expected False, config.yaml says True"),
        ("num_trajectories_to_issue", 9, "expected 10, config.yaml says 9"),
        ("num_trajectories_to_issue", None, "expected 10, config.yaml says nothing"),
    ],
)
def test_conversations_that_were_not_played_as_the_rules_ask_are_another_run(name: str, value: Any, said: str) -> None:
    config = build_client_config(AGENTIC, PLACES)
    assert list_differences(config, AGENTIC) == []
    config["datasets"][0]["agentic_inference"][name] = value
    for foreign in (False, True):
        (differing,) = list_differences(config, AGENTIC, foreign=foreign)
        assert differing.startswith(f"datasets.agentic_inference.{name}: {said}")


def test_a_missing_client_is_to_be_cloned_at_the_commit_that_this_release_was_tried_with(tmp_path: Path) -> None:
    """It is in no package index."""
    (missing,) = examine_client({"client.code": "client", "client.python": "client/.venv/bin/python"}, tmp_path)
    assert missing[1] is True
    for part in ("https://github.com/mlcommons/endpoints", load_endpoints_rules().client):
        assert part in missing[2]


def test_a_client_has_an_interpreter_and_a_commit(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "client")
    repository.write("src/inference_endpoint/main.py", "")
    repository.commit()
    locations = {"client.code": "client", "client.python": "client/.venv/bin/python"}
    python, commit = examine_client(locations, tmp_path)
    assert (python[1], commit[1]) == (True, False)
    assert "git -C" in commit[2]
    repository.write(".venv/bin/python", "")
    (commit,) = examine_client(locations, tmp_path)
    assert commit[1] is False
