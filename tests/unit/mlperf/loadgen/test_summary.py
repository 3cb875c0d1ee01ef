"""Numbers of a summary beside those of the detail log, which has more or fewer of their digits."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest

from reconciler.loadgen.summary import find_differing, is_same_number, list_result_keys, parse_summary
from tests.unit.mlperf.conftest import Run
from tests.unit.mlperf.loadgen.test_contradictions import make_log


@pytest.mark.parametrize(
    ("said", "logged", "same"),
    [
        ("1000.25", "1000.25", True),
        ("1000.25", "1000.254", True),  # two decimals of three
        ("1000.25", "1000.27", False),
        ("0.12", "0.129", True),  # the last digit shown is cut or rounded
        ("0.12", "0.131", False),
        ("1234567.89", "1.23457e+06", True),  # six digits are logged
        ("1234567.89", "1.2346e+06", False),
        ("512", "512", True),
        ("512", "513", False),
        ("100000", "100001", True),  # at one part in 100 000
        ("100000", "100002", False),
        ("-3.5", "3.5", False),
        ("0", "0", True),
        ("0", "1", False),
        ("nan", "1", False),
        ("inf", "1", False),
        ("VALID", "1", False),
        ("2085463e848966840", "2085463073848966840", False),  # beyond what decimals compute with
    ],
)
def test_a_number_of_the_summary_is_the_logged_one_to_the_digits_shown(said: str, logged: str, same: bool) -> None:
    assert is_same_number(said, Decimal(logged)) is same


def told_apart(run: Run) -> tuple[set[str], set[str]]:
    """Names of a real summary whose value, once changed, is found to differ from the detail log; and of which not."""
    log, text = run.detail, run.bytes("summary.txt").decode()
    assert list(find_differing(parse_summary(text.encode()), log)) == []
    found: tuple[set[str], set[str]] = set(), set()
    for line in text.splitlines():
        name, colon, value = (part.strip() for part in line.partition(":"))
        other = {"Yes": "NO", "No": "YES", "VALID": "INVALID"}.get(value, f"7{value}")
        if colon and value:
            changed = parse_summary(text.replace(line, f"{name} : {other}", 1).encode())
            differing = [name for name, _ in find_differing(changed, log)]
            assert differing in ([], [name]), line
            found[not differing].add(name)
    return found


COMPARED = {
    "Scenario",
    "Mode",
    "Result is",
    "Min duration satisfied",
    "Min queries satisfied",
    "Early stopping satisfied",
    "Min latency (ns)",
    "Max latency (ns)",
    "Mean latency (ns)",
    "50.00 percentile latency (ns)",
    "90.00 percentile latency (ns)",
    "95.00 percentile latency (ns)",
    "97.00 percentile latency (ns)",
    "99.00 percentile latency (ns)",
    "99.90 percentile latency (ns)",
    "samples_per_query",
    "target_qps",
    "target_latency (ns)",
    "max_async_queries",
    "min_duration (ms)",
    "max_duration (ms)",
    "min_query_count",
    "max_query_count",
    "qsl_rng_seed",
    "sample_index_rng_seed",
    "schedule_rng_seed",
    "accuracy_log_rng_seed",
    "accuracy_log_probability",
    "accuracy_log_sampling_target",
    "performance_issue_unique",
    "performance_issue_same",
    "performance_issue_same_index",
    "print_timestamps",
    "performance_sample_count",
}


@pytest.mark.parametrize(
    ("name", "own"),
    [
        (
            "single-stream-valid",
            [
                *("90.0th percentile latency (ns)", "QPS w/ loadgen overhead", "QPS w/o loadgen overhead"),
                *(f"* Early stopping {rank} percentile estimate" for rank in ("90.0th", "99.0th")),
            ],
        ),
        ("multi-stream-valid", ["99.0th percentile latency (ns)", "* Early stopping 99.0th percentile estimate"]),
        (
            "server-valid",
            ["Scheduled samples per second", "Completed samples per second", "Performance constraints satisfied"],
        ),
        ("offline-valid", ["Samples per second"]),
    ],
)
def test_what_a_real_summary_says_is_compared_with_the_log(
    loadgen_run: Callable[[str], Run], name: str, own: list[str]
) -> None:
    compared, _ = told_apart(loadgen_run(name))
    assert compared - {"SUT name"} == COMPARED | set(own)


@pytest.mark.parametrize("word", ["No", "no", "NO"])
def test_no_errors_are_none_in_letters_of_either_size(word: str) -> None:
    assert parse_summary(f"{word} errors encountered during test.\n".encode()).errors == 0


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("performance_issue_unique : true", "1"),
        ("performance_issue_same : false", "0"),
        ("print_timestamps : 1", "1"),
        ("Scenario : Multi Stream", "MultiStream"),
        ("Scenario : Offline", "Offline"),
        ("Mode : Submission", "SubmissionRun"),
        ("SUT name : true", "true"),
        ("qsl_rng_seed : false", "false"),
    ],
)
def test_words_of_early_rounds_are_those_of_today_where_they_were_written(line: str, value: str) -> None:
    name = line.partition(" :")[0]
    assert parse_summary(f"{line}\n".encode()).get(name) == value


RANKS = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
TEXTS = {
    "SUT name": "sut_name",
    "Scenario": "effective_scenario",
    "Mode": "effective_test_mode",
    "Result is": "result_validity",
}
FLAGS = {
    "Performance constraints satisfied": "result_perf_constraints_met",
    "Min duration satisfied": "result_min_duration_met",
    "Min queries satisfied": "result_min_queries_met",
    "Early stopping satisfied": "early_stopping_met",
}
SWITCHES = ("performance_issue_unique", "performance_issue_same", "print_timestamps")
RATES = {
    "Samples per second": "result_samples_per_second",
    "Completed samples per second": "result_completed_samples_per_sec",
    "Scheduled samples per second": "result_scheduled_samples_per_sec",
    "Completed tokens per second": "result_completed_tokens_per_second",
    "Tokens per second": "result_tokens_per_second",
    "QPS w/ loadgen overhead": "result_qps_with_loadgen_overhead",
    "QPS w/o loadgen overhead": "result_qps_without_loadgen_overhead",
}
SETTINGS = {
    "ttft_latency (ns)": "requested_server_ttft_latency",
    "tpot_latency (ns)": "requested_server_tpot_latency",
    "target_latency (ns)": "effective_target_latency_ns",
    "min_duration (ms)": "effective_min_duration_ms",
    "max_duration (ms)": "effective_max_duration_ms",
    **{
        name: f"effective_{name}"
        for name in (
            *("samples_per_query", "target_qps", "max_async_queries", "min_query_count", "max_query_count"),
            *("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed", "accuracy_log_rng_seed"),
            *("accuracy_log_probability", "accuracy_log_sampling_target", "performance_issue_same_index"),
            "performance_sample_count",
        )
    },
}
LATENCIES = {
    "Min latency (ns)": "result_min_latency_ns",
    "Max latency (ns)": "result_max_latency_ns",
    "Mean latency (ns)": "result_mean_latency_ns",
    **{f"{rank} percentile latency (ns)": f"result_{rank}_percentile_latency_ns" for rank in RANKS},
}
TOKENS = {
    "Min First Token latency (ns)": "result_first_token_min_latency_ns",
    "Max First Token latency (ns)": "result_first_token_max_latency_ns",
    "Mean First Token latency (ns)": "result_first_token_mean_latency_ns",
    "Min Time to Output Token (ns)": "result_time_to_output_token_min",
    "Max Time to Output Token (ns)": "result_time_to_output_token_max",
    "Mean Time to Output Token (ns)": "result_time_to_output_token_mean",
    **{
        f"{rank} percentile first token latency (ns)": f"result_first_token_{rank}_percentile_latency_ns"
        for rank in RANKS
    },
    **{
        f"{rank} percentile time to output token (ns)": f"result_time_per_output_token_{rank}_percentile_ns"
        for rank in RANKS
    },
}
QUERIES = {
    "Min latency (ns)": "result_min_query_latency_ns",
    "Max latency (ns)": "result_max_query_latency_ns",
    "Mean latency (ns)": "result_mean_query_latency_ns",
    "99.0th percentile latency (ns)": "result_99.00_percentile_per_query_latency_ns",
    **{f"{rank} percentile latency (ns)": f"result_{rank}_percentile_per_query_latency_ns" for rank in RANKS},
}
SINGLE = {"90.0th percentile latency (ns)": "result_90.00_percentile_latency_ns"}


def differing(said: dict[str, str], version: str = "6.0 @ a", /, **logged: object) -> list[tuple[str, str]]:
    text = "".join(f"{name} : {value}\n" for name, value in said.items())
    nothing = {"effective_test_mode": None, "result_validity": None}
    return list(find_differing(parse_summary(text.encode()), make_log(version, **nothing | logged)))


def test_every_number_of_a_summary_is_held_against_its_line() -> None:
    for name, key in {**RATES, **SETTINGS, **LATENCIES, **TOKENS, **SINGLE}.items():
        assert differing({name: "7"}, **{key: 7}) == differing({name: "7"}) == [], name
        assert differing({name: "7"}, **{key: 8}) == [(name, key)], name
        assert differing({name: ""}, **{key: 8}) == [], name
        assert differing({name: "7"}, **{key: True}) == differing({name: "7"}, **{key: "8"}) == [], name
    stream = {"effective_scenario": "MultiStream"}
    for name, key in {**RATES, **SETTINGS, **TOKENS, **SINGLE, **QUERIES}.items():
        assert differing({name: "7"}, **stream, **{key: 7}) == [], name
        assert differing({name: "7"}, **stream, **{key: 8}) == [(name, key)], name
    for name, key in LATENCIES.items():  # which there are of samples
        assert differing({name: "7"}, **stream, **{key: 8}) == [], name


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("* Early stopping 90th percentile estimate", "early_stopping_latency_ss"),
        ("* Early stopping 90.0th percentile estimate", "early_stopping_latency_ss"),
        ("* Early stopping 99th percentile estimate", "early_stopping_latency_ms"),
        ("* Early stopping 99.0th percentile estimate", "early_stopping_latency_ms"),
    ],
)
def test_an_estimate_of_early_stopping_is_the_logged_one(name: str, key: str) -> None:
    """Runs that measure tokens have estimates of first tokens and of tokens under the same name."""
    for scenario in ("SingleStream", "MultiStream"):
        ran = {"effective_scenario": scenario}
        assert differing({name: "7"}, **ran, **{key: 7}) == []
        assert differing({name: "7"}, **ran, **{key: 8}) == [(name, key)]
        assert differing({name: "7"}, **ran, **{key: 8, "requested_use_token_latencies": True}) == []
    assert differing({name: "7"}, effective_scenario="Server", **{key: 8}) == []


def test_every_text_and_flag_of_a_summary_is_held_against_its_line() -> None:
    for name, key in TEXTS.items():
        assert differing({name: "a"}, **{key: "a"}) == differing({name: "a\0"}, **{key: " a\0"}) == []
        assert differing({name: "a"}, **{key: "b"}) == [(name, key)]
        assert differing({name: ""}, **{key: "b"}) == differing({name: "a"}, **{key: 7}) == []
    for name, key in FLAGS.items():
        for said, logged in (("Yes", True), ("NO", False), ("no", False)):
            assert differing({name: said}, **{key: logged}) == []
            assert differing({name: said}, **{key: not logged}) == [(name, key)]
            assert differing({name: "perhaps"}, **{key: logged}) == differing({name: said}, **{key: 7}) == []
    for name in SWITCHES:
        key = f"effective_{name}"
        for said, logged in (("1", True), ("0", False), ("true", True), ("false", False)):
            assert differing({name: said}, **{key: logged}) == []
            assert differing({name: said}, **{key: not logged}) == [(name, key)]
            assert differing({name: said}, **{key: 7}) == differing({name: ""}, **{key: logged}) == []


def test_a_number_of_many_digits_is_the_logged_one() -> None:
    name, key = "qsl_rng_seed", "effective_qsl_rng_seed"
    for number in (10**17, 10**18, 2**64 - 1):
        assert differing({name: str(number)}, **{key: number}) == []
        assert differing({name: str(number)}, **{key: number * 2}) == [(name, key)]
    assert differing({name: "7"}, **{key: [7, 8]}) == []


@pytest.mark.parametrize("scenario", ["Single Stream", "Server", "Multi Stream", "MultiStream", ""])
def test_results_of_a_summary_of_before_v1_have_the_keys_that_they_have_since(scenario: str) -> None:
    own = {**TEXTS, **FLAGS, **RATES, **LATENCIES, **TOKENS, **SINGLE}
    expected = {name: key for name, key in own.items() if name == "Result is" or name not in TEXTS}
    if scenario == "MultiStream":
        expected |= {name: key for name, key in QUERIES.items() if name[0].isdigit() and "th" not in name}
    assert dict(list_result_keys(scenario)) == expected
    assert len(list_result_keys(scenario)) == len(expected)


def test_a_summary_that_says_two_things_is_read_in_both_ways_since_release_4() -> None:
    text = b"1 warning encountered. See detailed log.\nNo errors encountered during test.\n"
    twice = parse_summary(b"a : 1\nb : 2\na : 3\na : 4\nb : 2\n" + text, "s.txt")
    assert (twice.get("a"), twice.number("a"), twice.get("b"), twice.get("c"), twice.get("c", "-")) == (
        "1",
        1,
        "2",
        "",
        "-",
    )
    for version, readings in (("4.0 @ a", ["1", "3"]), ("6.0 @ a", ["1", "3"]), ("3.1 @ a", ["1"])):
        found = twice.list_readings(make_log(version))
        assert [reading.get("a") for reading in found] == readings
        assert {(each.file, each.warnings, each.errors) for each in found} == {("s.txt", 1, 0)}
    assert twice.list_readings(make_log("6.0 @ a"))[1].number("a") == 3
    once = parse_summary(b"a : 1\na : 1\n")
    assert once.list_readings(make_log("6.0 @ a")) == (once,)
    assert once.file == "mlperf_log_summary.txt"


@pytest.mark.parametrize(
    ("line", "warnings", "errors"),
    [
        ("7 warnings encountered. See detailed log.", 7, None),
        ("7 ERRORS encountered. See detailed log.", None, 7),
        ("1 error encountered", None, 1),
        ("No warnings encountered during test.", 0, None),
        (f"{'1' * 30} errors encountered", None, int("1" * 18)),
        ("Some errors encountered", None, None),
        ("errors: 7 errors encountered", None, None),
        (" 7 errors encountered", None, None),
    ],
)
def test_warnings_and_errors_are_counted_at_the_end(line: str, warnings: int | None, errors: int | None) -> None:
    summary = parse_summary(f"Result is : VALID\n{line}\n".encode())
    assert (summary.warnings, summary.errors, summary.validity) == (warnings, errors, "VALID")
    assert parse_summary(b"").validity == ""


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("Scenario : Single Stream", "SingleStream"),
        ("Mode : Performance", "PerformanceOnly"),
        ("Mode : Accuracy", "AccuracyOnly"),
        ("Mode : Submission", "SubmissionRun"),
        ("performance_issue_same : true", "1"),
        ("performance_issue_unique : false", "0"),
        ("print_timestamps : true", "1"),
        ("SUT name : Accuracy", "Accuracy"),
        ("a : b : c", "b : c"),
    ],
)
def test_a_line_is_a_name_and_what_stands_behind_the_first_colon(line: str, value: str) -> None:
    assert parse_summary(line.encode()).get(line.partition(" :")[0]) == value


def test_bytes_that_are_no_text_are_shown_in_their_place() -> None:
    assert parse_summary(b"SUT name : a\xffb").get("SUT name") == "a\ufffdb"
