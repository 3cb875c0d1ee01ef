from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

import reconciler
from reconciler.errors import ReconcilerError
from reconciler.resource.ruled_values import Metric
from reconciler.rules.endpoints_program.cohorts import Cohort, list_adoption_window
from reconciler.rules.endpoints_program.rules import (
    MODEL_SEED,
    CurveRules,
    Drafter,
    EndpointsRule,
    OpenQuestion,
    RuledBenchmark,
    RuleSource,
    SeedSet,
    load_endpoints_rules,
    parse_endpoints_rules,
)
from reconciler.rules.endpoints_ruleset import load_endpoints_ruleset
from reconciler.rules.rounds import load_ruleset

_RULES = load_endpoints_rules()


def test_every_value_names_a_known_source_and_every_source_its_date() -> None:
    assert len(_RULES.rules) > 30
    for name, rule in _RULES.rules.items():
        assert rule.sources, name
        assert set(rule.sources) | set(rule.differs) <= set(_RULES.sources), name
    assert all(len(source.date) == 10 and source.version for source in _RULES.sources.values())


def test_what_sources_state_differently_is_an_open_question() -> None:
    assert all(rule.question in _RULES.questions for rule in _RULES.rules.values() if rule.differs)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("rules: {x: {value: 1, sources: {nobody: §1}}}", "it names no known source"),
        ("rules: {x: {value: 1}}", "it names no known source"),
        ("rules: {x: {value: 0.98, sources: {policy: §1}}}", "not exact"),
        ("rules: {x: {value: 1, sources: {policy: §1}, question: why}}", "no open question 'why'"),
    ],
)
def test_a_rule_without_source_is_refused(text: str, problem: str) -> None:
    head = "version: v1.0\nsources: {policy: {title: t, version: v, date: 2026-10-02}}\nquestions: {}\n"
    with pytest.raises(ReconcilerError, match=problem):
        parse_endpoints_rules(f"{head}{text}\nseed_sets: []\nbenchmarks: {{}}\ndrafters: []\n".encode())


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ReconcilerError, match=r"v9\.0"):
        load_endpoints_rules("v9.0")


def test_low_concurrency_takes_the_short_duration_whatever_its_region() -> None:
    assert _RULES.find_least_seconds("med_concurrency", 30, agentic=True) == 600
    assert _RULES.find_least_seconds("med_concurrency", 33, agentic=False) == 1200
    assert _RULES.find_least_seconds("med_concurrency", 33, agentic=True) == 2400


def test_accuracy_is_measured_at_a_point_less_where_an_agent_asks() -> None:
    assert (_RULES.count_accuracy_points(agentic=False), _RULES.count_accuracy_points(agentic=True)) == (5, 4)


def test_a_round_of_curves_is_found_by_its_name_and_measures_tokens() -> None:
    ruleset = load_ruleset("endpoints-v1.0")
    assert (ruleset.round, ruleset.layout) == ("endpoints-v1.0", "endpoints")
    assert set(ruleset.benchmarks) == set(_RULES.benchmarks)
    for rules in ruleset.benchmarks.values():
        assert rules.metric("Offline") == Metric("system_tps", "tokens/s", 1)
    with pytest.raises(ReconcilerError, match=r"v9\.0"):
        load_ruleset("endpoints-v9.0")


def test_a_shortened_rule_set_is_a_rehearsal_and_changes_nothing_else() -> None:
    short = _RULES.shorten(2)
    assert (_RULES.rehearsal, short.rehearsal) == (False, True)
    assert short.find_least_seconds("high_concurrency", 500, agentic=True) == 2
    assert {name for name in short.rules if short.rules[name] != _RULES.rules[name]} == {
        "least_seconds",
        "least_seconds_agentic",
    }


def test_a_seed_set_may_be_adopted_in_four_cohorts() -> None:
    seeds = _RULES.find_seed_set("A")
    cohorts = [str(cohort) for cohort in _RULES.list_adopting_cohorts(seeds)]
    assert cohorts == ["2026-10-C1", "2026-11-C0", "2026-11-C1", "2026-12-C0"]
    with pytest.raises(ReconcilerError, match="not a published seed set"):
        _RULES.find_seed_set("B")


