"""Figures of one result that cannot all belong to one run, for the judge of a run and for readers of its tree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.endpoints.check.engine import verify_endpoints
from reconciler.endpoints.rules.judge import judge_point
from reconciler.endpoints.rules.point import MeasuredPoint
from reconciler.endpoints.rules.regions import derive_regions, place_points
from reconciler.endpoints.rules.results import parse_point
from tests.unit.endpoints.tree.curves import DATASET, MAXIMUM, RULES, make_config, make_summary, write_submission
from tests.unit.endpoints.tree.mutations import edit_json

CONCURRENCY = 5
LIES: dict[str, tuple[dict[str, Any], str]] = {
    "ten times the samples": ({"n_samples_issued": 11520, "n_samples_completed": 11520}, "11520 were completed"),
    "a 90th percentile below the median": (
        {"tpot__percentiles": {"50": 600000, "90": 500000}},
        "percentile 90 is 500000",
    ),
    "a slowest answer faster than the others": ({"latency__max": 10}, "latency: max is 10"),
    "a fastest answer slower than the others": ({"ttft__min": 10**12}, "ttft: percentile 1 is"),
    "a mean beyond the slowest": ({"ttft__avg": 10**12}, "ttft: the mean is"),
    "a mean below the fastest": ({"tpot__avg": 1}, "tpot: the mean is 1"),
    "a median below a quarter of the samples": ({"ttft__median": 1000000}, "ttft: the median is 1000000, and"),
    "a median above the slowest": ({"latency__median": 10**12}, "latency: the median is 1000000000000, and"),
    "ten times the time to first tokens": ({"ttft__total": 10**12}, "ttft: total by avg are"),
    "ten times the time of tokens": ({"tpot__total": 10**12}, "tpot: total by avg are"),
    "a tenth of the duration that the answers take": ({"duration_ns": 3 * 10**9}, "5 requests at a time"),
}


def judge(concurrency: int, summary: bytes) -> list[str]:
    point = parse_point({"config.yaml": make_config(concurrency), "result_summary.json": summary}, DATASET)
    return [f.text for f in judge_point(point, RULES, regions()) if f.rule == "figures-possible"]


def regions() -> Any:
    return derive_regions(place_points(MAXIMUM, RULES), MAXIMUM, RULES)


def edit(summary: bytes, changes: dict[str, Any]) -> bytes:
    values = json.loads(summary)
    for name, value in changes.items():
        *parents, last = name.split("__")
        place = values
        for parent in parents:
            place = place[parent]
        place[last] = value
    return json.dumps(values).encode()


@pytest.mark.parametrize("concurrency", [1, CONCURRENCY, 64])
def test_honest_figures_are_believed(concurrency: int) -> None:
    assert judge(concurrency, make_summary(concurrency)) == []


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_named_for_the_run_and_in_the_tree(lie: str, tmp_path: Path) -> None:
    changes, words = LIES[lie]
    assert any(words in text for text in judge(CONCURRENCY, edit(make_summary(CONCURRENCY), changes)))
    root = write_submission(tmp_path)
    edit_json(root, f"r{CONCURRENCY}", "result_summary.json", **changes)
    found = [f.complaint.found for f in verify_endpoints(root).findings if f.rule.id == "curve.figures-possible"]
    assert any(words in text for text in found)


def test_turns_of_a_conversation_are_not_counted_as_samples() -> None:
    summary = edit(make_summary(CONCURRENCY), {"n_samples_issued": 192, "n_samples_completed": 192})
    assert judge(CONCURRENCY, summary) != []
    config = make_config(CONCURRENCY).replace(b"type: concurrency", b"type: agentic_inference")
    point: MeasuredPoint = parse_point({"config.yaml": config, "result_summary.json": summary}, DATASET)
    found = judge_point(point, RULES, regions())
    assert "figures-possible" not in [finding.rule for finding in found]
