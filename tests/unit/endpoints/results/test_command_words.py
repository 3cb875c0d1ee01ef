"""What a run of the client is given, how long it takes, and that it scores itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.reconcile.planning import predict_run
from reconciler.resource.ruled_values import AccuracyLogRule, Metric
from reconciler.resource.settings import RESULTS, CellSettings
from reconciler.rules.context import EndpointsContext, RuleContext
from tests.unit.execute.test_command_words import ask
from tests.unit.execute.test_perform import perform_score


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


POINT = {"mode": "performance", "min_duration": 90_000}


@pytest.mark.parametrize(
    ("inputs", "seconds"),
    [(POINT, 90.0), ({**POINT, "min_duration": 0}, None), ({**POINT, "mode": "accuracy"}, None)],
    ids=["performance", "without a duration", "accuracy"],
)
def test_a_point_lasts_as_long_as_it_is_asked_to(inputs: dict[str, object], seconds: float | None) -> None:
    assert predict_run(CellSettings({RESULTS: "points"}), inputs) == seconds


def test_a_run_that_scores_itself_needs_no_scorer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert perform_score("endpoints", tmp_path, monkeypatch) == (False, True)
