"""Latencies of tokens against each other, in a log of a run that measures them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from reconciler.loadgen.derivations import find_wrong_tokens
from reconciler.loadgen.log import DetailLog
from tests.unit.tree.small_cells import parse_log

RANKS = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
FIRST = [
    "result_first_token_min_latency_ns",
    *(f"result_first_token_{rank}_percentile_latency_ns" for rank in RANKS),
    "result_first_token_max_latency_ns",
]
EACH = [
    "result_time_to_output_token_min",
    *(f"result_time_per_output_token_{rank}_percentile_ns" for rank in RANKS),
    "result_time_to_output_token_max",
]
MEANS = {"result_first_token_mean_latency_ns": FIRST, "result_time_to_output_token_mean": EACH}
PAIRS = [pair for keys in (FIRST, EACH) for pair in pairwise(keys)]


def log(**values: object) -> DetailLog:
    return parse_log({"requested_use_token_latencies": True, "effective_scenario": "Server", **values})


def wrong(**values: object) -> list[tuple[str, str, str, int]]:
    found = find_wrong_tokens(log(**values))
    return [(item.key, item.stated, item.derived, item.line) for item in found]


@pytest.mark.parametrize(("below", "above"), PAIRS)
def test_percentiles_between_the_least_and_the_greatest_do_not_fall(below: str, above: str) -> None:
    assert wrong(**{below: 10, above: 10}) == []
    assert wrong(**{below: 10, above: 9}) == [(above, "9", f"{below} is 10", 4)]
    assert wrong(**{below: 10, above: 9, "requested_use_token_latencies": False}) == []


@pytest.mark.parametrize("mean", MEANS)
def test_a_mean_lies_between_the_least_and_the_greatest(mean: str) -> None:
    least, greatest = MEANS[mean][0], MEANS[mean][-1]
    for inside in (5, 7, 9):
        assert wrong(**{least: 5, greatest: 9, mean: inside}) == []
    for outside in (4, 10):
        assert wrong(**{least: 5, greatest: 9, mean: outside}) == [(mean, str(outside), "they are from 5 to 9", 5)]
    assert wrong(**{least: 5, mean: 4}) == []  # nothing to lie between


@pytest.mark.parametrize("part", ["min", "mean", "max", *(f"{rank}_percentile" for rank in RANKS)])
def test_a_first_token_comes_no_later_than_its_answer(part: str) -> None:
    first, whole = f"result_first_token_{part}_latency_ns", f"result_{part}_latency_ns"
    assert wrong(**{first: 10, whole: 10}) == []
    assert wrong(**{first: 11, whole: 10}) == [(first, "11", f"{whole} is 10", 3)]


@pytest.mark.parametrize(("rate", "believed"), [("20", True), ("10", True), ("9.99999", True), ("9.9", False)])
def test_each_answer_of_an_offline_run_has_a_token_at_least(rate: str, believed: bool) -> None:
    values = {"result_tokens_per_second": float(rate), "result_samples_per_second": 10}
    said = ("result_tokens_per_second", rate, "10 answers a second have a token each, at least", 3)
    assert wrong(effective_scenario="Offline", **values) == ([] if believed else [said])


def served(**values: float) -> dict[str, float]:
    """A Server run of 101 answers of two tokens each, 10 answers a second; 100 ns to the first token."""
    whole = values["result_mean_latency_ns"]
    return {
        "result_completed_tokens_per_second": 20.2,
        "result_completed_samples_per_sec": 10,
        "result_query_count": 101,
        "result_first_token_mean_latency_ns": 100,
        "result_token_throughput": 2 / whole,
        **values,
    }


def test_both_rates_are_of_as_many_tokens() -> None:
    values = served(result_mean_latency_ns=1e9)
    assert wrong(**values) == []
    rate, other = "result_completed_tokens_per_second", "result_token_throughput"
    believed = wrong(**{**values, rate: 20.3})  # 203 tokens of 202: one may be a rounded part
    assert believed == []
    for each in (20.4, 20.0):
        ((key, stated, why, line),) = wrong(**{**values, rate: each})
        assert (key, float(stated), line) == (rate, each, 3)
        assert why == f"that is {10 * each:.1f} tokens, and {other} is of 202.000"
    for missing in (other, "result_completed_samples_per_sec", "result_query_count", "result_mean_latency_ns"):
        assert wrong(**{key: value for key, value in values.items() if key != missing} | {rate: 40}) == []
    assert wrong(**{**values, rate: 40, "result_query_count": 1}) == []


@pytest.mark.parametrize(
    ("mean", "each", "believed"),
    [
        (109, 11, True),  # 9 ns, and one for what was cut off, are one token of 11 ns, of which one may be cut off too
        (108, 11, False),
        (112, 10, True),
        (113, 10, False),
        (101, 1, True),
    ],
)
def test_tokens_behind_the_first_take_the_time_to_the_end(mean: int, each: int, believed: bool) -> None:
    ends = {"result_time_to_output_token_min": each, "result_time_to_output_token_max": each}
    values = served(result_mean_latency_ns=mean, **ends)
    found = wrong(**values)
    assert [key for key, *_ in found] == ([] if believed else ["result_completed_tokens_per_second"])
    low, high = 1 + (mean - 101) / (each + 1), 1 + (mean - 99) / max(each - 1, 1)
    why = f"answers have 2.0 tokens then, and their latencies leave room for {low:.6g} to {high:.6g}"
    assert [derived for _, _, derived, _ in found] == ([] if believed else [why])
    assert wrong(**{key: value for key, value in values.items() if key != "result_time_to_output_token_max"}) == []


def test_conditions_are_met_only_with_both_texts_and_both_percentiles() -> None:
    for part in ("ttft", "tpot"):
        text = f"early_stopping_{part}_result"
        assert wrong(early_stopping_met=True, **{text: " * Run successful."}) == []
        assert (
            wrong(early_stopping_met=False, **{text: " * Run successful."}) == []
        )  # of the other it may say otherwise
        assert wrong(early_stopping_met=False, **{text: " * Run unsuccessful.\n * Processed 9 queries."}) == []
        for said in ("", "Run successful.", " * Processed at least 64 queries (9)."):
            why = "LoadGen words it otherwise in Server"
            assert wrong(early_stopping_met=True, **{text: said}) == [(text, said.strip(), why, 4)]
            assert wrong(early_stopping_met=False, **{text: said}) == []
            assert wrong(early_stopping_met=True, **{text: said}, effective_scenario="SingleStream") == []
        (found,) = wrong(early_stopping_met=True, **{text: " * Run unsuccessful."})
        assert found[0] == "early_stopping_met"
        assert found[1] == "true"
        assert found[2].startswith(f"{text} is ")
        assert found[3] == 3
    known = {"effective_target_latency_percentile": 0.99, "result_perf_constraints_met": True}
    bounds = {
        "requested_server_ttft_latency": (
            "result_first_token_99.00_percentile_latency_ns",
            2_000_000_000,
            "2001.00 ms of 2000",
        ),
        "requested_server_tpot_latency": (
            "result_time_per_output_token_99.00_percentile_ns",
            200_000_000,
            "201.000 ms of 200.0",
        ),
    }
    for limit, (key, most, said) in bounds.items():
        late = {**known, limit: most, key: most + 1_000_000}
        assert wrong(**late) == [("result_perf_constraints_met", "true", f"{key} is {said}", 4)]
        assert wrong(**{**late, key: most}) == []
        assert wrong(**{**late, "result_perf_constraints_met": False}) == []
        assert wrong(**late, effective_scenario="SingleStream") == []
