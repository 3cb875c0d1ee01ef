"""What contradicts itself in a log, in whole sentences: clocks, counts, conditions and the verdict."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reconciler.loadgen.consistency import find_inconsistencies, find_small_library
from reconciler.loadgen.log import DetailLog, parse_detail

OLD, NEW = "3.0 @ f536725011", "5.0 @ 3d4e5f6a7b"  # of the old one no line is missed
BEGAN, DAY = "power_begin: 02-22-2023 08:54:48.100 (line 5)", "02-22-2023 "


def make_log(version: str = OLD, /, *more: tuple[str, object], **values: Any) -> DetailLog:
    """Of a run of 20 s by LoadGen's logger; ``more`` lines; a value of None leaves its line out."""
    lines: dict[str, Any] = {
        "loadgen_version": version,
        "test_datetime": "2023-02-22T08:54:48Z",
        "effective_scenario": "Offline",
        "effective_test_mode": "PerformanceOnly",
        "power_begin": "02-22-2023 08:54:48.100",
        "result_validity": "VALID",
    }
    entries = [*(lines | values).items(), *more]
    return parse_detail("".join(_line(key, value) for key, value in entries if value is not None).encode())


def _line(key: str, value: object) -> str:
    error = key.startswith("error_")
    metadata = {"is_error": error, "is_warning": False, "file": "results.cc", "line_no": 7, "pid": 1, "tid": 1}
    stamp = 20_000.5 if key.startswith(("power_", "result_")) else 0.5
    entry = {"key": key, "value": value, "time_ms": stamp, "namespace": "mlperf::logging"}
    return ":::MLLOG " + json.dumps({**entry, "event_type": "POINT_IN_TIME", "metadata": metadata}) + "\n"


def told(version: str = OLD, /, *more: tuple[str, object], **values: Any) -> list[str]:
    return list(map(str, find_inconsistencies(make_log(version, *more, **values))))


def test_an_old_log_of_little_contradicts_nothing() -> None:
    assert told() == []
    assert told(effective_test_mode="AccuracyOnly", result_validity=None, power_end=DAY + "08:55:08.000") == []


@pytest.mark.parametrize(
    "values",
    [
        {"result_validity": None},
        {"effective_test_mode": "SubmissionRun"},
        {"effective_test_mode": "AccuracyOnly", "power_end": None},
    ],
    ids=["no result", "another mode", "no end"],
)
def test_a_run_that_did_not_end_or_is_of_another_mode_is_not_judged(values: dict[str, Any]) -> None:
    wrong = {"requested_a": 1, "effective_a": 2, "qsl_reported_total_count": 1}
    wrong |= {f"effective_{mode}_sample_count": 9 for mode in ("performance", "accuracy")}
    log = make_log(**wrong, **values)
    assert find_inconsistencies(log) == ()
    assert list(find_small_library(log)) == []
    assert len(told(**wrong)) == 2


@pytest.mark.parametrize(
    ("key", "told_of"),
    [
        ("effective_a", ("performance", "accuracy")),
        ("requested_a", ("performance", "accuracy")),
        ("qsl_reported_a", ("performance", "accuracy")),
        ("result_a", ("performance", "accuracy")),
        ("early_stopping_a", ("performance", "accuracy")),
        ("loadgen_a", ("performance", "accuracy")),
        ("num_errors_a", ("performance", "accuracy")),
        ("sut_name", ("performance", "accuracy")),
        ("qsl_name", ("performance", "accuracy")),
        ("loaded_qsl_set_a", ("performance",)),
        ("power_begin_a", ("performance",)),
        ("power_end_a", ("performance",)),
        ("generated_a", ()),
    ],
)
def test_what_a_run_logs_once_is_on_one_line(key: str, told_of: tuple[str, ...]) -> None:
    for mode, name in (("performance", "PerformanceOnly"), ("accuracy", "AccuracyOnly")):
        more = ((key, "x"), (key, ["y", 2]))
        found = told(OLD, *more, effective_test_mode=name, power_end=DAY + "08:55:08.000")
        expected = [f"{key}: x (line 8), but a second line says a list of 2 values (line 9)"]
        assert found == expected * (mode in told_of), mode


