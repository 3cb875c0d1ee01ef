"""What contradicts itself in a log, in whole sentences: clocks, counts, conditions and the verdict."""

from __future__ import annotations

import json
import re
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


def find(version: str = OLD, /, *more: tuple[str, object], **values: Any) -> list[str]:
    return list(map(str, find_inconsistencies(make_log(version, *more, **values))))


def test_a_date_is_one_since_release_4() -> None:
    said = "test_datetime: soon (line 2), but LoadGen writes a date"
    assert said in find(NEW, test_datetime="soon")
    assert said in find("4.0 @ 3d4e5f6a7b", test_datetime="soon", power_begin=None)
    assert not [text for text in find(NEW, test_datetime=None) if "writes a date" in text]
    assert find(test_datetime="soon", power_end=DAY + "08:55:08.000") == []


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
        assert find(**base, **{key: used, override: asked, reported: 9}) == expected
    assert find(**base, **{key: 8, reported: 9}) == []
    assert find(**base, **{override: 8, reported: 9}) == []
    assert find(**base, **{key: 8, override: 0}) == []


@pytest.mark.parametrize(("total", "samples"), [(9, "9 samples"), (1, "1 sample")])
def test_no_more_samples_are_used_than_the_library_has(total: int, samples: str) -> None:
    key = "effective_performance_sample_count"
    values = {key: total + 1, "qsl_reported_total_count": total}
    expected = [f"{key}: {total + 1} (line 7), but the library has {samples} (line 8)"]
    log = make_log(**values)
    assert list(map(str, find_small_library(log))) == list(map(str, find_inconsistencies(log))) == expected
    assert find_inconsistencies(log, judge_library=False) == ()
    assert find(**values | {key: total}) == []
    assert find(**{key: 5}) == find(qsl_reported_total_count=5) == []
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
        ([0, 1, 4], [("loaded_qsl_set", "4")]),
        ([0, 9, -2, -3], [("loaded_qsl_set", "9"), ("effective_performance_sample_count", "3")]),
        ([-2, -3, 1], [("loaded_qsl_set", "-2")]),
        ([0, 1, 1], [("effective_performance_sample_count", "3")]),
        ([0, 1, 2, 3], [("effective_performance_sample_count", "3")]),
    ],
)
def test_loaded_samples_are_the_librarys_and_all_used(loaded: list[int], expected: list[tuple[str, str]]) -> None:
    key = "effective_performance_sample_count"
    values = {key: 3, "qsl_reported_total_count": 4}
    found = re.findall(r"^(\w+): \D*?(-?\d+) ", "\n".join(find(**values, loaded_qsl_set=loaded)), re.MULTILINE)
    assert found == expected
    assert find(**values) == find(loaded_qsl_set=[0, 9], **{key: 3}) == []
    assert find(loaded_qsl_set=[0, 9], qsl_reported_total_count=4) == []


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
        found = find(OLD, *(("loaded_qsl_set", samples) for samples in others), **values, loaded_qsl_set=first)
        (line, key) = (10, "effective_accuracy_sample_count")
        said = [f"{key}: 4 (line 8), but {count} different samples were loaded (line {line})"]
        assert found == said * (count > most)


def test_of_a_library_that_is_smaller_than_what_is_used_all_are_loaded() -> None:
    values = {"effective_performance_sample_count": 5, "qsl_reported_total_count": 2}
    small = "effective_performance_sample_count: 5 (line 7), but the library has 2 samples (line 8)"
    assert find(**values, loaded_qsl_set=[0, 1]) == [small]
    assert len(find(**values, loaded_qsl_set=[0])) == 2


def test_errors_are_as_many_as_are_counted() -> None:
    error = ("error_runtime", "it broke")
    before = {"error_runtime": "it broke"}
    assert find(num_errors=0) == find(**before, num_errors=1) == find(**before, num_errors=1) == find(OLD, error) == []
    assert find(OLD, error, num_errors=0) == []  # one that came later
    assert find(**before, num_errors=0) == ["num_errors: 0 (line 8), but the log has 1 ERROR line"]
    ended = {"effective_test_mode": "AccuracyOnly", "power_end": DAY + "08:55:08.000"}
    assert find(num_errors=1, **ended) == []  # its results are judged elsewhere
    assert find(num_errors=1) == ["num_errors: 1 (line 7), but the log has 0 ERROR lines"]


def test_conditions_follow_from_counts() -> None:
    key = "result_min_queries_met"
    few = {"result_query_count": 8, "effective_min_query_count": 9, "effective_scenario": "Server"}
    assert find(**few, **{key: True}) == [f"{key}: true (line 9), but 8 of 9 queries were issued"]
    assert find(**few, **{key: False}, result_validity="INVALID") == []
    assert find(**few) == []
    assert find(**few | {"result_query_count": 9}, **{key: True}) == []
    assert find(effective_min_query_count=9, **{key: True}) == find(result_query_count=1, **{key: True}) == []
    generated = {"result_query_count": 8, "generated_query_count": 7, "effective_scenario": "Server"}
    assert find(**generated) == ["result_query_count: 8 (line 7), but 7 queries were generated"]
    assert find(**generated | {"generated_query_count": 8}) == find(generated_query_count=0) == []


