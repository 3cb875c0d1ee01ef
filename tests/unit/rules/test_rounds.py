"""The round files and the lookups on them; what they take from mlperf.conf against the installed LoadGen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.desired.checks import explain_variant_refusal
from reconciler.loadgen.settings import name_loadgen_scenario
from reconciler.resource.canonical import canonicalise
from reconciler.resource.ruled_values import Presence
from reconciler.rules.comparison import find_stated
from reconciler.rules.rounds import extend_round, list_rounds, load_ruleset, parse_ruleset, read_round, states_itself
from reconciler.rules.ruled_value import DEMAND_FIELDS, SOURCES, RoundFileError, is_field, parse_ruled_value
from reconciler.rules.ruleset import BenchmarkRules, Ruleset
from tests.shared import need


@pytest.mark.parametrize("name", list_rounds())
def test_every_ruled_value_names_its_sources_and_is_exact(name: str) -> None:
    ruleset = load_ruleset(name)
    assert ruleset.round == name
    for place, found in find_stated(ruleset):
        assert is_field(place.name) or place.name == "categories" or place.name in ruleset.sections, place
        assert found.sources, place
        assert {*found.sources, *dict(found.overruled), *(i.source for i in found.ignored)} <= set(SOURCES), place
        assert all(ignored.because for ignored in found.ignored), place
        for value in (found.value, *(v for _, v in found.overruled), *(i.value for i in found.ignored)):
            canonicalise(value)  # refuses floats at any depth


@pytest.mark.parametrize("name", list_rounds())
def test_every_benchmark_is_complete_where_it_may_be_entered(name: str) -> None:
    for benchmark in load_ruleset(name).benchmarks.values():
        assert benchmark.get_value("model_key")
        assert benchmark.list_bars()
        for table in benchmark.tables.values():
            for scenario in table.required + table.optional:
                assert benchmark.find_metric(scenario).key
                assert any(benchmark.get_value(field, scenario) is not None for field in DEMAND_FIELDS)


@pytest.mark.parametrize("name", list_rounds())
def test_every_round_states_its_seeds_itself_and_no_other_does(name: str) -> None:
    seeds = load_ruleset(name).seeds().values()
    assert [other for other in list_rounds() if states_itself(other, seeds)] == [name]


def test_divisions_exempt_some_demands() -> None:
    ruleset = load_ruleset("v6.1")
    assert ruleset.binds("closed", "accuracy")
    assert not ruleset.binds("open", "accuracy")
    assert ruleset.binds("open", "least_min_duration")


# A round file in its smallest form, for the mistakes below.
def _document(**general: Any) -> dict[str, Any]:
    return {
        "round": "v0.1",
        "layout": "v6",
        "general": general,
        "scenarios": {"Offline": {}},
        "benchmarks": {"b": {"categories": {"checker": {"edge": {"required": ["Offline"]}}}, "general": {}}},
        "divisions": {"checker": {}},
        "system_fields": {"checker": [{"name": "status"}]},
        "measurements_fields": {"checker": ["retraining"]},
        "accuracy_log": {"checker": {"limit": 3, "whole_below": 1, "keep": 1}},
    }


@pytest.mark.parametrize(
    ("general", "message"),
    [
        ({"min_durations": {"checker": 1}}, "general.min_durations: unknown field"),
        ({"min_duration": {"rumour": 1}}, "unknown source"),
        ({"min_duration": {}}, "no source"),
        ({"target_latency_percentile": {"policy": 99.9}}, "99.9 is not exact"),
        ({"min_duration": {"policy": 1, "checker": 2}}, "neither is stricter"),
        ({"min_duration": {"ignored": {"policy": 1}, "because": "x"}}, "no source"),
        ({"min_duration": {"checker": 1, "ignored": {"policy": 2}}}, "require each other"),
        ({"min_duration": {"checker": 1, "because": "x"}}, "require each other"),
        ({"min_duration": {"checker": [1, {"a": 0.5}]}}, "0.5 is not exact"),
        ({"min_duration": 1}, "a mapping of sources"),
        ({"accuracy": {"acc": {"lest": {"checker": "1"}}}}, "a mapping of sources|there is no field"),
        ({"accuracy": {"acc": {"least": "1"}}}, "a mapping of sources"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parse_ruleset_when_malformed_names_the_place(general: dict[str, Any], message: str) -> None:
    with pytest.raises(RoundFileError, match=message):
        parse_ruleset(_document(**general))


def test_parse_ruleset_in_its_smallest_form() -> None:
    rules = parse_ruleset(_document(min_duration={"checker": 1})).benchmarks["b"]
    assert rules.get_value("min_duration", "Offline") == 1
    assert rules.get_value("min_duration") == 1


def test_a_round_extends_another_value_by_value() -> None:
    base = _document(min_duration={"checker": 1, "policy": 1}, min_query_count={"checker": 5})
    own = {"round": "v0.2", "extends": "v0.1", "general": {"min_duration": {"loadgen": 2}}}
    ruleset = parse_ruleset(extend_round(base, own))
    assert ruleset.round == "v0.2"
    assert ruleset.general["min_duration"].sources == ("loadgen",)
    assert ruleset.get_value("min_query_count") == 5
    without = extend_round(base, {"round": "v0.2", "removed": ["general/min_query_count", "benchmarks/b"]})
    assert parse_ruleset(without).get_value("min_query_count") is None
    assert not parse_ruleset(without).benchmarks
    assert list(parse_ruleset(without).earlier) == ["b"], "what a round removes is a benchmark of earlier ones"
    assert base["general"]["min_query_count"], "the round it extends stays as it was"
    with pytest.raises(RoundFileError, match="unknown path general/nothing"):
        extend_round(base, {"removed": ["general/nothing"]})


@pytest.mark.parametrize("name", list_rounds())
def test_benchmarks_of_earlier_rounds_have_what_a_run_needs_and_no_other_rounds_name(name: str) -> None:
    ruleset = load_ruleset(name)
    assert {"ssd-large", "rnnt"} <= {*ruleset.earlier, *ruleset.benchmarks}
    assert not set(ruleset.earlier) & set(ruleset.benchmarks)
    for rules in ruleset.earlier.values():
        assert rules.list_bars()
        assert rules.get_value("performance_sample_count") is not None
        assert rules.find_metric("Offline").key


def test_a_round_read_backwards_has_what_a_later_one_calls_earlier_and_nothing_that_came_later() -> None:
    later = _document()
    later["benchmarks"]["new"] = later["benchmarks"]["b"]
    later["earlier"] = {"old": later["benchmarks"]["b"], "older": later["benchmarks"]["b"]}
    own = {"round": "v0.0", "removed": ["benchmarks/new"], "benchmarks": {"old": later["benchmarks"]["b"]}}
    ruleset = parse_ruleset(extend_round(later, own))
    assert sorted(ruleset.benchmarks) == ["b", "old"]
    assert list(ruleset.earlier) == ["older"]
    assert load_ruleset("v3.0").find_rules("open", "gptj-99") is None
    assert load_ruleset("v3.0").find_rules("open", "ssd-large") is not None


def test_a_benchmark_that_comes_back_is_one_of_the_round_again() -> None:
    base = _document()
    gone = extend_round(base, {"round": "v0.2", "removed": ["benchmarks/b"]})
    back = parse_ruleset(extend_round(gone, {"round": "v0.3", "benchmarks": base["benchmarks"]}))
    assert list(back.benchmarks) == ["b"]
    assert not back.earlier


def test_a_benchmark_is_like_another_but_for_what_it_states() -> None:
    document = _document(min_duration={"checker": 1})
    document["benchmarks"]["b"]["general"] = {"dataset_size": {"checker": 7}, "model_key": {"loadgen": "b"}}
    document["benchmarks"]["c"] = {"like": "b", "general": {"model_key": {"loadgen": "c"}}}
    rules = parse_ruleset(document).benchmarks["c"]
    assert (rules.get_value("dataset_size"), rules.get_value("model_key")) == (7, "c")
    assert rules.find_presence("edge", "Offline") is Presence.REQUIRED
    document["benchmarks"]["b"]["like"] = "c"
    with pytest.raises(RoundFileError, match="cycle"):
        parse_ruleset(document)


@pytest.mark.parametrize("part", ["generals", "scenario"])
def test_a_benchmark_with_an_unknown_part_is_refused(part: str) -> None:
    document = _document()
    document["benchmarks"]["b"][part] = {}
    with pytest.raises(RoundFileError, match=part):
        parse_ruleset(document)


_BASE = """\
round: v0.1
layout: v6
general:
  min_duration: {checker: 1}
  tests:
    TEST01:
      compared_with: {verification: []}
      files: {checker: [verify.txt]}
      expects: {checker: {}}
      performance_checks: {checker: false}