def test_a_date_is_on_one_line_in_either_mode() -> None:
    more = ("test_datetime", "2023-02-22T08:54:49Z")
    said = "test_datetime: 2023-02-22T08:54:48Z (line 2), but a second line says 2023-02-22T08:54:49Z (line {})"
    assert told(OLD, more) == [said.format(7)]
    assert told(OLD, more, effective_test_mode="AccuracyOnly", power_end=DAY + "08:55:08.000") == [said.format(8)]


def test_settings_are_used_as_requested() -> None:
    assert told(requested_a=1, effective_a=1, requested_b=2, effective_c=3) == []
    assert told(requested_a=1, effective_a=2) == ["effective_a: 2 (line 8), but 1 was requested (line 7)"]
    assert told(requested_min_query_count=1, effective_min_query_count=2) == []
    assert told(requested_max_query_count=1, effective_max_query_count=2) == []


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        ("08:54:48.100", []),
        (
            "08:54:48.099",
            ["power_begin: 02-22-2023 08:54:48.100 (line 4), but power_end is 02-22-2023 08:54:48.099 (line 6)"],
        ),
    ],
)
def test_a_run_ends_no_sooner_than_it_begins(ended: str, expected: list[str]) -> None:
    found = find_inconsistencies(make_log(power_end=DAY + ended, test_datetime=None))
    assert list(map(str, found)) == expected
    assert all(item.is_doubt for item in found)


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        ("2023-02-23T08:54:48.099", []),
        ("2023-02-23T08:54:48.100", [f"{BEGAN}, but LoadGen was built on 2023-02-23 (line 7)"]),
        ("2023-02-24T20:54:48.100Z", [f"{BEGAN}, but LoadGen was built on 2023-02-24 (line 7)"]),
        ("yesterday", []),
    ],
)
def test_loadgen_is_built_at_most_a_day_behind_a_run(built: str, expected: list[str]) -> None:
    found = find_inconsistencies(make_log(loadgen_build_date_utc=built))
    assert list(map(str, found)) == expected
    assert all(item.is_doubt for item in found)
    assert told(loadgen_build_date_utc=built, power_begin="never") == []


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        ("08:55:10.100", []),
        (
            "08:55:10.101",
            [
                "power_end: 02-22-2023 08:55:10.101 (line 6), but LoadGen's logger had run for 20.0005 s, "
                "and not for 22.001 s (line 4)"
            ],
        ),
    ],
)
def test_loadgens_logger_runs_as_long_as_the_run(ended: str, expected: list[str]) -> None:
    """Two seconds less at most."""
    for mode in ("PerformanceOnly", "AccuracyOnly"):
        log = make_log(power_end=DAY + ended, test_datetime=None, effective_test_mode=mode)
        found = find_inconsistencies(log)
        assert list(map(str, found)) == expected
        assert all(item.is_doubt for item in found)


def test_a_date_is_one_since_release_4() -> None:
    said = "test_datetime: soon (line 2), but LoadGen writes a date"
    assert said in told(NEW, test_datetime="soon")
    assert said in told("4.0 @ 3d4e5f6a7b", test_datetime="soon", power_begin=None)
    assert not [text for text in told(NEW, test_datetime=None) if "writes a date" in text]
    assert told(test_datetime="soon", power_end=DAY + "08:55:08.000") == []


@pytest.mark.parametrize(("mode", "name"), [("PerformanceOnly", "performance"), ("AccuracyOnly", "accuracy")])
def test_as_many_samples_are_used_as_the_library_has_or_a_setting_says(mode: str, name: str) -> None:
    reported = "qsl_reported_performance_count" if name == "performance" else "qsl_reported_total_count"
    key, override = f"effective_{name}_sample_count", f"requested_{name}_sample_count_override"
    base = {"effective_test_mode": mode, "power_end": DAY + "08:55:08.000"}
    for used, asked, expected in (
        (9, 0, []),
        (8, 0, [f"{key}: 8 (line 8), but {reported} is 9 (line 10)"]),
        (7, 7, []),
        (8, 7, [f"{key}: 8 (line 8), but {override} is 7 (line 9)"]),
    ):
        assert told(**base, **{key: used, override: asked, reported: 9}) == expected
    assert told(**base, **{key: 8, reported: 9}) == []
    assert told(**base, **{override: 8, reported: 9}) == []
    assert told(**base, **{key: 8, override: 0}) == []


