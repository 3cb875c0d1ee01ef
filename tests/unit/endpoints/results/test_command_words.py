"""What the command of the endpoints harness is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.resource.ruled_values import AccuracyLogRule, Metric
from reconciler.rules.context import EndpointsContext, RuleContext
from tests.unit.execute.test_command_words import ask


@pytest.mark.parametrize(
    ("own", "ruled", "said"),
    [
        ({"min_duration": 5}, None, "5"),
        ({"min_duration": 5}, 600, "5"),
        ({"min_duration": 0}, 600, "0"),
        ({}, 600, "600"),
        ({}, None, ""),
    ],
)
def test_an_accuracy_run_of_the_endpoints_harness_is_given_what_its_configuration_needs(
    own: dict[str, int], ruled: int | None, said: str, tmp_path: Path
) -> None:
    """What is asked of the run itself counts before what is declared for the cell."""
    settings = {"harness.results": "endpoints", "target_qps": 7, "max_duration": 9, "min_query_count": 3, **own}
    endpoints = EndpointsContext(min_duration=ruled) if ruled is not None else None
    rules = RuleContext(Metric("key", "unit"), AccuracyLogRule(1, 2, 3), endpoints=endpoints)
    names = ("min_duration", "max_duration", "min_query_count", "target_qps")
    found = ask(tmp_path, settings, rules=rules)
    assert [found[name] for name in names] == [said, "9", "3", "7"]
    found = ask(tmp_path, settings, rules=rules, asked={"max_duration": 8, "target_qps": 6})
    assert [found[name] for name in names] == [said, "8", "3", "6"]
    usual = ask(tmp_path, {**settings, "harness.results": "loadgen"}, rules=rules)
    assert [usual[name] for name in names] == [""] * 4