SERVED = {
    "effective_scenario": "Server",
    "result_query_count": 1000,
    "result_overlatency_query_count": 3,
    "effective_target_latency_percentile": 0.99,
    "early_stopping_met": True,
}


def test_as_many_queries_are_over_the_latency_as_early_stopping_allows() -> None:
    key = "early_stopping_met"
    assert find(**SERVED | {"result_query_count": 1001}) == []
    found = find(**SERVED)
    assert found == [f"{key}: true (line 10), but 3 of 1000 queries were over the latency, and 2 are allowed (line 8)"]
    none = SERVED | {"result_query_count": 458, "result_overlatency_query_count": 0}
    assert find(**none) == [
        f"{key}: true (line 10), but 0 of 458 queries were over the latency, and 0 are allowed (line 8)"
    ]
    assert find(**none | {"result_query_count": 459}) == []
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
        assert find(**SERVED | other) == [], other


@pytest.mark.parametrize("scenario", ["Server", "SingleStream", "MultiStream", "Offline"])
def test_early_stopping_is_met_as_its_text_says(scenario: str) -> None:
    text = " * Run Unsuccessful."
    said = "early_stopping_met: true (line 8), but early_stopping_result is * Run Unsuccessful. (line 7)"
    assert find(effective_scenario=scenario, early_stopping_result=text, early_stopping_met=True) == [said]
    for other in ({"early_stopping_met": False, "result_validity": "INVALID"}, {"early_stopping_met": None}):
        assert find(effective_scenario=scenario, early_stopping_result=text, **other) == []
    fine = {"early_stopping_result": " * Run successful.", "early_stopping_met": True}
    assert find(effective_scenario=scenario, **fine) == []


@pytest.mark.parametrize("scenario", ["SingleStream", "MultiStream", "Server", "Offline"])
@pytest.mark.parametrize(
    ("rank", "key"), [("90.0", "early_stopping_latency_ss"), ("99.0", "early_stopping_latency_ms")]
)
def test_an_estimate_is_the_one_of_its_text(scenario: str, rank: str, key: str) -> None:
    stream = scenario.endswith("Stream")
    text = f" * Processed at least 64 queries (700).\\n * Early stopping {rank}th percentile estimate: 41"
    values = {"effective_scenario": scenario, "early_stopping_result": text}
    assert find(**values, **{key: 41}) == find(**values) == find(**{key: 42}) == []
    said = [f"{key}: 42 (line 8), but early stopping estimates 41 (line 7)"]
    assert find(**values, **{key: 42}) == said * stream
    assert find(**values, **{key: 42}, requested_use_token_latencies=True) == []
    other = "early_stopping_latency_ss" if key.endswith("ms") else "early_stopping_latency_ms"
    assert find(**values, **{other: 42}) == []


def contradicted(log: DetailLog) -> set[str]:
    return {item.key for item in find_inconsistencies(log)}


@pytest.mark.parametrize(("version", "known"), [("2.0 @ 5aae975fc4", True), ("3.0 @ f536725011", False)])
def test_a_count_of_queries_in_quotes_is_that_of_release_2(version: str, known: bool) -> None:
    ended = {"power_end": "02-22-2023 08:55:08.000"}
    assert ("result_query_count" in contradicted(make_log(version, **ended, result_query_count="1"))) is not known
    assert "result_query_count" in contradicted(make_log(version, **ended, result_query_count="-1"))
    assert "result_max_latency_ns" in contradicted(make_log(version, **ended, result_max_latency_ns="1"))


@pytest.mark.parametrize(
    ("version", "end", "wrong"),
    [
        pytest.param("3.0 @ f536725011", "08:55:00.000", False, id="written 8 s after the run"),
        pytest.param("3.0 @ f536725011", "08:55:20.000", True, id="ended after it was written"),
        pytest.param("3.0 @ f536725011", "09:00:00.000", True, id="another time"),
        pytest.param("5.1 @ 3d4e5f6a7b", "08:55:00.000", False, id="as a later release does after a long trace"),
    ],
)
def test_the_end_of_a_run_was_logged_once_its_latencies_were_sorted(version: str, end: str, wrong: bool) -> None:
    assert ("power_end" in contradicted(make_log(version, power_end=f"02-22-2023 {end}"))) is wrong


@pytest.mark.parametrize(
    ("version", "release"), [(".5a1 @ 6958607d52", 0), ("2.1 @ 67eb6a0d0e", 2), ("6.0.17 @ d6147c7eb7", 6), ("", 0)]
)
def test_the_release_is_the_first_number(version: str, release: int) -> None:
    assert make_log(version).release == release