def test_cohorts_go_on_over_the_year() -> None:
    window = list_adoption_window(Cohort.parse("2026-12-C0"), 4)
    assert [str(cohort) for cohort in window] == ["2026-12-C0", "2026-12-C1", "2027-01-C0", "2027-01-C1"]
    assert Cohort.parse("2026-12-C1") < Cohort.parse("2027-01-C0")


@pytest.mark.parametrize("name", ["2026-13-C0", "2026-10-C2", "2026-10", "C1"])
def test_what_is_no_cohort_is_refused(name: str) -> None:
    with pytest.raises(ReconcilerError, match="not a cohort"):
        Cohort.parse(name)


def test_bars_of_a_benchmark() -> None:
    llama = _RULES.benchmarks["llama3_1-8b"]
    assert llama.accuracy["rouge1"] == (Decimal("38.391408"), None)
    assert llama.accuracy["gen_len"][1] == Decimal("8984408.4")
    assert _RULES.benchmarks["kimi-k3"].agentic


def test_a_round_of_curves_holds_results_to_both_bounds() -> None:
    bars = {bar.metric: bar for bar in load_endpoints_ruleset("endpoints-v1.0").benchmark("llama3_1-8b").bars("")}
    assert (bars["rouge1"].least, bars["rouge1"].most) == (Decimal("38.391408"), None)
    assert bars["gen_len"].most == Decimal("8984408.4")


def test_a_round_of_curves_is_found_by_its_name_and_measures_the_tokens_of_the_system() -> None:
    ruleset = load_ruleset("endpoints-v1.0")
    assert (ruleset.round, ruleset.layout) == ("endpoints-v1.0", "endpoints")
    assert set(ruleset.benchmarks) == set(ruleset.endpoints.benchmarks) == set(_RULES.benchmarks)
    for benchmark in ruleset.benchmarks.values():
        metric = benchmark.metric("Curve")
        assert (metric.key, metric.unit, metric.divisor, metric.lower_is_better) == ("system_tps", "tokens/s", 1, False)
    with pytest.raises(ReconcilerError, match=r"unknown version 'v9\.0' of the Endpoints rules"):
        load_ruleset("endpoints-v9.0")


def test_accuracy_is_measured_at_five_points_and_of_agents_at_four() -> None:
    assert [_RULES.count_accuracy_points(agentic=agentic) for agentic in (False, True)] == [5, 4]


def test_the_document_lists_every_open_question() -> None:
    text = (Path(reconciler.__file__).parent / "docs/endpoints-rules.md").read_text()
    rows = [f"| {name} | {question.asks} | {question.taken} |" for name, question in _RULES.questions.items()]
    assert [line for line in text.splitlines() if line.startswith("| ")][-len(rows) :] == rows


def test_each_bound_of_a_benchmark_is_there_where_it_is_stated() -> None:
    head = "version: v1.0\nsources: {policy: {title: t, version: v, date: 2026-10-02}}\nquestions: {}\nrules: {}\n"
    full = "{accuracy: {one: ['1.5'], both: ['2', '3']}, least_accuracy_samples: 4, agentic: true, inline: '5', "
    full += "swe_bench: '6', output_tokens: ['7', '8'], sources: {policy: §1}}"
    text = f"{head}seed_sets: []\nbenchmarks: {{full: {full}, bare: {{sources: {{policy: §1}}}}}}\ndrafters: []\n"
    assert parse_endpoints_rules(text.encode()).benchmarks == {
        "full": RuledBenchmark(
            name="full",
            accuracy={"one": (Decimal("1.5"), None), "both": (Decimal(2), Decimal(3))},
            least_accuracy_samples=4,
            agentic=True,
            inline=Decimal(5),
            swe_bench=Decimal(6),
            output_tokens=(Decimal(7), Decimal(8)),
        ),
        "bare": RuledBenchmark("bare", {}, 0, agentic=False, inline=None, swe_bench=None, output_tokens=None),
    }


