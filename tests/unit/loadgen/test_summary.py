"""Numbers of a summary against those of the detail log, which has more or fewer of their digits."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest

from reconciler.loadgen.summary import find_differing, is_same_number, parse_summary
from tests.unit.loadgen.conftest import Run
from tests.unit.loadgen.test_contradictions import make_log


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


def distinguished(run: Run) -> tuple[set[str], set[str]]:
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


@pytest.mark.parametrize("name", ["single-stream-valid", "multi-stream-valid", "server-valid", "offline-valid"])
def test_what_a_real_summary_says_is_compared_with_the_log(loadgen_run: Callable[[str], Run], name: str) -> None:
    compared, others = distinguished(loadgen_run(name))
    assert others == {"accuracy_sample_count"}
    assert {"Result is", "target_qps", "Max latency (ns)"} <= compared


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


def differing(said: dict[str, str], version: str = "6.0 @ a", /, **logged: object) -> list[tuple[str, str]]:
    text = "".join(f"{name} : {value}\n" for name, value in said.items())
    nothing = {"effective_test_mode": None, "result_validity": None}
    return list(find_differing(parse_summary(text.encode()), make_log(version, **nothing | logged)))


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


def test_a_number_of_many_digits_is_the_logged_one() -> None:
    name, key = "qsl_rng_seed", "effective_qsl_rng_seed"
    for number in (10**17, 10**18, 2**64 - 1):
        assert differing({name: str(number)}, **{key: number}) == []
        assert differing({name: str(number)}, **{key: number * 2}) == [(name, key)]
    assert differing({name: "7"}, **{key: [7, 8]}) == []


def test_a_summary_that_says_two_things_is_read_in_both_ways_since_release_4() -> None:
    text = b"1 warning encountered. See detailed log.\nNo errors encountered during test.\n"
    twice = parse_summary(b"a : 1\nb : 2\na : 3\na : 4\nb : 2\n" + text, "s.txt")
    assert (twice.get("a"), twice.find_line_number("a"), twice.get("b"), twice.get("c"), twice.get("c", "-")) == (
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
    assert twice.list_readings(make_log("6.0 @ a"))[1].find_line_number("a") == 3
    once = parse_summary(b"a : 1\na : 1\n")
    assert once.list_readings(make_log("6.0 @ a")) == (once,)
    assert once.file == "mlperf_log_summary.txt"
