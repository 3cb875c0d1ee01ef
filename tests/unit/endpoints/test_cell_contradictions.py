"""Output of the endpoints harness against itself, figure by figure."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.endpoints.cells import (
    find_result_gaps,
    verify_duration,
    verify_rates,
    verify_samples,
    verify_scored,
    verify_stated_once,
    verify_target,
)
from reconciler.resource.rules import AppliedRule
from reconciler.storage.documents import parse_json_object
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.files import Read
from tests.unit.verify.test_gaps import find_wrong as find_gaps

SECOND = 10**9
RAN = {"n_samples_issued": 100, "n_samples_completed": 90, "n_samples_failed": 10, "duration_ns": 10 * SECOND}


def read(file: str, document: object) -> Any:
    """One name a line, from the second."""
    return Read(file, None if document is None else parse_json_object(json.dumps(document, indent=1).encode()))


def view(summary: object = None, config: object = None, scores: object = None, scenario: str = "Server") -> Any:
    files = SimpleNamespace(
        result_summary=read("summary.json", summary),
        config=read("config.json", config),
        accuracy_results=read("accuracy.json", scores),
    )
    ruled = {"exact_accuracy_sample_count": 500}
    return SimpleNamespace(files=files, cell=SimpleNamespace(scenario=scenario), find_rule=ruled.get)


def runtime(**settings: object) -> dict[str, object]:
    return {"settings": {"runtime": settings}}


def find(verify: AppliedRule[Any, Complaint], at: Any) -> list[tuple[Place, Place | None]]:
    return [(reported.place, reported.other) for reported in verify(at)]


@pytest.mark.parametrize(
    ("changed", "reported"),
    [
        ({}, False),
        ({"n_samples_failed": 9}, True),
        ({"n_samples_completed": 91}, True),
        ({"n_samples_failed": None}, True),
        ({"n_samples_failed": None, "n_samples_completed": 100}, False),
        ({"n_samples_completed": None}, False),
        ({"n_samples_issued": None}, False),
    ],
)
def test_issued_samples_are_those_that_completed_and_those_that_failed(
    changed: dict[str, object], reported: bool
) -> None:
    assert find(verify_samples, view(RAN | changed)) == [(Place("summary.json", 2), None)] * reported


@pytest.mark.parametrize(("asked", "reported"), [(101, True), (100, False), (99, False), (None, False)])
def test_as_many_samples_are_issued_as_the_configuration_asks_for(asked: int | None, reported: bool) -> None:
    found = [(Place("config.json", 4), Place("summary.json", 2))] * reported
    assert find(verify_samples, view(RAN, runtime(n_samples_to_issue=asked))) == found
    assert find(verify_samples, view(None, runtime(n_samples_to_issue=asked))) == []


@pytest.mark.parametrize(
    ("rate", "reported"), [(9, False), (9.18, False), (8.82, False), (9.19, True), (8.81, True), (None, False)]
)
def test_rate_is_within_two_percent_of_what_its_counts_make_it(rate: float | None, reported: bool) -> None:
    found = [(Place("summary.json", 6), Place("summary.json", 3))] * reported
    assert find(verify_rates, view(RAN | {"qps": rate})) == found
    assert find(verify_rates, view({"qps": rate})) == find(verify_rates, view()) == []


@pytest.mark.parametrize(("least", "reported"), [(10_001, True), (10_000, False), (None, False)])
def test_run_lasts_its_configured_minimum(least: int | None, reported: bool) -> None:
    found = [(Place("config.json", 4), Place("summary.json", 5))] * reported
    assert find(verify_duration, view(RAN, runtime(min_duration_ms=least))) == found
    assert find(verify_duration, view({}, runtime(min_duration_ms=least))) == []


@pytest.mark.parametrize(
    ("scenario", "asked", "said", "reported"),
    [
        ("Server", 100, 102, False),
        ("Server", 100, 102.1, True),
        ("Interactive", 100, 102.1, True),
        ("Offline", 100, 102.1, False),
        ("Server", 0, 102.1, False),
        ("Server", None, 102.1, False),
        ("Server", 100, None, False),
    ],
)
def test_server_completes_no_more_than_it_is_asked_for(
    scenario: str, asked: object, said: object, reported: bool
) -> None:
    config = {"settings": {"load_pattern": {"target_qps": asked}}}
    found = [(Place("config.json", 4), Place("summary.json", 2))] * reported
    assert find(verify_target, view({"qps": said}, config, scenario=scenario)) == found


@pytest.mark.parametrize(("counted", "reported"), [(500, False), (499, True), (501, True), (None, False)])
def test_accuracy_is_scored_over_the_dataset_of_the_round(counted: int | None, reported: bool) -> None:
    scores = {"accuracy_scores": [{"score": 0.9, "total_samples": counted}]}
    at = view(scores=scores)
    found = [(Place("accuracy.json", 2), None)]
    assert find(verify_scored, at) == (found if reported else [])
    at.find_rule = {}.get
    assert find(verify_scored, at) == find(verify_scored, view()) == []


def test_names_that_stand_twice_are_asked_about_in_both_files() -> None:
    at = view({}, {}, {})
    twice = parse_json_object(b'{"qps": 1,\n"qps": 2}')
    at.files.result_summary, at.files.accuracy_results = Read("summary.json", twice), Read("accuracy.json", twice)
    found = list(verify_stated_once(at))
    assert [reported.place for reported in found] == [Place("summary.json", 1), Place("accuracy.json", 1)]


def test_results_of_the_endpoints_harness_that_are_not_there_blind(tmp_path: Path) -> None:
    names = "config.yaml", "performance/result_summary.json"
    assert find_gaps(tmp_path / "a", {}, find_result_gaps) == [
        "blind ./config.yaml",
        "blind ./performance/result_summary.json",
    ]
    broken = find_gaps(tmp_path / "b", dict.fromkeys(names, "["), find_result_gaps)
    assert len(broken) == 2
    assert not find_gaps(tmp_path / "c", dict.fromkeys(names, "{}"), find_result_gaps)