WHOLE = """
version: v1.0
sources:
  policy: {title: The rules, version: 1, date: 2026-10-02}
  checker: {title: The checker, version: abc, date: 2026-10-03}
questions:
  when: {asks: "At what time?", taken: "12"}
rules:
  short: {value: 7, sources: {policy: 1.5}}
  disputed: {value: "0.98", sources: {policy: §1, checker: c}, differs: {checker: 2}, question: when}
  listed: {value: [a, b], sources: {checker: c}}
  least_seconds: {value: {low_latency: 5, high_concurrency: 9}, sources: {policy: §2}}
  least_seconds_agentic: {value: {low_latency: 6, high_concurrency: 8}, sources: {policy: §2}}
  most_ultra_low_concurrency: {value: 32, sources: {policy: §2}}
  accuracy_points: {value: 3, sources: {policy: §2}}
  accuracy_points_agentic: {value: 2, sources: {policy: §2}}
  adoption_cohorts: {value: 2, sources: {policy: §2}}
seed_sets:
- {id: B, published: 2026-12-C1, scheduler_rng_seed: 1, sample_index_rng_seed: 2, model_seed: 3, sources: {policy: B}}
- {id: A, published: 2026-10-C0, scheduler_rng_seed: 4, sample_index_rng_seed: 5, model_seed: 6, sources: {policy: A}}
benchmarks:
  tiny: {sources: {policy: §3}}
drafters:
- {benchmark: tiny, approved: 2026-11-C1, model: eagle, checksum: abc, sources: {policy: §4}}
"""
B, A = (
    SeedSet("B", Cohort(2026, 12, 1), scheduler_rng_seed=1, sample_index_rng_seed=2, model_seed=3),
    SeedSet("A", Cohort(2026, 10, 0), scheduler_rng_seed=4, sample_index_rng_seed=5, model_seed=6),
)


def test_a_whole_document_is_read() -> None:
    found = parse_endpoints_rules(WHOLE.encode())
    once = {"policy": "§2"}
    assert found == CurveRules(
        version="v1.0",
        sources={
            "policy": RuleSource("The rules", "1", "2026-10-02"),
            "checker": RuleSource("The checker", "abc", "2026-10-03"),
        },
        rules={
            "short": EndpointsRule(7, {"policy": "1.5"}, {}),
            "disputed": EndpointsRule("0.98", {"policy": "§1", "checker": "c"}, {"checker": "2"}, "when"),
            "listed": EndpointsRule(["a", "b"], {"checker": "c"}, {}),
            "least_seconds": EndpointsRule({"low_latency": 5, "high_concurrency": 9}, once, {}),
            "least_seconds_agentic": EndpointsRule({"low_latency": 6, "high_concurrency": 8}, once, {}),
            "most_ultra_low_concurrency": EndpointsRule(32, once, {}),
            "accuracy_points": EndpointsRule(3, once, {}),
            "accuracy_points_agentic": EndpointsRule(2, once, {}),
            "adoption_cohorts": EndpointsRule(2, once, {}),
        },
        seed_sets={"B": B, "A": A},
        benchmarks={"tiny": RuledBenchmark("tiny", {}, 0, False, None, None, None)},
        drafters=(Drafter("tiny", Cohort(2026, 11, 1), "eagle", "abc"),),
        questions={"when": OpenQuestion("At what time?", "12")},
    )
    assert (found.get("disputed"), found.decimal("disputed"), found.number("short")) == ("0.98", Decimal("0.98"), 7)
    assert (found.words("listed"), found.decimal("short"), found.rehearsal) == (("a", "b"), Decimal(7), False)
    with pytest.raises(KeyError):
        found.get("nothing")


def test_a_point_lasts_as_long_as_its_concurrency_and_its_region_ask() -> None:
    found = parse_endpoints_rules(WHOLE.encode())
    places = [("low_latency", 33), ("high_concurrency", 32), ("high_concurrency", 33), ("", 33), ("", 32)]
    timed = [[found.find_least_seconds(*place, agentic=agentic) for place in places] for agentic in (False, True)]
    assert timed == [[5, 5, 9, 0, 5], [6, 6, 8, 0, 6]]
    assert (found.find_offline_seconds(), found.shorten(3).find_offline_seconds()) == (9, 3)
    assert [found.count_accuracy_points(agentic=agentic) for agentic in (False, True)] == [3, 2]


