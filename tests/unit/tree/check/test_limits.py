"""Latency limits and the settings that keep them, on logs of a few lines."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.check.limits import (
    LIMIT_RULES,
    check_equal_issue,
    check_percentile,
    check_target_latency,
    check_token_latencies,
    find_model_key,
    list_token_limits,
)
from tests.unit.tree.check.test_runs import run
from tests.unit.tree.small_cells import DETAIL, RUN, log, rules, say, small_cell

LIMITS = {"most_ttft_latency": 2_000_000_000, "most_tpot_latency": 100_000_000}
TTFT, TPOT = "result_first_token_99.00_percentile_latency_ns", "result_time_per_output_token_99.00_percentile_ns"


def tell(ttft: object, tpot: object, scenario: str, folder: str, limits: dict[str, int]) -> list[tuple[str, str, int]]:
    measured: Any = run((TTFT, ttft), (TPOT, tpot), folder=folder, ran=scenario)
    measured.cell.rules = SimpleNamespace(value=lambda name, _: limits.get(name))
    return [(told.found, told.wanted, told.place.line) for told in list_token_limits(measured)]


@pytest.mark.parametrize(
    ("ttft", "tpot", "told"),
    [
        (1_999_999_999, 99_999_999, []),
        (2_000_000_000, 1, [("p99 TTFT 2000 ms", "below 2000 ms, the limit of Server", 2)]),
        (1, 100_000_000, [("p99 TPOT 100 ms", "below 100 ms, the limit of Server", 3)]),
    ],
)
def test_token_latencies_of_server_are_below_their_limits(
    ttft: int, tpot: int, told: list[tuple[str, str, int]]
) -> None:
    assert tell(ttft, tpot, "Server", "Server", LIMITS) == told
    assert tell(ttft, tpot, "Server", "Server", {}) == []
    assert tell(ttft, tpot, "Offline", "Offline", LIMITS) == []
    assert tell(ttft, tpot, "Server", "Offline", LIMITS) == []


def made(*lines: tuple[str, object], **options: Any) -> Any:
    """A Server run of a round that demands ``values``."""
    values = options.pop("values", {})
    found: Any = run(*lines, **options)
    found.cell.rules = SimpleNamespace(value=lambda name, _: values.get(name))
    return found


def test_a_token_latency_that_is_not_logged_is_not_below_its_limit() -> None:
    (said,) = list_token_limits(made((TPOT, 1), values=LIMITS))
    fix = "lower target_qps and repeat the run"
    assert (said.found, said.place.line, said.fix) == ("p99 TTFT nothing", 0, fix)


TARGET = "effective_target_latency_ns"


@pytest.mark.parametrize(
    ("found", "said"),
    [(15_000_000, ""), (15_000_001, "15.000001"), (1, ""), (None, None), ("soon", None)],
)
def test_the_target_latency_of_server_is_at_most_the_rounds(found: object, said: str | None) -> None:
    lines = [] if found is None else [(TARGET, found)]
    values = {"most_target_latency": 15_000_000}
    shown = "nothing" if said is None else f"{said} ms"
    place = "detail.txt:2" if lines else "detail.txt"
    wanted = [] if said == "" else [f"{place}: target latency {shown}; wanted at most 15 ms"]
    assert say(check_target_latency(made(*lines, values=values))) == wanted
    assert not list(check_target_latency(made(*lines)))
    assert not list(check_target_latency(made(*lines, values=values, ran="Offline", folder="Offline")))


PERCENTILE = "effective_target_latency_percentile"


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (0.99, ""),
        (0.990000999, ""),
        (0.989999001, ""),
        (0.990001, "99.0001"),
        (0.989999, "98.9999"),
        (0.9, "90"),
        (0.97, "97"),
        ("x", ""),
        (None, ""),
    ],
)
def test_the_percentile_is_the_rounds(found: object, shown: str) -> None:
    lines = [] if found is None else [(PERCENTILE, found)]
    values = {"target_latency_percentile": 99}
    said = (
        f"detail.txt:2: percentile {shown} of the latency; wanted 99, which v6.1 states Server by; "
        "because: LoadGen was given another model key, or a percentile in user.conf or code; "
        "to mend: leave the percentile to LoadGen, and repeat the run"
    )
    assert say(check_percentile(made(*lines, values=values))) == ([said] if shown else [])
    opened = say(check_percentile(made(*lines, values=values, division="open")))
    assert opened == ([f"warning {said}"] if shown else [])
    assert not list(check_percentile(made(*lines)))
    assert not list(check_percentile(made(*lines, values=values, ran="Offline", folder="Offline")))


def test_a_percentile_of_the_round_may_have_digits() -> None:
    (said,) = check_percentile(made((PERCENTILE, 0.5), values={"target_latency_percentile": "99.90"}))
    assert said.wanted == "99.9, which v6.1 states Server by"


TOKEN = "requested_use_token_latencies"


@pytest.mark.parametrize("value", [True, False, "true", None])
def test_token_latencies_are_measured_where_the_round_needs_them(value: object) -> None:
    lines = [] if value is None else [(TOKEN, value)]
    needed = {"exact_use_token_latencies": True, "model_key": "llama"}
    said = (
        f"detail.txt{':2' if lines else ''}: token latencies were not measured; wanted use_token_latencies on; "
        "because: LoadGen was given another model key, so that its settings for this benchmark did not apply; "
        "to mend: pass the model key llama"
    )
    assert say(check_token_latencies(made(*lines, values=needed))) == ([] if value is True else [said])
    assert not list(check_token_latencies(made(*lines, values={"model_key": "llama"})))


ASKED_TTFT, ASKED_TPOT = "requested_server_ttft_latency", "requested_server_tpot_latency"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([(ASKED_TTFT, 2_000_000_000), (ASKED_TPOT, 100_000_000)], ""),
        ([(ASKED_TTFT, 2_000_000_001), (ASKED_TPOT, 100_000_001)], "2: LoadGen's TTFT limit was 2000.000001 ms"),
        ([(ASKED_TTFT, 1), (ASKED_TPOT, 100_000_001)], "3: LoadGen's TPOT limit was 100.000001 ms"),
        ([(ASKED_TPOT, 200_000_000)], "2: LoadGen's TPOT limit was 200 ms"),
        ([], ""),
    ],
)
def test_interactive_ran_with_the_limits_of_its_own_model_key(lines: list[tuple[str, object]], said: str) -> None:
    values = {**LIMITS, "model_key": "llama-interactive"}
    asked = made(*lines, values=values, folder="Interactive")
    asked.inferred, asked.scenario = False, "Interactive"
    limit = "2000 ms" if "TTFT" in said else "100 ms"
    wanted = f"at most {limit}, the limit of Interactive"
    mend = "because: LoadGen was given the model key of Server; to mend: pass the model key llama-interactive"
    assert say(find_model_key(asked)) == ([f"detail.txt:{said}; wanted {wanted}; {mend}"] if said else [])
    asked.scenario = "Server"
    assert not list(find_model_key(asked))
    unlimited = made(*lines, folder="Interactive")
    unlimited.scenario = "Interactive"
    assert not list(find_model_key(unlimited))


EQUAL = "effective_sample_concatenate_permutation"
EARLY = ("loadgen_version", "1.1 @ 0123456789")  # it does not log the setting
LATER = ("loadgen_version", "5.1 @ 0123456789")
ON, OFF = "resnet50.*.sample_concatenate_permutation = 1\n", "resnet50.*.sample_concatenate_permutation = 0\n"


@pytest.mark.parametrize(
    ("lines", "confs", "equal"),
    [
        pytest.param([LATER, (EQUAL, True)], {}, True, id="logged"),
        pytest.param([LATER, (EQUAL, False)], {"user.conf": ON}, False, id="logged otherwise"),
        pytest.param([LATER, (EQUAL, "true")], {"user.conf": ON}, False, id="logged as a word"),
        pytest.param([LATER], {"user.conf": ON}, False, id="not logged by who logs it"),
        pytest.param([EARLY], {"user.conf": ON}, True, id="configured"),
        pytest.param([EARLY], {"mlperf.conf": ON}, True, id="configured in mlperf.conf"),
        pytest.param([EARLY], {"mlperf.conf": OFF, "user.conf": ON}, True, id="in one of both"),
        pytest.param([EARLY], {"user.conf": OFF}, False, id="configured otherwise"),
        pytest.param([EARLY], {"user.conf": ON.replace("resnet50", "bert")}, False, id="of another model"),
        pytest.param([EARLY], {"user.conf": ON.replace("*", "Server")}, False, id="of another scenario"),
        pytest.param([EARLY], {}, False, id="no conf"),
    ],
)
def test_every_sample_is_issued_equally_often(
    tmp_path: Path, lines: list[tuple[str, object]], confs: dict[str, str], equal: bool
) -> None:
    files = {f"{RUN}/{DETAIL}": log(("effective_scenario", "Offline"), *lines), **confs}
    needed = {"exact_sample_concatenate_permutation": True, "model_key": "resnet50"}
    found = small_cell(tmp_path / "a", files, benchmark=rules(values=needed)).performance
    assert found is not None
    shown = {True: "true", False: "false"}.get(dict(lines).get(EQUAL, ""), dict(lines).get(EQUAL, "nothing"))  # type: ignore[call-overload]
    place = f"./{RUN}/{DETAIL}{':3' if EQUAL in dict(lines) else ''}"
    said = f"{place}: sample_concatenate_permutation {shown}; wanted true: every sample is issued equally often"
    assert say(check_equal_issue(found)) == ([] if equal else [f"{said}; to mend: pass the model key resnet50"])
    unasked = small_cell(tmp_path / "a", files, benchmark=rules()).performance
    assert unasked is not None
    assert not list(check_equal_issue(unasked))
    del needed["model_key"]
    named = {name: text.replace("resnet50", "resnet") for name, text in files.items()}
    unkeyed = small_cell(tmp_path / "b", named, benchmark=rules(values=needed)).performance
    assert unkeyed is not None
    assert (not list(check_equal_issue(unkeyed))) is equal


def test_rules_of_limits_by_their_ids() -> None:
    assert [(rule.id, check) for rule, check in LIMIT_RULES] == [
        ("run.target-latency", check_target_latency),
        ("run.percentile", check_percentile),
        ("run.token-latencies", check_token_latencies),
        ("run.token-limits", list_token_limits),
        ("run.model-key", find_model_key),
        ("run.equal-issue", check_equal_issue),
    ]
    assert [rule.sources for rule, _ in LIMIT_RULES if "mlperf.conf" in rule.sources] == [
        ("inference rules", "mlperf.conf"),
        ("mlperf.conf", "ours"),
    ]
