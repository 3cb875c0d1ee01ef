"""Rounds against each other, and their sources against each other."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from reconciler.rules.comparison import (
    Conflict,
    RoundsDiff,
    RuleChange,
    RulePlace,
    Statement,
    diff_rounds,
    find_conflicts,
    find_stated,
    read_value_at,
)
from reconciler.rules.rounds import list_rounds, load_ruleset, parse_ruleset
from reconciler.rules.ruleset import Ruleset

_ROUNDS = list_rounds()
_PAIRS = [*itertools.pairwise(_ROUNDS), (_ROUNDS[0], _ROUNDS[-1]), (_ROUNDS[-1], _ROUNDS[-1])]


@pytest.mark.parametrize(("before", "after"), _PAIRS)
def test_diff_is_antisymmetric(before: str, after: str) -> None:
    forth, back = (diff_rounds(load_ruleset(a), load_ruleset(b)) for a, b in ((before, after), (after, before)))
    assert forth.reversed() == back
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


def _document(**changes: Any) -> dict[str, Any]:
    edge = {"checker": {"edge": {"required": ["Offline"]}}}
    return {
        "round": "v0.1",
        "layout": "v6",
        "general": {"min_duration": {"checker": 1}, "least_runs": {"policy": 1}},
        "scenarios": {"Offline": {"min_query_count": {"checker": 5}}, "Server": {}},
        "benchmarks": {
            "b": {"categories": edge, "scenarios": {"Offline": {"model_key": {"checker": "b"}}}},
            "a": {"categories": edge, "general": {"dataset_size": {"checker": 7}}},
            "gone": {"categories": edge},
        },
        "divisions": {"checker": {}},
        "system_fields": {"checker": [{"name": "status"}]},
        "measurements_fields": {"checker": ["retraining"]},
        "accuracy_log": {"checker": {"limit": 3, "whole_below": 1, "keep": 1}},
        **changes,
    }


def _later() -> dict[str, Any]:
    changed = _document(round="v0.2", layout="v7", measurements_fields={"checker": ["weights"]})
    changed["general"] = {"least_runs": {"policy": 2}, "most_file_bytes": {"policy": 3}}
    changed["scenarios"] = {"Offline": {"min_query_count": {"checker": 6}}, "Server": {"metric_key": {"checker": "k"}}}
    new = {"checker": {"edge": {"required": ["Server"]}}}
    changed["benchmarks"] = {
        "b": {"categories": new, "general": {"dataset_size": {"checker": 8}}},
        "a": {"categories": new, "general": {"dataset_size": {"checker": 9}}},
        "new": {"categories": new},
        "fresh": {"categories": new},
    }
    return changed


def test_all_that_changed_is_told_in_one_order() -> None:
    before, after = parse_ruleset(_document()), parse_ruleset(_later())
    edge = {"edge": {"required": ("Offline",)}}, {"edge": {"required": ("Server",)}}
    diff = diff_rounds(before, after)
    assert diff == RoundsDiff(
        "v0.1",
        "v0.2",
        added=("fresh", "new"),
        removed=("gone",),
        changes=(
            RuleChange(RulePlace("", "", "layout"), "v6", "v7"),
            RuleChange(RulePlace("", "", "least_runs"), 1, 2),
            RuleChange(RulePlace("", "", "measurements_fields"), ("retraining",), ("weights",)),
            RuleChange(RulePlace("", "", "min_duration"), 1, None),
            RuleChange(RulePlace("", "", "most_file_bytes"), None, 3),
            RuleChange(RulePlace("", "Offline", "min_query_count"), 5, 6),
            RuleChange(RulePlace("", "Server", "metric_key"), None, "k"),
            RuleChange(RulePlace("a", "", "categories"), *edge),
            RuleChange(RulePlace("a", "", "dataset_size"), 7, 9),
            RuleChange(RulePlace("b", "", "categories"), *edge),
            RuleChange(RulePlace("b", "", "dataset_size"), None, 8),
            RuleChange(RulePlace("b", "Offline", "model_key"), "b", None),
        ),
    )
    assert diff_rounds(after, before) == diff.reversed()
    assert [str(change.place) for change in diff.changes][4:8] == [
        "most_file_bytes",
        "Offline / min_query_count",
        "Server / metric_key",
        "a / categories",
    ]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (RulePlace("", "", "layout"), "v6"),
        (RulePlace("", "", "min_duration"), 1),
        (RulePlace("", "Offline", "min_duration"), 1),
        (RulePlace("", "Offline", "min_query_count"), 5),
        (RulePlace("", "Server", "min_query_count"), None),
        (RulePlace("", "MultiStream", "min_duration"), None),
        (RulePlace("b", "MultiStream", "min_duration"), None),
        (RulePlace("b", "Offline", "min_query_count"), 5),
        (RulePlace("b", "Offline", "model_key"), "b"),
        (RulePlace("b", "", "model_key"), None),
        (RulePlace("b", "", "categories"), {"edge": {"required": ("Offline",)}}),
        (RulePlace("nobody", "", "categories"), None),
        (RulePlace("nobody", "", "min_duration"), None),
        (RulePlace("", "", "measurements_fields"), ("retraining",)),
        (RulePlace("", "", "nothing"), None),
    ],
    ids=str,
)
def test_a_value_is_read_as_it_holds_at_its_place(place: RulePlace, value: object) -> None:
    assert read_value_at(parse_ruleset(_document()), place) == value


def test_statements_of_sources_that_differ_are_told_with_their_reasons() -> None:
    document = _document()
    document["general"] = {
        "least_runs": {"policy": 1, "checker+loadgen": 3, "old checker": 1, "mlperf.conf": 2},
        "model_key": {"checker": "k", "ignored": {"policy+loadgen": "x", "old checker": "y"}, "because": "a slip"},
        "most_file_bytes": {"policy": 1, "checker": 2, "ignored": {"loadgen": 2}, "because": "old"},
        "min_duration": {"policy": 1, "checker": 1},
    }
    assert find_conflicts(parse_ruleset(document)) == (
        Conflict(
            RulePlace("", "", "least_runs"),
            (
                Statement(("checker", "loadgen"), 3, True, "the strictest"),
                Statement(("policy", "old checker"), 1, False, "less strict"),
                Statement(("mlperf.conf",), 2, False, "less strict"),
            ),
        ),
        Conflict(
            RulePlace("", "", "model_key"),
            (
                Statement(("checker",), "k", True, "the others are set aside"),
                Statement(("policy", "loadgen"), "x", False, "a slip"),
                Statement(("old checker",), "y", False, "a slip"),
            ),
        ),
        Conflict(
            RulePlace("", "", "most_file_bytes"),
            (
                Statement(("policy",), 1, True, "the strictest"),
                Statement(("checker",), 2, False, "less strict"),
                Statement(("loadgen",), 2, False, "old"),
            ),
        ),
    )
