"""Compliance tests of the endpoints harness: judged from the phases, at the limits too."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.endpoints.results.audits import (
    CACHING,
    Audits,
    collect_audit_values,
    find_missing_audits,
    find_wrong_audits,
)
from reconciler.storage.documents import ResultDocument

STATED = {"test": CACHING, "passed": True, "ref_qps": 10, "audit_qps": 10}
PHASE = {"n_samples_issued": 100, "n_samples_completed": 100, "qps": 10}


def audits(stated: dict[str, Any], reference: dict[str, Any], repeated: dict[str, Any]) -> Audits:
    phases = {"reference": {**PHASE, **reference}, "output_caching": {**PHASE, **repeated}}
    documents = {name: ResultDocument(values) for name, values in phases.items()}
    return Audits({CACHING: ResultDocument({**STATED, **stated})}, documents)


@pytest.mark.parametrize(
    ("stated", "reference", "repeated", "said"),
    [
        ({"passed": False}, {}, {}, "says failed, its phases say passed"),
        ({}, {"n_samples_completed": 89}, {}, "says passed, its phases say failed"),
        ({"audit_qps": 11}, {}, {"qps": 11}, "says passed, its phases say failed"),
        ({"ref_qps": 10.0011}, {}, {}, "ref_qps: audit_output_caching_test.json says 10.0011, its phase measured 10"),
        ({"audit_qps": 9.998}, {}, {}, "audit_qps: "),
        ({"audit_qps": None}, {}, {}, "audit_qps: audit_output_caching_test.json says None"),
        ({"test": "other"}, {}, {}, "expected output_caching_test, audit_output_caching_test.json says other"),
    ],
)
def test_what_its_phases_deny_is_named(
    stated: dict[str, Any], reference: dict[str, Any], repeated: dict[str, Any], said: str
) -> None:
    (problem,) = find_wrong_audits(audits(stated, reference, repeated))
    assert said in problem


def load(pattern: str) -> dict[str, Any]:
    return {"run_config": {"load_pattern": {"type": pattern}}}


@pytest.mark.parametrize(
    ("threshold", "reference", "speed", "passed"),
    [
        (0.2, load("concurrency"), 11.9, True),
        (0.2, {**load("concurrency"), "n_samples_completed": 81}, 10, True),
        (0.2, load("concurrency"), 12, False),
        (0.5, load("concurrency"), 12, False),
        (0.2, load("max_throughput"), 11, False),
        (0.05, load("max_throughput"), 10.5, False),
        (0.2, {}, 11.9, True),
        (0.2, {"run_config": {}}, 11.9, True),
        ("wide", load("concurrency"), 11, False),
    ],
)
def test_a_phase_is_judged_with_the_stated_threshold_up_to_that_of_the_harness(
    threshold: object, reference: dict[str, Any], speed: float, passed: bool
) -> None:
    stated = {"threshold": threshold, "audit_qps": speed, "passed": passed}
    assert not list(find_wrong_audits(audits(stated, reference, {"qps": speed})))
    (problem,) = find_wrong_audits(audits({**stated, "passed": not passed}, reference, {"qps": speed}))
    assert "its phases say" in problem


@pytest.mark.parametrize("left", ["reference", "output_caching"])
def test_a_test_without_one_of_its_phases_is_named(left: str) -> None:
    whole = audits({}, {}, {})
    (problem,) = find_wrong_audits(Audits(whole.stated, {left: whole.phases[left]}))
    assert "without the results of its phases reference and output_caching" in problem


def test_what_a_round_asks_for_is_missed_or_failed() -> None:
    failed = ResultDocument({"passed": False, "reason": "too fast"})
    required = {"TEST12": "silent_test", "TEST11": "new_test", "TEST09": "length_test", "TEST04": CACHING}
    silent = ResultDocument({"passed": "true", "reason": ""})
    stated = {CACHING: failed, "length_test": ResultDocument({"passed": True}), "silent_test": silent}
    assert list(find_missing_audits(Audits(stated, {}), required)) == [
        "TEST04: output_caching_test failed: too fast",
        "TEST11: the round asks for audit/audit_new_test.json, and the run wrote none",
        "TEST12: silent_test failed",
    ]


def test_a_record_says_of_each_test_whether_it_passed() -> None:
    stated = {"b": {"passed": True}, "a": {"passed": False}, "c": {}, "d": {"passed": "yes"}}
    found = collect_audit_values(Audits({name: ResultDocument(values) for name, values in stated.items()}, {}))
    assert list(found.items()) == [("a", False), ("b", True), ("c", False), ("d", False)]


@pytest.mark.parametrize(
    ("stated", "reference", "repeated"),
    [
        ({"ref_requested": 0}, {"n_samples_completed": 90}, {}),
        ({"ref_requested": 100}, {"n_samples_issued": 1000}, {}),
        ({"audit_requested": 100}, {}, {"n_samples_issued": 1000}),
        ({"passed": False, "ref_requested": 112}, {}, {}),
        ({"passed": False}, {"n_samples_issued": 0}, {}),
        ({"passed": False}, {}, {"n_samples_issued": 112}),
    ],
    ids=str,
)
def test_a_phase_is_whole_with_nine_tenths_of_what_was_asked_or_else_issued(
    stated: dict[str, Any], reference: dict[str, Any], repeated: dict[str, Any]
) -> None:
    assert list(find_wrong_audits(audits(stated, reference, repeated))) == []
