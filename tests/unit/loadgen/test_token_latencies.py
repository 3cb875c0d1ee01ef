"""Latencies of tokens against each other, in a log of a run that measures them."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from reconciler.loadgen.derivations import find_wrong_tokens
from reconciler.loadgen.log import DetailLog, parse_detail

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
PAIRS = [pair for keys in (FIRST, EACH) for pair in pairwise(keys)]


def log(**values: object) -> DetailLog:
    entries = {"requested_use_token_latencies": True, "effective_scenario": "Server", **values}
    lines = [
        json.dumps({"key": key, "value": value, "time_ms": 1.0, "namespace": "mlperf::logging"})
        for key, value in entries.items()
    ]
    return parse_detail("".join(f":::MLLOG {line}\n" for line in lines).encode())


def wrong(**values: object) -> list[tuple[str, str, str, int]]:
    found = find_wrong_tokens(log(**values))
    return [(item.key, item.stated, item.derived, item.line) for item in found]


@pytest.mark.parametrize(("below", "above"), PAIRS)
def test_percentiles_between_the_least_and_the_greatest_do_not_fall(below: str, above: str) -> None:
    assert wrong(**{below: 10, above: 10}) == []
    assert wrong(**{below: 10, above: 9}) == [(above, "9", f"{below} is 10", 4)]
    assert wrong(**{below: 10, above: 9, "requested_use_token_latencies": False}) == []


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
