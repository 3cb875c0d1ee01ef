"""Each rule of a performance run, on logs of a few lines: what it finds, what it wants, and at which line."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.check import runs
from reconciler.loadgen.log import parse_detail
from reconciler.resource.rules import Severity
from reconciler.rules.rounds import load_ruleset
from reconciler.tree.findings import Complaint, Place

FILE = "detail.txt"
DEMANDS = {
    "least_min_duration": 600_000,
    "least_performance_sample_count": 1024,
    "least_samples_per_query": 24_576,
    "least_query_count": 270_336,
}


def run(
    *lines: tuple[str, object],
    folder: str = "Server",
    ran: str = "Server",
    division: str = "closed",
    category: str = "edge",
    exempt: tuple[str, ...] = (),
) -> Any:
    """The lines stand from the second on. ``exempt``: demands that do not bind."""
    entries = [("effective_scenario", ran), *lines]
    text = "".join(f":::MLLOG {json.dumps({'key': key, 'value': value, 'time_ms': 1.0})}\n" for key, value in entries)
    metric = SimpleNamespace(key="result_number")
    rules = SimpleNamespace(
        get_value=lambda name, _: DEMANDS.get(name), find_ruled_value=lambda name, _: name, find_metric=lambda _: metric
    )
    cell = SimpleNamespace(
        cell=SimpleNamespace(scenario=folder),
        division=division,
        system=SimpleNamespace(category=category),
        ruleset=load_ruleset("v6.1"),
        rules=rules,
        binds=lambda demand: demand not in exempt,
    )
    inferred = folder != ran
    seeds = {"qsl_rng_seed": 1, "schedule_rng_seed": 2}
    log = parse_detail(text.encode(), FILE)
    return SimpleNamespace(log=log, cell=cell, inferred=inferred, scenario=ran if inferred else folder, seeds=seeds)


def find_wrong(rule: str, of: Any) -> list[int]:
    """The line of each finding, 0 for none."""
    found: list[Complaint] = list(getattr(runs, f"check_{rule}")(of))
    assert {reported.place.file for reported in found} <= {FILE}
    return [reported.place.line for reported in found]


@pytest.mark.parametrize(
    ("folder", "ran", "category", "reported"),
    [
        ("Offline", "Offline", "edge", []),
        ("Offline", "SingleStream", "edge", []),
        ("Offline", "SingleStream", "", []),
        ("Offline", "SingleStream", "datacenter", [1]),
        ("Offline", "Server", "edge", [1]),
        ("Server", "Offline", "", [1]),
    ],
)
def test_folder_holds_the_logs_of_its_scenario_or_of_one_that_it_is_inferred_from(
    folder: str, ran: str, category: str, reported: list[int]
) -> None:
    assert find_wrong("scenario", run(folder=folder, ran=ran, category=category)) == reported


def test_scenario_is_inferred_from_an_estimate() -> None:
    key, rate = "early_stopping_latency_ms", "result_qps_without_loadgen_overhead"

    def find(*lines: tuple[str, object], folder: str = "MultiStream", category: str = "edge") -> list[int]:
        return find_wrong("inferred_metric", run(*lines, folder=folder, ran="SingleStream", category=category))

    assert find((key, 5)) == find(category="datacenter") == find(category="") == []
    assert find() == [0]
    assert find((key, 0)) == [2]
    assert find((rate, 5), folder="Offline") == []
    assert find(folder="Offline") == [0]
    assert find_wrong("inferred_metric", run()) == []


@pytest.mark.parametrize(
    ("rule", "key", "least"),
    [
        ("least_duration", "effective_min_duration_ms", 600_000),
        ("least_samples", "effective_performance_sample_count", 1024),
        ("samples_per_query", "effective_samples_per_query", 24_576),
        ("early_stopping", "effective_min_query_count", 270_336),
    ],
)
def test_counts_are_at_least_what_the_round_demands(rule: str, key: str, least: int) -> None:
    scenario, exempt = ("Offline" if rule == "samples_per_query" else "Server"), ("early_stopping",)

    def find(*lines: tuple[str, object]) -> list[int]:
        return find_wrong(rule, run(*lines, folder=scenario, ran=scenario, exempt=exempt))

    assert find((key, least)) == find((key, least + 1)) == []
    assert find((key, least - 1)) == find((key, "many")) == [2]
    assert find() == [0]


def test_samples_of_a_query_are_noted_where_only_the_older_checker_asks_for_them() -> None:
    few = ("effective_samples_per_query", 1)
    reported = [
        list(runs.check_samples_per_query(run(few, folder="Offline", ran="Offline", exempt=exempt)))
        for exempt in ((), ("least_samples_per_query",))
    ]
    assert [[complaint.severity for complaint in found] for found in reported] == [[None], [Severity.NOTE]]
    assert list(runs.check_samples_per_query(run(few))) == []


VALIDITY = ("result_validity", "VALID")


@pytest.mark.parametrize(
    ("scenario", "lines", "reported"),
    [
        ("Server", [("early_stopping_met", True), VALIDITY], []),
        ("Server", [VALIDITY], [0]),
        ("Server", [], []),
        ("Server", [("early_stopping_met", False), VALIDITY], [2]),
        ("Server", [("early_stopping_met", "yes"), VALIDITY], [2]),
        ("Server", [("early_stopping_result", "run longer"), ("early_stopping_met", False), VALIDITY], [3]),
        ("Server", [("early_stopping_ttft_result", "first"), ("early_stopping_met", False), VALIDITY], [3]),
        ("Server", [("early_stopping_tpot_result", "each"), ("early_stopping_met", False), VALIDITY], [3]),
        ("Offline", [VALIDITY], []),
        ("Offline", [("early_stopping_met", False)], [2]),
        ("Offline", [("early_stopping_met", "yes"), VALIDITY], []),
    ],
)
def test_early_stopping_is_met(scenario: str, lines: list[tuple[str, object]], reported: list[int]) -> None:
    assert find_wrong("early_stopping", run(*lines, folder=scenario, ran=scenario)) == reported


@pytest.mark.parametrize(
    ("division", "name", "reported"),
    [
        ("network", "Network SUT", False),
        ("network", "our SUT", True),
        ("network", None, True),
        ("closed", "our", False),
    ],
)
def test_system_of_the_network_division_says_so(division: str, name: str | None, reported: bool) -> None:
    lines = [("sut_name", name)] if name else []
    assert find_wrong("network_name", run(*lines, division=division)) == [2 if name else 0] * reported


def test_run_with_the_settings_of_an_audit_is_reported_at_its_line() -> None:
    marker = {
        "key": "warning_generic",
        "value": "Found Audit Config file (audit.config)",
        "metadata": {"is_warning": True},
    }
    audited = run()
    text = f':::MLLOG {{"key": "effective_scenario", "value": "Server"}}\n:::MLLOG {json.dumps(marker)}\n'
    audited.log = parse_detail(text.encode(), FILE)
    (reported,) = runs.check_audit_absent(audited)
    assert reported.place == Place(FILE, 2)
    assert not list(runs.check_audit_absent(run()))