@pytest.mark.parametrize(("total", "samples"), [(9, "9 samples"), (1, "1 sample")])
def test_no_more_samples_are_used_than_the_library_has(total: int, samples: str) -> None:
    key = "effective_performance_sample_count"
    values = {key: total + 1, "qsl_reported_total_count": total}
    expected = [f"{key}: {total + 1} (line 7), but the library has {samples} (line 8)"]
    log = make_log(**values)
    assert list(map(str, find_small_library(log))) == list(map(str, find_inconsistencies(log))) == expected
    assert find_inconsistencies(log, judge_library=False) == ()
    assert told(**values | {key: total}) == []
    assert told(**{key: 5}) == told(qsl_reported_total_count=5) == []
    accuracy = make_log(
        effective_test_mode="AccuracyOnly", power_end=DAY + "08:55:08.000", effective_accuracy_sample_count=9, **values
    )
    (found,) = find_small_library(accuracy) if total == 1 else [None]
    assert found is None or found.key == "effective_accuracy_sample_count"


@pytest.mark.parametrize(
    ("loaded", "expected"),
    [
        ([0, 1, 2], []),
        ([0, 1, 3], []),
        ([0, 1, 4], ["loaded_qsl_set: sample 4 (line 9), but the library has 4 samples"]),
        (
            [0, 9, -2, -3],
            [
                "loaded_qsl_set: sample 9 (line 9), but the library has 4 samples",
                "{}: 3 (line 7), but 4 different samples were loaded (line 9)",
            ],
        ),
        ([-2, -3, 1], ["loaded_qsl_set: sample -2 (line 9), but the library has 4 samples"]),
        ([0, 1, 1], ["{}: 3 (line 7), but 2 different samples were loaded (line 9)"]),
        ([0, 1, 2, 3], ["{}: 3 (line 7), but 4 different samples were loaded (line 9)"]),
    ],
)
def test_loaded_samples_are_of_the_library_and_as_many_as_are_used(loaded: list[int], expected: list[str]) -> None:
    key = "effective_performance_sample_count"
    values = {key: 3, "qsl_reported_total_count": 4}
    assert told(**values, loaded_qsl_set=loaded) == [text.format(key) for text in expected]
    assert told(**values) == told(loaded_qsl_set=[0, 9], **{key: 3}) == []
    assert told(loaded_qsl_set=[0, 9], qsl_reported_total_count=4) == []


@pytest.mark.parametrize(("sets", "most"), [(1, 11), (2, 18)])
def test_multi_stream_loads_up_to_seven_samples_more_for_each_set(sets: int, most: int) -> None:
    values = {
        "effective_scenario": "MultiStream",
        "effective_test_mode": "AccuracyOnly",
        "power_end": DAY + "08:55:08.000",
        "effective_accuracy_sample_count": 4,
        "qsl_reported_total_count": 30,
    }
    for count in (4, most, most + 1):
        first, *others = [list(range(count - sets + 1)), *([at + count - sets + 1] for at in range(sets - 1))]
        found = told(OLD, *(("loaded_qsl_set", samples) for samples in others), **values, loaded_qsl_set=first)
        (line, key) = (10, "effective_accuracy_sample_count")
        said = [f"{key}: 4 (line 8), but {count} different samples were loaded (line {line})"]
        assert found == said * (count > most)


def test_of_a_library_that_is_smaller_than_what_is_used_all_are_loaded() -> None:
    values = {"effective_performance_sample_count": 5, "qsl_reported_total_count": 2}
    small = "effective_performance_sample_count: 5 (line 7), but the library has 2 samples (line 8)"
    assert told(**values, loaded_qsl_set=[0, 1]) == [small]
    assert len(told(**values, loaded_qsl_set=[0])) == 2


