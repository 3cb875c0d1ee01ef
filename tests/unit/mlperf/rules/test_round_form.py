"""What may stand where in a round file, and what is said of a name that may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reconciler.resource.ruled_values import AccuracyLogRule, Inference, NetworkRules, ScenarioTable, SystemField
from reconciler.rules.round_form import check_divisions, check_form, check_place, make_section, make_tables, refuse_name
from reconciler.rules.ruled_value import RoundFileError

LEAST: dict[str, Any] = {
    "round": "v0.1",
    "layout": "v6",
    "general": {},
    "benchmarks": {"b": {}},
    "divisions": {},
    "system_fields": {},
    "measurements_fields": {},
    "accuracy_log": {},
}
MAPPING = "a mapping is expected here"
SCENARIOS = "known here: SingleStream, MultiStream, Server, Offline, Interactive"


def refusal(check: Callable[..., object], *given: Any) -> tuple[str, str, str]:
    with pytest.raises(RoundFileError) as caught:
        check(*given)
    return caught.value.place, caught.value.problem, caught.value.fix


def test_a_round_has_these_sections_and_may_have_others() -> None:
    check_form(LEAST)
    optional = ("aliases", "inferences", "network", "power_fields", "endpoints", "extends", "removed")
    more: dict[str, Any] = {section: {} for section in optional}
    check_form({**LEAST, **more, "scenarios": {"Offline": {}, "Server": {}}, "earlier": {"o": {"like": "b"}}})
    parts: dict[str, Any] = {"like": "b", "categories": {}, "general": {}, "scenarios": {"MultiStream": {}}}
    check_form({**LEAST, "benchmarks": {"c": parts}})
    for name in LEAST:
        without = {section: value for section, value in LEAST.items() if section != name}
        assert refusal(check_form, without) == (
            name,
            "this section is missing",
            f"add it, or `extends` a round that has {name}",
        )


@pytest.mark.parametrize(
    ("changes", "place", "problem"),
    [
        ({"nothing": {}}, "nothing", "there is no section of this name here"),
        ({"scenarios": []}, "scenarios", MAPPING),
        ({"scenarios": {"Offlin": {}}}, "scenarios.Offlin", "there is no scenario of this name here"),
        ({"benchmarks": []}, "benchmarks", MAPPING),
        ({"benchmarks": {"b": 7}}, "benchmarks.b", MAPPING),
        ({"benchmarks": {"b": {"x": 1}}}, "benchmarks.b.x", "there is no part of this name here"),
        ({"benchmarks": {"b": {"scenarios": 1}}}, "benchmarks.b.scenarios", MAPPING),
        (
            {"benchmarks": {"b": {"scenarios": {"x": 1}}}},
            "benchmarks.b.scenarios.x",
            "there is no scenario of this name here",
        ),
        ({"earlier": {"o": []}}, "earlier.o", MAPPING),
        ({"earlier": {"o": {"y": 1}}}, "earlier.o.y", "there is no part of this name here"),
        (
            {"earlier": {"o": {"scenarios": {"x": 1}}}},
            "earlier.o.scenarios.x",
            "there is no scenario of this name here",
        ),
    ],
    ids=str,
)
def test_what_stands_at_a_wrong_place_is_told(changes: dict[str, Any], place: str, problem: str) -> None:
    assert refusal(check_form, {**LEAST, **changes})[:2] == (place, problem)


def test_what_is_no_round_at_all_is_told() -> None:
    for document in ([], None, "text"):
        assert refusal(check_form, document) == ("", MAPPING, "see the newest round file")


def test_demands_bind_divisions() -> None:
    own = ["scenarios", "compliance_tests", "accuracy", "model_mapping", "calibration", "used_systems"]
    own += ["whole_numbers", "filled_values", "portable_files", "early_stopping", "source_code", "least_runs"]
    check_divisions({"closed": {}, "open": dict.fromkeys(own, False), "network": {"most_ttft_latency": False}})
    assert refusal(check_divisions, {"closed": {}, "opened": {}})[:2] == (
        "divisions.opened",
        "there is no division of this name here",
    )
    assert refusal(check_divisions, {"open": {"speed": False}})[:2] == (
        "divisions.open.speed",
        "there is no demand of this name here",
    )
    assert refusal(check_divisions, {"open": ["accuracy"]})[:2] == ("divisions.open", MAPPING)
    assert refusal(check_divisions, ["open"])[:2] == ("divisions", MAPPING)


def test_tables_are_of_categories_and_scenarios() -> None:
    stated = {
        "edge": {"required": ("Offline",), "optional": ("Server",)},
        "datacenter , edge": {"one_of": (("Server", "Interactive"),)},
        "datacenter": None,
    }
    assert make_tables("here", stated) == {
        "edge": ScenarioTable(("Offline",), ("Server",)),
        "datacenter , edge": ScenarioTable(one_of=(("Server", "Interactive"),)),
        "datacenter": ScenarioTable(),
    }
    wrong = "there is no scenario of this name here"
    for table in ({"required": ("x",)}, {"optional": ("Offline", "x")}, {"one_of": (("Offline",), ("Server", "x"))}):
        assert refusal(make_tables, "here", {"edge": table}) == ("here.edge.x", wrong, SCENARIOS)
    assert refusal(make_tables, "here", {"edge,moon": {}}) == (
        "here.moon",
        "there is no category of this name here",
        "known here: datacenter, edge",
    )
    assert refusal(make_tables, "here", {"edge": {"require": ()}}) == (
        "here.edge.require",
        "there is no key of this name here",
        "did you mean required?; known here: required, optional, one_of",
    )
    assert refusal(make_tables, "here", [])[:2] == ("here", MAPPING)
    assert refusal(make_tables, "here", {"edge": "all"})[:2] == ("here.edge", MAPPING)


def test_a_section_is_a_struct_several_of_one_or_what_is_stated() -> None:
    log = {"limit": 3, "whole_below": 2, "keep": 1}
    assert make_section("accuracy_log", log) == AccuracyLogRule(3, 2, 1)
    assert make_section("network", {"sut_name": "x"}) == NetworkRules(sut_name="x")
    fields = ({"name": "a"}, {"name": "b", "filled": True})
    assert make_section("system_fields", fields) == (SystemField("a"), SystemField("b", filled=True))
    inferred = {"scenario": "Offline", "measured": "Server", "category": "edge", "key": "k"}
    assert make_section("inferences", (inferred,)) == (Inference("Offline", "Server", "edge", "k"),)
    assert make_section("measurements_fields", ("a", "b")) == ("a", "b")
    assert make_section("aliases", {"a": "b"}) == {"a": "b"}
    assert make_section("divisions", {"open": {"accuracy": False}}) == {"open": {"accuracy": False}}
    del log["keep"]
    assert refusal(make_section, "accuracy_log", log) == ("accuracy_log", "the key keep is missing", "add keep")
    assert refusal(make_section, "system_fields", ({"name": "a"}, {"nam": "b"}))[:2] == (
        "system_fields.1.nam",
        "there is no key of this name here",
    )
    assert refusal(make_section, "system_fields", ({"name": "a"}, {"filled": True})) == (
        "system_fields.1",
        "the key name is missing",
        "add name",
    )
    assert refusal(make_section, "network", ())[:2] == ("network", MAPPING)


def test_what_is_the_same_for_all_scenarios_stands_at_none() -> None:
    check_place("scenarios.Offline", ["min_duration", "least_runs"])
    assert refusal(check_place, "scenarios.Offline", ["min_duration", "qsl_rng_seed", "compliance_tests"]) == (
        "scenarios.Offline.qsl_rng_seed",
        "it is the same for all scenarios, and would not be read here",
        "move it to `general`, of the benchmark or of the round",
    )


@pytest.mark.parametrize(
    ("where", "unknown", "known", "place", "fix"),
    [
        ("", "genral", ["general"], "genral", "did you mean general?; known here: general"),
        ("a.b", "zzz", ["general", "other"], "a.b.zzz", "known here: general, other"),
        ("a", "zzz", [f"name{number}" for number in range(40)], "a.zzz", "the newest round file explains what may"),
        ("a", "name1", [f"name{number}" for number in range(40)], "a.name1", "did you mean name1?"),
    ],
)
def test_the_nearest_name_is_told_and_a_few_are_listed(
    where: str, unknown: str, known: list[str], place: str, fix: str
) -> None:
    told = refusal(refuse_name, where, unknown, known, "thing")
    assert told[:2] == (place, "there is no thing of this name here")
    assert told[2].startswith(fix)
    assert ("known here" in told[2]) is (len(known) < 10)


def test_names_are_listed_up_to_as_many_as_a_round_has_sections() -> None:
    sections = ["round", "layout", "general", "scenarios", "benchmarks", "earlier", "extends", "removed"]
    sections += ["divisions", "system_fields", "measurements_fields", "accuracy_log", "aliases", "inferences"]
    sections += ["network", "power_fields", "endpoints"]
    _, _, fix = refusal(check_form, {**LEAST, "zzz": 1})
    assert set(fix.removeprefix("known here: ").split(", ")) == set(sections)
    listed = [f"n{number}" for number in range(len(sections))]
    assert refusal(refuse_name, "", "zzz", listed, "thing")[2].startswith("known here: n0, ")
    assert "known here" not in refusal(refuse_name, "", "zzz", [*listed, "more"], "thing")[2]
