"""Lookups on a ruleset: which level of a small round holds for a benchmark, a scenario, a division and a category."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from reconciler.resource.inputs import Origin, Value
from reconciler.resource.ruled_values import (
    Bar,
    Expected,
    ExtraFiles,
    Inference,
    Metric,
    Presence,
    SystemField,
    TestRules,
)
from reconciler.rules.rounds import parse_ruleset
from reconciler.rules.ruled_value import RuledValue
from reconciler.rules.ruleset import BenchmarkRules, Ruleset, normalise_category


def said(value: Any, source: str = "checker") -> dict[str, Any]:
    return {source: value}


ROUND: dict[str, Any] = {
    "round": "v0.1",
    "layout": "v6",
    "general": {
        "qsl_rng_seed": said(1),
        "sample_index_rng_seed": said(2),
        "schedule_rng_seed": said(3),
        "min_duration": said(600, "policy"),
        "metric_key": said("general"),
        "metric_unit": said("u"),
        "compliance_tests": said(["TEST01"]),
        "cell_documents": said(["a.md"]),
        "tests": {
            "TEST01": {
                "files": said(["v.txt"]),
                "compared_with": said(["accuracy"]),
                "expects": said({"v.txt": ["= TEST PASS"]}),
                "performance_checks": said(True),
                "settings": {"mode": said(2), "min_duration": said(5)},
                "limits": {"most_score_change": said("10", "verification")},
            }
        },
    },
    "scenarios": {"Offline": {"metric_key": said("offline"), "metric_better": said("lower")}, "Server": {}},
    "benchmarks": {
        "net": {
            "categories": said(
                {
                    "edge": {"required": ["Offline"]},
                    "datacenter": {"optional": ["Server", "Offline"], "one_of": [["Server", "Offline"]]},
                    "datacenter, edge": {"required": ["Server", "Offline"], "optional": ["SingleStream"]},
                }
            ),
            "general": {
                "min_duration": said(700),
                "metric_divisor": said(10),
                "accuracy": {
                    "F1": {"least": said("90.5"), "most": said("99")},
                    "acc": {"least": said(70)},
                },
                "generation": {"both": {"top_k": said(1)}, "accuracy": {"seed": said(2)}},
                "accuracy_files": said({"folder": "images", "stems": [1, "b"]}),
            },
            "scenarios": {
                "Offline": {"min_duration": said(800), "tests": {"TEST01": {"settings": {"min_duration": said(6)}}}}
            },
        },
        "bare": {"categories": said({"edge": None}), "general": {"compliance_tests": said([])}},
    },
    "earlier": {"old": {"categories": said({"edge": {"required": ["Offline"]}})}},
    "divisions": said({"open": {"scenarios": False, "accuracy": False}}),
    "system_fields": said([{"name": "status", "filled": True, "one_of": ["a", "b"]}, {"name": "n", "integer": True}]),
    "measurements_fields": said(["retraining"]),
    "accuracy_log": said({"limit": 3, "whole_below": 2, "keep": 1}),
    "aliases": said({"netto": "net", "older": "old"}),
    "inferences": said(
        [
            {"scenario": "Offline", "measured": "Server", "category": "edge", "key": "k", "multiplier": 2},
            {"scenario": "Offline", "measured": "Server", "category": "datacenter", "key": "l"},
        ]
    ),
}
RULES = parse_ruleset(ROUND)
NET, BARE = RULES.benchmarks["net"], RULES.benchmarks["bare"]
CHECKER, POLICY = (Origin(f"round v0.1 ({source})") for source in ("checker", "policy"))


@pytest.mark.parametrize(
    ("name", "scenario", "value"),
    [
        ("min_duration", "", 700),
        ("min_duration", "Offline", 800),
        ("min_duration", "Server", 700),
        ("min_duration", "SingleStream", 700),
        ("metric_key", "", "general"),
        ("metric_key", "Offline", "offline"),
        ("metric_key", "Server", "general"),
        ("dataset_size", "Offline", None),
    ],
)
def test_the_most_specific_level_holds(name: str, scenario: str, value: object) -> None:
    assert NET.value(name, scenario) == value
    ruled = NET.ruled(name, scenario)
    assert (None if ruled is None else ruled.value) == value


def test_a_name_that_no_round_may_rule_on_is_a_mistake() -> None:
    for ask in (NET.ruled, RULES.value):
        with pytest.raises(KeyError, match="no such rule: nothing"):
            ask("nothing")


def test_a_run_starts_from_the_settings_of_its_scenario() -> None:
    seeds = {name: Value(seed, CHECKER) for name, seed in RULES.seeds().items()}
    assert list(seeds) == ["qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"]
    assert [value.value for value in seeds.values()] == [1, 2, 3]
    assert NET.settings("Offline") == {**seeds, "min_duration": Value(800, CHECKER)}
    assert BARE.settings("Server") == {**seeds, "min_duration": Value(600, POLICY)}
    assert (NET.seeds(), BARE.seeds()) == (RULES.seeds(), RULES.seeds())
    assert NET.generation("Offline") == {
        "generation.both.top_k": Value(1, CHECKER),
        "generation.accuracy.seed": Value(2, CHECKER),
    }
    assert BARE.generation("Offline") == {}
    files = {"folder": "images", "stems": (1, "b")}
    assert NET.files("Offline") == {"accuracy_files": Value(files, CHECKER)}
    assert BARE.files("Offline") == {}


def test_names_are_those_of_every_level_in_the_order_of_the_file() -> None:
    general = list(RULES.general)
    own = ["metric_divisor", "accuracy.F1.least", "accuracy.F1.most", "accuracy.acc.least"]
    own += ["generation.both.top_k", "generation.accuracy.seed", "accuracy_files"]
    assert NET.names() == NET.names("SingleStream") == (*general, *own)
    assert NET.names("Offline") == (*general, "metric_better", *own)
    assert BARE.names("Server") == tuple(general)


def test_bars_metric_and_files_of_a_benchmark() -> None:
    assert NET.bars("Offline") == NET.bars() == (Bar("F1", Decimal("90.5"), Decimal(99)), Bar("acc", Decimal(70), None))
    assert BARE.bars() == ()
    assert NET.metric("Offline") == Metric("offline", "u", divisor=10, lower_is_better=True)
    assert BARE.metric("Server") == Metric("general", "u", divisor=1, lower_is_better=False)
    assert NET.extra_files("Server") == ExtraFiles("images", ("1", "b"))
    assert BARE.extra_files() is None


def test_a_test_has_the_settings_of_its_scenario() -> None:
    def rules(seconds: int) -> TestRules:
        return TestRules(
            name="TEST01",
            compared_with=("accuracy",),
            files=("v.txt",),
            expected=(Expected("v.txt", ("TEST PASS",), True),),
            performance_checks=True,
            settings={"mode": Value(2, CHECKER), "min_duration": Value(seconds, CHECKER)},
            limits={"most_score_change": Value("10", Origin("round v0.1 (verification)"))},
        )

    assert (NET.compliance_tests, BARE.compliance_tests) == (("TEST01",), ())
    assert NET.tests("Offline") == (rules(6),)
    assert NET.tests() == NET.tests("Server") == (rules(5),)
    assert (BARE.tests(), BARE.test("TEST01")) == ((), rules(5))
    with pytest.raises(KeyError, match=r"round v0\.1 has no test TEST04"):
        NET.test("TEST04")
    assert (NET.list_stated_tests(), BARE.list_stated_tests()) == ({"TEST01"}, set())
    bare = BenchmarkRules("x", "v0.1", {}, RuledValue({}, ("checker",)), {"": ({},)})
    assert (bare.list_stated_tests(), bare.compliance_tests) == (set(), ())


MUST, MAY, NOT = Presence.REQUIRED, Presence.OPTIONAL, Presence.FORBIDDEN


@pytest.mark.parametrize(
    ("category", "presences", "entered", "missing"),
    [
        ("edge", (MUST, NOT, NOT), (), ("Offline",)),
        ("edge", (MUST, NOT, NOT), ("Offline",), ()),
        ("datacenter", (MAY, MAY, NOT), ("SingleStream",), ("Server or Offline",)),
        ("datacenter", (MAY, MAY, NOT), ("Server",), ()),
        ("edge,datacenter", (MUST, MUST, MAY), ("Server",), ("Offline",)),
        ("datacenter , edge", (MUST, MUST, MAY), (), ("Server", "Offline")),
        ("network", (NOT, NOT, NOT), (), ()),
    ],
)
def test_scenarios_are_required_optional_or_forbidden_in_a_category(
    category: str, presences: tuple[Presence, ...], entered: tuple[str, ...], missing: tuple[str, ...]
) -> None:
    asked = ("Offline", "Server", "SingleStream")
    assert tuple(NET.presence(category, scenario) for scenario in asked) == presences
    assert NET.missing(category, frozenset(entered)) == missing
    assert normalise_category(" edge, datacenter") == "datacenter,edge"


def test_the_parts_of_a_round_are_values() -> None:
    assert (RULES.round, RULES.layout, RULES.cell_documents) == ("v0.1", "v6", ("a.md",))
    assert RULES.system_fields == (
        SystemField("status", filled=True, one_of=("a", "b")),
        SystemField("n", integer=True),
    )
    assert (RULES.measurements_fields, RULES.accuracy_log.keep) == (("retraining",), 1)
    assert (RULES.value("min_duration"), RULES.value("dataset_size")) == (600, None)
    assert (RULES.network.sut_name, RULES.power_fields, RULES.endpoints.benchmarks) == ("", (), ())


def test_a_benchmark_is_known_by_its_official_name_or_an_alias() -> None:
    assert (RULES.benchmark("net"), RULES.benchmark("netto"), RULES.benchmark("old")) == (NET, None, None)
    names = ("net", "netto", "bare", "older", "old", "nobody")
    assert [RULES.official(name) for name in names] == ["net", "net", "bare", None, None, None]


def test_a_division_without_fixed_scenarios_takes_benchmarks_of_earlier_rounds() -> None:
    demands = [RULES.binds(*asked) for asked in (("open", "scenarios"), ("open", "x"), ("closed", "scenarios"))]
    assert demands == [False, True, True]
    found = {
        (division, name): RULES.find_rules(division, name)
        for division in ("open", "closed")
        for name in ("net", "old", "x")
    }
    assert [key for key, rules in found.items() if rules is None] == [
        ("open", "x"),
        ("closed", "old"),
        ("closed", "x"),
    ]
    assert found["open", "old"] is RULES.earlier["old"]


def test_an_inference_is_of_a_category_of_the_system() -> None:
    edge = Inference("Offline", "Server", "edge", "k", multiplier=2)
    other = Inference("Offline", "Server", "datacenter", "l")

    def find(ruleset: Ruleset, *asked: str) -> Inference | None:
        return ruleset.inference(*asked)

    assert find(RULES, "Offline", "Server", "edge") == edge
    assert find(RULES, "Offline", "Server", "datacenter") == other
    assert find(RULES, "Offline", "Server", "datacenter,edge") == edge
    assert find(RULES, "Offline", "Server", "network") is None
    assert find(RULES, "Server", "Offline", "edge") is None