def test_errors_are_as_many_as_are_counted() -> None:
    error = ("error_runtime", "it broke")
    before = {"error_runtime": "it broke"}
    assert told(num_errors=0) == told(**before, num_errors=1) == told(**before, num_errors=1) == told(OLD, error) == []
    assert told(OLD, error, num_errors=0) == []  # one that came later
    assert told(**before, num_errors=0) == ["num_errors: 0 (line 8), but the log has 1 ERROR line"]
    ended = {"effective_test_mode": "AccuracyOnly", "power_end": DAY + "08:55:08.000"}
    assert told(num_errors=1, **ended) == []  # its results are judged elsewhere
    assert told(num_errors=1) == ["num_errors: 1 (line 7), but the log has 0 ERROR lines"]


FLAGS = ("result_perf_constraints_met", "result_min_duration_met", "result_min_queries_met", "early_stopping_met")


@pytest.mark.parametrize("flag", FLAGS)
def test_a_verdict_is_all_of_its_conditions(flag: str) -> None:
    met = dict.fromkeys(FLAGS, True)
    line = 7 + FLAGS.index(flag)
    assert told(**met) == told(**{flag: True}) == []
    valid, invalid = "result_validity: VALID (line 6), but", "result_validity: INVALID (line 6), but"
    assert told(**met | {flag: False}) == [f"{valid} {flag} is false (line {line})"]
    assert told(**{flag: False}) == [f"{valid} {flag} is false (line 7)"]
    assert told(**met | {flag: False}, result_validity="INVALID") == []
    assert told(**met, result_validity="INVALID") == [f"{invalid} every condition is met"]
    assert told(result_validity="INVALID") == [f"{invalid} every condition is met"]
    assert told(result_invalid_reason="slow") == [f"{valid} result_invalid_reason is slow (line 7)"]
    assert told(result_invalid_reason="slow", result_validity="INVALID", **{flag: False}) == []


def test_the_first_condition_that_is_not_met_is_named() -> None:
    (found,) = told(**dict.fromkeys(reversed(FLAGS), False))
    assert found == "result_validity: VALID (line 6), but result_perf_constraints_met is false (line 10)"


def test_conditions_follow_from_counts() -> None:
    key = "result_min_queries_met"
    few = {"result_query_count": 8, "effective_min_query_count": 9, "effective_scenario": "Server"}
    assert told(**few, **{key: True}) == [f"{key}: true (line 9), but 8 of 9 queries were issued"]
    assert told(**few, **{key: False}, result_validity="INVALID") == []
    assert told(**few) == []
    assert told(**few | {"result_query_count": 9}, **{key: True}) == []
    assert told(effective_min_query_count=9, **{key: True}) == told(result_query_count=1, **{key: True}) == []
    generated = {"result_query_count": 8, "generated_query_count": 7, "effective_scenario": "Server"}
    assert told(**generated) == ["result_query_count: 8 (line 7), but 7 queries were generated"]
    assert told(**generated | {"generated_query_count": 8}) == told(generated_query_count=0) == []


def test_offline_issues_as_many_samples_as_it_has_to_unless_each_is_issued_once() -> None:
    key = "result_min_queries_met"
    few = {"generated_samples_per_query": 8, "effective_min_sample_count": 9, key: True}
    assert told(**few) == [f"{key}: true (line 9), but 8 of 9 samples were issued"]
    assert told(**few | {"generated_samples_per_query": 9}) == told(**few, effective_scenario="Server") == []
    assert told(**few | {key: False}, result_validity="INVALID") == []
    assert told(**few, effective_performance_issue_unique=True) == []
    assert len(told(**few, effective_performance_issue_unique=False)) == 1
    assert told(generated_samples_per_query=8, **{key: True}) == []
    assert told(effective_min_sample_count=8, **{key: True}) == []


