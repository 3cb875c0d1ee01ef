"""Latency limits and the settings that keep them, on logs of a few lines."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.check.limits import (
    check_equal_issue,
    check_percentile,
    check_target_latency,
    check_token_latencies,
    find_model_key,
)
from tests.unit.check.test_runs import run
from tests.unit.tree.small_cells import DETAIL, RUN, log, rules, say, small_cell

LIMITS = {"most_ttft_latency": 2_000_000_000, "most_tpot_latency": 100_000_000}


def made(*lines: tuple[str, object], **options: Any) -> Any:
    """A Server run of a round that demands ``values``."""
    values = options.pop("values", {})
    found: Any = run(*lines, **options)
    found.cell.rules = SimpleNamespace(get_value=lambda name, _: values.get(name))
    return found


TARGET = "effective_target_latency_ns"


@pytest.mark.parametrize(
    ("found", "reported"),
    [(15_000_000, []), (15_000_001, ["detail.txt:2"]), (1, []), (None, ["detail.txt"]), ("soon", ["detail.txt:2"])],
)
def test_the_target_latency_of_server_is_at_most_the_rounds(found: object, reported: list[str]) -> None:
    lines, values = [] if found is None else [(TARGET, found)], {"most_target_latency": 15_000_000}
    assert say(check_target_latency(made(*lines, values=values))) == reported
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
    said = "detail.txt:2"
    assert say(check_percentile(made(*lines, values=values))) == ([said] if shown else [])
    opened = say(check_percentile(made(*lines, values=values, division="open")))
    assert opened == ([f"warning {said}"] if shown else [])
    assert not list(check_percentile(made(*lines)))
    assert not list(check_percentile(made(*lines, values=values, ran="Offline", folder="Offline")))


TOKEN = "requested_use_token_latencies"


@pytest.mark.parametrize("value", [True, False, "true", None])
def test_token_latencies_are_measured_where_the_round_needs_them(value: object) -> None:
    lines = [] if value is None else [(TOKEN, value)]
    needed = {"exact_use_token_latencies": True, "model_key": "llama"}
    said = f"detail.txt{':2' if lines else ''}"
    assert say(check_token_latencies(made(*lines, values=needed))) == ([] if value is True else [said])
    assert not list(check_token_latencies(made(*lines, values={"model_key": "llama"})))


ASKED_TTFT, ASKED_TPOT = "requested_server_ttft_latency", "requested_server_tpot_latency"


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ([(ASKED_TTFT, 2_000_000_000), (ASKED_TPOT, 100_000_000)], 0),
        ([(ASKED_TTFT, 2_000_000_001), (ASKED_TPOT, 100_000_001)], 2),
        ([(ASKED_TTFT, 1), (ASKED_TPOT, 100_000_001)], 3),
        ([(ASKED_TPOT, 200_000_000)], 2),
        ([], 0),
    ],
)
def test_interactive_ran_with_the_limits_of_its_own_model_key(lines: list[tuple[str, object]], line: int) -> None:
    values = {**LIMITS, "model_key": "llama-interactive"}
    asked = made(*lines, values=values, folder="Interactive")
    asked.inferred, asked.scenario = False, "Interactive"
    assert say(find_model_key(asked)) == ([f"detail.txt:{line}"] if line else [])
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
    place = f"./{RUN}/{DETAIL}{':3' if EQUAL in dict(lines) else ''}"
    assert say(check_equal_issue(found)) == ([] if equal else [place])
    unasked = small_cell(tmp_path / "a", files, benchmark=rules()).performance
    assert unasked is not None
    assert not list(check_equal_issue(unasked))
    del needed["model_key"]
    named = {name: text.replace("resnet50", "resnet") for name, text in files.items()}
    unkeyed = small_cell(tmp_path / "b", named, benchmark=rules(values=needed)).performance
    assert unkeyed is not None
    assert (not list(check_equal_issue(unkeyed))) is equal