def test_seeds_have_the_names_of_a_point_and_are_adopted_in_a_window() -> None:
    found = parse_endpoints_rules(WHOLE.encode())
    assert found.find_seed_set("A").seeds == {"scheduler_rng_seed": 4, "sample_index_rng_seed": 5, "model_seed": 6}
    assert MODEL_SEED == "model_seed"
    assert list(map(str, found.list_adopting_cohorts(found.find_seed_set("B")))) == ["2026-12-C1", "2027-01-C0"]
    with pytest.raises(ReconcilerError) as caught:
        found.find_seed_set("nobody's")
    assert caught.value.message == '"nobody\'s" is not a published seed set'
    assert caught.value.fix == "published sets: A, B"
    with pytest.raises(ReconcilerError) as caught:
        found.find_seed_set("a")
    assert caught.value.fix.endswith("published sets: A, B")


@pytest.mark.parametrize(
    ("old", "new", "message", "fix"),
    [
        ("tiny: {sources: {policy: §3}}", "tiny: {}", "benchmarks.tiny: it names no known source", "policy, checker"),
        ("{sources: {policy: §3}}", "{sources: {nobody: 1}}", "benchmarks.tiny: it names no known source", "SOURCE"),
        (", sources: {policy: A}", "", "seed_sets.A: it names no known source", "write `sources: {SOURCE: where}`"),
        ("sources: {policy: B}", "sources: {policy: B, me: 1}", "seed_sets.B: it names no known source", "policy"),
        ("value: 7", "value: 7.5", "short: 7.5 is not exact as a number", "write it in quotes"),
        ("question: when", "question: who", "disputed: there is no open question 'who'", "name one of `questions`"),
    ],
)
def test_what_a_document_lacks_is_told_by_its_place(old: str, new: str, message: str, fix: str) -> None:
    assert old in WHOLE
    with pytest.raises(ReconcilerError) as caught:
        parse_endpoints_rules(WHOLE.replace(old, new).encode())
    assert caught.value.message == message
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("name", "count", "later"),
    [
        ("2026-10-C1", 0, "2026-10-C1"),
        ("2026-10-C1", 1, "2026-11-C0"),
        ("2026-10-C0", 1, "2026-10-C1"),
        ("2026-01-C0", 23, "2026-12-C1"),
        ("2026-01-C0", 24, "2027-01-C0"),
        ("2026-12-C1", 49, "2029-01-C0"),
    ],
)
def test_cohorts_are_two_a_month(name: str, count: int, later: str) -> None:
    assert str(Cohort.parse(name).add(count)) == later


def test_an_unknown_version_and_a_wrong_cohort_are_told_with_what_to_write() -> None:
    with pytest.raises(ReconcilerError) as caught:
        load_endpoints_rules("v2.0")
    assert (caught.value.message, caught.value.fix) == ("unknown version 'v2.0' of the Endpoints rules", "known: v1.0")
    with pytest.raises(ReconcilerError) as caught:
        Cohort.parse("2026-00-C0")
    assert caught.value.message == "'2026-00-C0' is not a cohort"
    assert caught.value.fix == "write YYYY-MM-C0 or YYYY-MM-C1, as 2026-10-C1"


def test_a_round_of_curves_binds_its_divisions_to_nothing_of_inference() -> None:
    ruleset = load_endpoints_ruleset("endpoints-v1.0")
    free = ["scenarios", "compliance_tests", "model_mapping", "calibration", "used_systems", "whole_numbers"]
    assert ruleset.divisions
    assert all(demands == dict.fromkeys(free, False) for demands in ruleset.divisions.values())
    assert (ruleset.system_fields, ruleset.measurements_fields, ruleset.benchmark("nobody")) == ((), (), None)
    log = ruleset.accuracy_log
    assert (log.limit, log.whole_below, log.keep) == (0, 0, 0)
    llama = ruleset.benchmark("llama3_1-8b")
    assert llama is not None
    assert (llama.round, llama.tables, llama.value("metric_key", "any")) == ("endpoints-v1.0", {}, "system_tps")
    assert next(str(llama.origin(ruled)) for ruled in llama.levels[""][1].values()).startswith("round endpoints-v1.0")
    assert {ruled.sources for ruled in llama.levels[""][0].values()} == {("checker",)}
    assert {ruled.sources for ruled in ruleset.general.values()} == {("policy",)}