@pytest.mark.parametrize("scenario", ["Offline", "Server"])
def test_a_minimum_duration_is_met_by_the_time_that_a_run_took(scenario: str) -> None:
    """Within 20 ms, and one part in a hundred."""
    key = "result_min_duration_met"
    values: dict[str, Any] = {
        "effective_scenario": scenario,
        "result_max_latency_ns": 9_880_000_000 if scenario == "Offline" else 1,
        key: True,
    }
    values |= {"power_end": DAY + "08:54:57.980", "test_datetime": None}
    assert told(**values, effective_min_duration_ms=10_000) == []
    log = make_log(**values, effective_min_duration_ms=10_001)
    (found,) = find_inconsistencies(log)
    assert str(found) == f"{key}: true (line {log.number(key)}), but the run lasted 9.88 s of 10.001 s"
    assert not found.is_doubt
    assert told(**values | {key: False}, effective_min_duration_ms=10_001, result_validity="INVALID") == []
    unknown: dict[str, Any] = {"result_max_latency_ns" if scenario == "Offline" else "power_end": None}
    assert told(**values | unknown, effective_min_duration_ms=10_001) == []


SERVED = {
    "effective_scenario": "Server",
    "result_query_count": 1000,
    "result_overlatency_query_count": 3,
    "effective_target_latency_percentile": 0.99,
    "early_stopping_met": True,
}


def test_as_many_queries_are_over_the_latency_as_early_stopping_allows() -> None:
    key = "early_stopping_met"
    assert told(**SERVED | {"result_query_count": 1001}) == []
    found = told(**SERVED)
    assert found == [f"{key}: true (line 10), but 3 of 1000 queries were over the latency, and 2 are allowed (line 8)"]
    none = SERVED | {"result_query_count": 458, "result_overlatency_query_count": 0}
    assert told(**none) == [
        f"{key}: true (line 10), but 0 of 458 queries were over the latency, and 0 are allowed (line 8)"
    ]
    assert told(**none | {"result_query_count": 459}) == []
    for other in (
        {"effective_scenario": "SingleStream"},
        {"early_stopping_met": False, "result_validity": "INVALID"},
        {"early_stopping_met": None},
        {"result_query_count": None},
        {"result_query_count": 0},
        {"result_overlatency_query_count": None},
        {"effective_target_latency_percentile": None},
        {"effective_target_latency_percentile": 1},
        {"effective_target_latency_percentile": 0},
        {"requested_use_token_latencies": True},
    ):
        assert told(**SERVED | other) == [], other


@pytest.mark.parametrize("scenario", ["Server", "SingleStream", "MultiStream", "Offline"])
def test_early_stopping_is_met_as_its_text_says(scenario: str) -> None:
    text = " * Run Unsuccessful."
    said = "early_stopping_met: true (line 8), but early_stopping_result is * Run Unsuccessful. (line 7)"
    assert told(effective_scenario=scenario, early_stopping_result=text, early_stopping_met=True) == [said]
    for other in ({"early_stopping_met": False, "result_validity": "INVALID"}, {"early_stopping_met": None}):
        assert told(effective_scenario=scenario, early_stopping_result=text, **other) == []
    fine = {"early_stopping_result": " * Run successful.", "early_stopping_met": True}
    assert told(effective_scenario=scenario, **fine) == []


@pytest.mark.parametrize("scenario", ["SingleStream", "MultiStream", "Server", "Offline"])
@pytest.mark.parametrize(
    ("rank", "key"), [("90.0", "early_stopping_latency_ss"), ("99.0", "early_stopping_latency_ms")]
)
def test_an_estimate_is_the_one_of_its_text(scenario: str, rank: str, key: str) -> None:
    stream = scenario.endswith("Stream")
    text = f" * Processed at least 64 queries (700).\\n * Early stopping {rank}th percentile estimate: 41"
    values = {"effective_scenario": scenario, "early_stopping_result": text}
    assert told(**values, **{key: 41}) == told(**values) == told(**{key: 42}) == []
    said = [f"{key}: 42 (line 8), but early stopping estimates 41 (line 7)"]
    assert told(**values, **{key: 42}) == said * stream
    assert told(**values, **{key: 42}, requested_use_token_latencies=True) == []
    other = "early_stopping_latency_ss" if key.endswith("ms") else "early_stopping_latency_ms"
    assert told(**values, **{other: 42}) == []