scenarios:
  Offline:
    metric_key: {checker: k}
benchmarks:
  net-1.5:
    categories:
      checker:
        edge: {required: [Offline]}
    general:
      compliance_tests: {checker: [TEST01]}
    scenarios:
      Offline:
        min_query_count: {checker: 3}
divisions:
  checker:
    open: {accuracy: false}
system_fields: {checker: [{name: status}]}
measurements_fields: {checker: [retraining]}
accuracy_log:
  checker: {limit: 3, whole_below: 1, keep: 1}
"""
_NEXT = """\
round: v0.2
extends: v0.1
removed: [general/min_duration]
benchmarks:
  other:
    like: net-1.5
"""


def read(name: str, base: str = _BASE, own: str = _NEXT) -> Ruleset:
    return read_round(name, lambda of: {"v0.1": base, "v0.2": own}[of].encode())


@pytest.mark.parametrize(
    ("old", "new", "message", "fix"),
    [
        ("general:", "generals:", "v0.1.yaml:3: generals: unknown section", "mean general"),
        ("layout: v6\n", "", "v0.1.yaml:1: layout: this section is missing", "add it"),
        ("scenarios:\n  Offline", "scenarios:\n  Ofline", "v0.1.yaml:12: scenarios.Ofline", "mean Offline"),
        ("    categories:", "    category:", "v0.1.yaml:16: benchmarks.net-1.5.category", "mean categories"),
        ("required: [Offline]", "requires: [Offline]", "v0.1.yaml:18: .*net-1.5.categories.edge.requires", "required"),
        ("required: [Offline]", "required: [offline]", "v0.1.yaml:18: .*net-1.5.categories.edge.offline", "Offline"),
        ("        edge:", "        egde:", "v0.1.yaml:18: .*egde", "mean edge"),
        (
            "        min_query_count: {checker: 3}",
            "        compliance_tests: {checker: []}",
            "v0.1.yaml:23: .*Offline.compliance_tests: it applies to all scenarios",
            "move it to `general`",
        ),
        ("    metric_key:", "    metrik_key:", "v0.1.yaml:13: scenarios.Offline.metrik_key", "mean metric_key"),
        ("    open:", "    opened:", "v0.1.yaml:26: divisions.opened", "mean open"),
        ("accuracy: false", "acuracy: false", "v0.1.yaml:26: divisions.open.acuracy", "accuracy"),
        ("name: status", "nam: status", "v0.1.yaml:27: system_fields.0.nam", "mean name"),
        (", keep: 1", "", "v0.1.yaml:29: accuracy_log: the key keep is missing", "add keep"),
        ("[TEST01]", "[TEST99]", "v0.1.yaml:20: .*TEST99 has no definition", "general.tests.TEST99"),
        ("      files: {checker: [verify.txt]}\n", "", "v0.1.yaml:19: .*TEST01 has no definition", "state files"),
        ("layout: v6", "layout: {v6", "v0.1.yaml:3: not YAML", ""),
        ("round: v0.1", "round: v0.3", "v0.1.yaml:1: round: the file states v0.3", "rename it to v0.1"),
    ],
)
def test_a_round_file_with_a_mistake_is_refused_at_its_line(old: str, new: str, message: str, fix: str) -> None:
    assert old in _BASE
    with pytest.raises(RoundFileError, match=message) as caught:
        read("v0.1", base=_BASE.replace(old, new, 1))
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("general/min_duration", "general/max_duration", "v0.2.yaml:3: removed: unknown path general/max_duration"),
        ("general/min_duration", "general/tests", "v0.1.yaml:20: .*compliance_tests: TEST01 has no definition"),
        ("like: net-1.5", "like: net-2", "v0.2.yaml:6: benchmarks.other.like"),
        ("extends: v0.1", "extends: v0.1\nscenario: {}", "v0.2.yaml:3: scenario: unknown section"),
    ],
)
def test_the_file_that_states_it_is_named(old: str, new: str, message: str) -> None:
    with pytest.raises(RoundFileError, match=message):
        read("v0.2", own=_NEXT.replace(old, new))


_TEXTS = st.one_of(st.integers(0, 10**12), st.decimals(0, 10**6, places=4).map(str))


@given(values=st.lists(_TEXTS, min_size=1, max_size=4), side=st.sampled_from(["least", "most"]))
def test_no_source_is_stricter_than_what_counts(values: list[int | str], side: str) -> None:
    entry = dict(zip(("policy", "checker", "mlperf.conf", "old checker"), values, strict=False))
    found = parse_ruled_value(f"accuracy.acc.{side}", entry)
    numbers = [Decimal(str(value)) for value in values]
    assert Decimal(str(found.value)) == (max if side == "least" else min)(numbers)
    assert entry[found.sources[0]] == found.value
    said = {**dict.fromkeys(found.sources, found.value), **dict(found.overruled)}
    assert said == entry, "every source is accounted for"


@pytest.mark.parametrize(
    ("round_name", "benchmarks", "first_seed", "layout"),
    [
        ("v0.7", 10, 12786827339337101903, "legacy"),
        ("v1.0", 10, 7322528924094909334, "legacy"),
        ("v1.1", 10, 1624344308455410291, "legacy"),
        ("v2.0", 10, 6655344265603136530, "legacy"),
        ("v2.1", 9, 14284205019438841327, "legacy"),
        ("v3.0", 9, 10003631887983097364, "legacy"),
        ("v3.1", 11, 148687905518835231, "legacy"),
        ("v4.0", 14, 13281865557512327830, "legacy"),
        ("v4.1", 14, 3066443479025735752, "legacy"),
        ("v5.0", 19, 6023615788873153749, "legacy"),
        ("v5.1", 19, 1780908523862526354, "legacy"),
        ("v6.0", 23, 2465351861681999779, "v6"),
        ("v6.1", 21, 2085463073848966840, "v6"),
    ],
)
def test_rounds(round_name: str, benchmarks: int, first_seed: int, layout: str) -> None:
    ruleset = load_ruleset(round_name)
    assert (len(ruleset.benchmarks), ruleset.layout) == (benchmarks, layout)
    assert ruleset.seeds()["qsl_rng_seed"] == first_seed
    assert all(rules.seeds() == ruleset.seeds() for rules in ruleset.benchmarks.values())


def test_no_two_rounds_share_a_seed() -> None:
    seeds = [seed for name in list_rounds() for seed in load_ruleset(name).seeds().values()]
    assert len(seeds) == len(set(seeds))


def test_a_test_that_the_round_dropped_is_unknown() -> None:
    before, after = (load_ruleset(name).benchmarks["resnet"] for name in ("v4.1", "v5.0"))
    assert before.find_test("TEST05").settings["qsl_rng_seed"].value == 16799458546791641818
    with pytest.raises(KeyError, match=r"v5\.0 has no test TEST05"):
        after.find_test("TEST05")


def test_aliases_lead_to_benchmarks_that_the_round_knows() -> None:
    ruleset = load_ruleset("v6.1")
    assert ruleset.find_official_name("resnet50") == "resnet"
    assert ruleset.find_official_name("llama3_1-8b-edge") == "llama3.1-8b-edge"
    assert ruleset.find_official_name("ssd-resnet34") is None, "retinanet left the suite"
    assert load_ruleset("v5.1").find_official_name("ssd-resnet34") == "retinanet"


@pytest.mark.parametrize(
    ("source", "target", "refusal"),
    [
        ("bert-99.9", "bert-99", ""),
        ("bert-99", "bert-99.9", "bert-99 does not have the stricter bar for F1"),
        ("resnet", "bert-99", "resnet and bert-99 are not variants of one benchmark"),
    ],
)
def test_a_laxer_variant_takes_the_runs_of_the_stricter_one(source: str, target: str, refusal: str) -> None:
    rules = load_ruleset("v4.1").benchmarks
    assert explain_variant_refusal(rules[source], rules[target], "Offline") == refusal


need("mlperf_loadgen")

Read = Callable[..., list[dict[str, Any]]]
_SCENARIOS = ("SingleStream", "MultiStream", "Server", "Interactive", "Offline")
_NO_KEY = "no-benchmark-of-this-name"
# Our names by the attributes of TestSettings: for every scenario, then for one.
_ATTRIBUTES = {
    "min_duration": "min_duration_ms",
    "min_query_count": "min_query_count",
    "performance_sample_count": "performance_sample_count_override",
    "accuracy_sample_count": "accuracy_sample_count_override",
    "sample_concatenate_permutation": "sample_concatenate_permutation",
    "use_token_latencies": "use_token_latencies",
    "infer_token_latencies": "infer_token_latencies",
    "qsl_rng_seed": "qsl_rng_seed",
    "sample_index_rng_seed": "sample_index_rng_seed",
    "schedule_rng_seed": "schedule_rng_seed",
}
_OF_SCENARIO = {
    "SingleStream": {
        "target_latency": "single_stream_expected_latency_ns",
        "target_latency_percentile": "single_stream_target_latency_percentile",
    },
    "MultiStream": {
        "target_latency": "multi_stream_expected_latency_ns",
        "target_latency_percentile": "multi_stream_target_latency_percentile",
        "samples_per_query": "multi_stream_samples_per_query",
    },
    "Server": {
        "target_latency": "server_target_latency_ns",
        "target_latency_percentile": "server_target_latency_percentile",
        "target_qps": "server_target_qps",
        "ttft_latency": "ttft_latency",
        "tpot_latency": "tpot_latency",
    },
    "Offline": {"target_qps": "offline_expected_qps"},
}


@pytest.fixture(scope="module")
def installed(loadgen_read: Read) -> Ruleset:
    """The round whose seeds the installed LoadGen carries: measured, not derived from its version."""
    (loaded,) = loadgen_read([(b"", _NO_KEY, "Offline")], conf_type=0)
    for name in list_rounds():
        ruleset = load_ruleset(name)
        if {seed: loaded[seed] for seed in ruleset.seeds()} == ruleset.seeds():
            return ruleset
    pytest.skip("the installed LoadGen carries the seeds of no known round")


def _cases(ruleset: Ruleset) -> list[tuple[BenchmarkRules, str]]:
    """Interactive only where it is a scenario of the benchmark: elsewhere LoadGen takes it for Server."""
    pairs = ((rules, scenario) for rules in ruleset.benchmarks.values() for scenario in _SCENARIOS)
    return [(r, s) for r, s in pairs if s != "Interactive" or any(s in table.optional for table in r.tables.values())]


def _expected(rules: BenchmarkRules, name: str, scenario: str, general: Decimal) -> Decimal | None:
    """What the round takes from LoadGen; what it says nothing about is as for any key; None: a run has to state it."""
    found = rules.find_ruled_value(name, scenario)
    if found is None:
        return general
    return _number(found.value) if {"mlperf.conf", "loadgen"} & set(found.sources) else None


def _number(value: Any) -> Decimal:
    return Decimal(int(value)) if isinstance(value, bool) else Decimal(str(value))


def _read(name: str, loaded: Mapping[str, Any], attribute: str) -> Decimal:
    """Percentiles are fractions in LoadGen, percent in a round; the rest is one number in both."""
    return _number(loaded[attribute]) * (100 if name == "target_latency_percentile" else 1)


def test_what_comes_from_mlperf_conf_is_what_loadgen_reads(installed: Ruleset, loadgen_read: Read) -> None:
    cases = _cases(installed)
    confs = [(b"", rules.get_value("model_key", s), name_loadgen_scenario(s)) for rules, s in cases]
    unknown = [(b"", _NO_KEY, name_loadgen_scenario(s)) for _, s in cases]
    answers, general = (loadgen_read(asked, conf_type=0) for asked in (confs, unknown))
    wrong = []
    for (rules, scenario), loaded, plain in zip(cases, answers, general, strict=True):
        for name, attribute in _names(scenario).items():
            found = _read(name, loaded, attribute)
            expected = _expected(rules, name, scenario, _read(name, plain, attribute))
            if expected is not None and found != expected:
                wrong.append(f"{rules.name} {scenario} {name}: LoadGen {found}, the round {expected}")
    assert not wrong, "\n".join(wrong)


def _names(scenario: str) -> dict[str, str]:
    return {**_ATTRIBUTES, **_OF_SCENARIO[name_loadgen_scenario(scenario)]}


def test_every_model_key_is_one_that_loadgen_knows(installed: Ruleset, loadgen_read: Read) -> None:
    """A key that is unknown is read like any other: only the general values apply, and no one is reported."""
    confs = [(b"", _NO_KEY, s) for s in ("Server", "Offline")]
    unknown = loadgen_read(confs, conf_type=0)
    for rules in installed.benchmarks.values():
        found = rules.find_ruled_value("model_key")
        assert found is not None
        answers = loadgen_read([(b"", found.value, scenario) for _, _, scenario in confs], conf_type=0)
        assert (answers != unknown) is ("mlperf.conf" in found.sources), rules.name
