"""Rounds against each other, and their sources against each other."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from reconciler.rules.comparison import RulePlace, diff_rounds, find_conflicts, find_stated, read_value_at
from reconciler.rules.rounds import list_rounds, load_ruleset, parse_ruleset
from reconciler.rules.ruleset import Ruleset

_ROUNDS = list_rounds()
_PAIRS = [*itertools.pairwise(_ROUNDS), (_ROUNDS[0], _ROUNDS[-1]), (_ROUNDS[-1], _ROUNDS[-1])]


@pytest.mark.parametrize(("before", "after"), _PAIRS)
def test_diff_is_antisymmetric(before: str, after: str) -> None:
    forth, back = (diff_rounds(load_ruleset(a), load_ruleset(b)) for a, b in ((before, after), (after, before)))
    assert forth.reverse() == back
    assert all(change.before != change.after for change in forth.changes)
    assert (before == after) is not bool(forth.changes or forth.added or forth.removed)


def test_diff_between_rounds_names_what_changed() -> None:
    diff = diff_rounds(load_ruleset("v5.1"), load_ruleset("v6.1"))
    assert "gpt-oss-120b" in diff.added
    assert "retinanet" in diff.removed
    changes = {str(change.place): (change.before, change.after) for change in diff.changes}
    assert changes["layout"] == ("legacy", "v6")
    assert changes["qsl_rng_seed"] == (1780908523862526354, 2085463073848966840)
    assert changes["deepseek-r1 / Interactive / most_tpot_latency"] == (None, 15_000_000)
    assert not any(name.startswith(("bert-99 ", "resnet ")) for name in changes), "nothing of theirs changed"


def _small(**benchmark: Any) -> Ruleset:
    return parse_ruleset(
        {
            "round": "v0.1",
            "layout": "v6",
            "general": {"min_duration": {"checker": 1}},
            "scenarios": {"Offline": {}},
            "benchmarks": {"b": {"categories": {"checker": {"edge": {"required": ["Offline"]}}}, **benchmark}},
            "divisions": {"checker": {}},
            "system_fields": {"checker": [{"name": "status"}]},
            "measurements_fields": {"checker": ["retraining"]},
            "accuracy_log": {"checker": {"limit": 3, "whole_below": 1, "keep": 1}},
        }
    )


def test_stating_the_same_value_at_another_level_changes_nothing() -> None:
    same = _small(general={"min_duration": {"policy": 1}})
    assert diff_rounds(_small(), same).changes == ()
    other = _small(scenarios={"Offline": {"min_duration": {"policy": 2}}})
    (change,) = diff_rounds(_small(), other).changes
    assert (change.place, change.before, change.after) == (RulePlace("b", "Offline", "min_duration"), 1, 2)


@pytest.mark.parametrize("name", list_rounds())
def test_a_value_holds_at_the_place_where_it_is_stated(name: str) -> None:
    ruleset = load_ruleset(name)
    places = list(find_stated(ruleset))
    assert len({place for place, _ in places}) == len(places)
    for place, ruled in places:
        assert read_value_at(ruleset, place) == ruled.value, place


@pytest.mark.parametrize("name", list_rounds())
def test_conflicts_are_the_values_about_which_sources_differ(name: str) -> None:
    ruleset = load_ruleset(name)
    found = {conflict.place: conflict for conflict in find_conflicts(ruleset)}
    for place, ruled in find_stated(ruleset):
        assert (place in found) is bool(ruled.overruled or ruled.ignored), place
    for conflict in found.values():
        first, *others = conflict.statements
        assert first.counts
        assert others
        assert not any(other.counts for other in others)
        assert all(statement.because for statement in conflict.statements)
        assert read_value_at(ruleset, conflict.place) == first.value


def test_conflicts_say_which_counts_and_why() -> None:
    found = {str(conflict.place): conflict.statements for conflict in find_conflicts(load_ruleset("v6.1"))}
    strict, lax = found["dlrm-v3 / Server / most_target_latency"]
    assert (strict.value, strict.sources, strict.because) == (80_000_000, ("policy", "mlperf.conf"), "the strictest")
    assert (lax.value, lax.sources, lax.because) == (60_000_000_000, ("checker",), "less strict")
    strict, lax = found["gpt-oss-120b / Interactive / most_tpot_latency"]
    assert (strict.value, lax.value, lax.sources) == (15_000_000, 20_000_000, ("policy",))
    _, aside = found["llama3.1-8b / accuracy.ROUGE1.least"]
    assert aside.because == "the text repeats the figures of gptj"