@pytest.mark.parametrize(
    ("scenario", "part", "kind"),
    [
        ("SingleStream", "latency_ns", "percentile_latency_ns"),
        ("Server", "latency_ns", "percentile_latency_ns"),
        ("Offline", "latency_ns", "percentile_latency_ns"),
        ("MultiStream", "query_latency_ns", "percentile_per_query_latency_ns"),
    ],
)
def test_means_lie_between_what_is_known_but_for_those_of_offline(scenario: str, part: str, kind: str) -> None:
    mean = f"result_mean_{part}"
    for least, most in (
        (f"result_min_{part}", f"result_max_{part}"),
        (f"result_90.00_{kind}", f"result_99.00_{kind}"),
    ):
        values = {"effective_scenario": scenario, least: 5, most: 9}
        for value in (5, 9):
            assert told(**values, **{mean: value}) == []
        for value in (4, 10):
            said = [f"{mean}: {value} (line 9), but latencies are from 5 to 9"]
            assert told(**values, **{mean: value}) == said * (scenario != "Offline")
    assert told(effective_scenario=scenario, **{mean: 4, f"result_min_{part}": 5}) == []
    assert told(effective_scenario=scenario, **{mean: 4}) == []


@pytest.mark.parametrize(
    ("scenario", "key", "seen", "slowest", "rank"),
    [
        (
            "SingleStream",
            "early_stopping_latency_ss",
            "result_90.00_percentile_latency_ns",
            "result_max_latency_ns",
            "90.00",
        ),
        (
            "MultiStream",
            "early_stopping_latency_ms",
            "result_99.00_percentile_per_query_latency_ns",
            "result_max_query_latency_ns",
            "99.00",
        ),
    ],
)
def test_estimates_lie_between_their_percentile_and_the_slowest(
    scenario: str, key: str, seen: str, slowest: str, rank: str
) -> None:
    values = {"effective_scenario": scenario, seen: 5, slowest: 9}
    low, high = f"{key}: 4 (line 9), but the {rank} percentile is 5", f"{key}: 10 (line 9), but the slowest took 9"
    for estimate, said in ((4, [low]), (5, []), (9, []), (10, [high]), (0, [])):
        assert told(**values, **{key: estimate}) == said
        assert told(**values, **{key: estimate}, requested_use_token_latencies=True) == []
        assert told(**values | {"effective_scenario": "Server"}, **{key: estimate}) == []
    assert told(effective_scenario=scenario, **{key: 4, slowest: 9}) == []
    assert told(effective_scenario=scenario, **{key: 10, seen: 5}) == []


@pytest.mark.parametrize(("minimum", "rules"), [(20_000, ["log.dates"]), (25_000, ["log.dates", "log.conditions"])])
def test_a_logger_bounds_a_run_whose_dates_are_a_year_apart(minimum: int, rules: list[str]) -> None:
    """A clock that was set is a doubt; that the run was too short for its flag, the logger's own time shows."""
    values = {"effective_scenario": "SingleStream", "result_min_duration_met": True, "test_datetime": None}
    log = make_log(**values, power_end="02-22-2024 08:55:08.000", effective_min_duration_ms=minimum)
    found = find_inconsistencies(log)
    assert [item.rule for item in found] == rules
    assert [item.is_doubt for item in found] == [rule == "log.dates" for rule in rules]


@pytest.mark.parametrize(("mean", "doubt"), [(3_000_000, False), (18_446_744_073_709_551, True)])
def test_a_clock_that_was_set_back_may_make_the_sum_of_latencies_negative(mean: int, doubt: bool) -> None:
    values = {"result_min_latency_ns": 1_000_000, "result_mean_latency_ns": mean, "result_max_latency_ns": 2_000_000}
    log = make_log(effective_scenario="SingleStream", result_query_count=1000, **values)
    assert [(item.rule, item.is_doubt) for item in find_inconsistencies(log)] == [("log.latencies", doubt)]
