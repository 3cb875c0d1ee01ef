from __future__ import annotations

import importlib.resources
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from reconciler.endpoints.rules.curve_rules import (
    Cohort,
    adopt_lists,
    load_endpoints_rules,
    load_endpoints_ruleset,
    parse_endpoints_rules,
)
from reconciler.errors import ReconcilerError
from reconciler.reconcile.desired_cache import list_code
from reconciler.reconcile.new_repository import SubmissionRequest, make_repository
from reconciler.rules.programs import PublishedLists
from reconciler.rules.rounds import load_ruleset
from reconciler.storage.documents import parse_yaml_mapping

_RULES = load_endpoints_rules()


def read_shipped() -> dict[str, Any]:
    data = (importlib.resources.files("reconciler.endpoints.rules") / "rules.yaml").read_bytes()
    return dict(parse_yaml_mapping(data).values)


def dump(document: dict[str, Any]) -> bytes:
    return json.dumps(document, default=str).encode()


@pytest.mark.parametrize(
    ("value", "named"), [("seven", "least_points"), (None, "least_points")], ids=["no number", "no rule"]
)
def test_a_rule_that_is_missing_or_of_another_kind_is_refused(value: str | None, named: str) -> None:
    document = read_shipped()
    rules = {name: dict(entry) for name, entry in document["rules"].items()}
    if value is None:
        rules.pop(named)
    else:
        rules[named]["value"] = value
    with pytest.raises(ReconcilerError, match=named):
        parse_endpoints_rules(dump({**document, "rules": rules}))


def test_every_value_names_a_known_source_and_every_source_its_date() -> None:
    document = read_shipped()
    rules, sources = document["rules"], document["sources"]
    text = (importlib.resources.files("reconciler.docs") / "endpoints-rules.md").read_text(encoding="utf-8")
    open_questions = set(re.findall(r"^\| ([a-z-]+) \|", text.partition("## Open questions")[2], re.MULTILINE))
    for entry in (*rules.values(), *document["benchmarks"].values(), *document["seed_sets"]):
        assert entry["sources"], entry
        assert set(entry["sources"]) | set(entry.get("differs", {})) <= set(sources), entry
        assert entry.get("question", "margin") in open_questions, entry
    assert not [name for name, entry in rules.items() if isinstance(entry["value"], float)]  # they are not exact
    assert all(len(str(source["date"])) == 10 and source["version"] for source in sources.values())


def test_accuracy_is_measured_at_a_point_less_where_an_agent_asks() -> None:
    assert (_RULES.values.accuracy_points, _RULES.values.accuracy_points_agentic) == (5, 4)


def test_a_shortened_rule_set_is_a_rehearsal_and_changes_nothing_else() -> None:
    short = _RULES.shorten(2)
    assert (_RULES.rehearsal, short.rehearsal) == (False, True)
    assert short.find_least_seconds("high_concurrency", 500, agentic=True) == 2
    names = _RULES.values.__struct_fields__
    assert {name for name in names if getattr(short.values, name) != getattr(_RULES.values, name)} == {
        "least_seconds",
        "least_seconds_agentic",
    }


def test_a_seed_set_may_be_adopted_in_four_cohorts() -> None:
    seeds = _RULES.find_seed_set("A")
    assert [str(cohort) for cohort in seeds.cohorts] == ["2026-10-C1", "2026-11-C0", "2026-11-C1", "2026-12-C0"]
    with pytest.raises(ReconcilerError, match="not a published seed set"):
        _RULES.find_seed_set("B")


def test_cohorts_go_on_over_the_year() -> None:
    window = [str(Cohort.parse("2026-12-C0").add(count)) for count in range(4)]
    assert window == ["2026-12-C0", "2026-12-C1", "2027-01-C0", "2027-01-C1"]
    assert Cohort.parse("2026-12-C1") < Cohort.parse("2027-01-C0")


def test_a_round_of_curves_holds_results_to_both_bounds() -> None:
    bars = {
        bar.metric: bar for bar in load_endpoints_ruleset("endpoints-v1.0").find_benchmark("llama3_1-8b").list_bars("")
    }
    assert (bars["rouge1"].least, bars["rouge1"].most) == (Decimal("38.391408"), None)
    assert bars["gen_len"].most == Decimal("8984408.4")


def test_a_round_of_curves_is_found_by_its_name_and_measures_the_tokens_of_the_system() -> None:
    ruleset = load_ruleset("endpoints-v1.0")
    assert (ruleset.round, ruleset.layout) == ("endpoints-v1.0", "endpoints")
    assert set(ruleset.benchmarks) == set(ruleset.endpoints.benchmarks) == set(_RULES.benchmarks)
    for benchmark in ruleset.benchmarks.values():
        metric = benchmark.find_metric("Curve")
        assert (metric.key, metric.unit, metric.divisor, metric.lower_is_better) == ("system_tps", "tokens/s", 1, False)
    with pytest.raises(ReconcilerError, match=r"unknown version 'v9\.0' of the Endpoints rules"):
        load_ruleset("endpoints-v9.0")


SEEDS = "scheduler_rng_seed: 1, sample_index_rng_seed: 2, model_seed: 3"


@pytest.mark.parametrize(
    ("text", "cohorts"),
    [
        (
            f"cohort: {{cohort-id: 2027-01-C0, seed_sets: [{{id: B, {SEEDS}}}]}}",
            ["2027-01-C0", "2027-01-C1", "2027-02-C0", "2027-02-C1"],
        ),
        (f"cohort: {{cohort-id: 2027-01-C0, seed_sets: [{{id: B, cohorts: [2027-03-C1], {SEEDS}}}]}}", ["2027-03-C1"]),
        (f"seed_sets: [{{id: B, {SEEDS}}}]", []),
    ],
    ids=["for a cohort", "for its own cohorts", "for no cohort"],
)
def test_a_newer_list_of_seed_sets_takes_the_place_of_the_shipped_one(
    tmp_path: Path, text: str, cohorts: list[str]
) -> None:
    (tmp_path / "seeds.yaml").write_text(text)
    rules = adopt_lists(_RULES, PublishedLists(seed_sets=tmp_path / "seeds.yaml"))
    assert (set(rules.seed_sets), rules.drafters) == ({"B"}, _RULES.drafters)
    assert [str(cohort) for cohort in rules.find_seed_set("B").cohorts] == cohorts
    assert list(rules.find_seed_set("B").seeds.values()) == [1, 2, 3]


def test_a_newer_list_of_drafters_takes_the_place_of_the_shipped_one(tmp_path: Path) -> None:
    text = "drafters: [{benchmark: kimi-k3, target_checksum: 'sha256:1', configuration: {exit_layer: 24}}]"
    (tmp_path / "drafters.yaml").write_text(text)
    (drafter,) = adopt_lists(_RULES, PublishedLists(approved_drafters=tmp_path / "drafters.yaml")).drafters
    assert drafter.matches({"target_checksum": "sha256:1", "configuration": {"exit_layer": 24}})
    assert not drafter.matches({"target_checksum": "sha256:1", "configuration": {"exit_layer": 25}})
    assert not drafter.matches({"target_checksum": "sha256:2", "configuration": {"exit_layer": 24}})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("seed_sets", "- 1"),
        ("seed_sets", "seed_sets: []"),
        ("seed_sets", "seed_sets: [{id: B}]"),
        ("seed_sets", f"cohort: {{cohort-id: soon, seed_sets: [{{id: B, {SEEDS}}}]}}"),
        ("approved_drafters", "drafters: [{benchmark: kimi-k3, model_id: a}]"),
        ("approved_drafters", "a: 1"),
    ],
)
def test_a_file_that_is_no_such_list_is_refused_by_its_name(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "list.yaml").write_text(text)
    with pytest.raises(ReconcilerError, match=r"list\.yaml"):
        adopt_lists(_RULES, PublishedLists(**{name: tmp_path / "list.yaml"}))


def test_the_state_of_a_spec_depends_on_the_rules() -> None:
    assert "reconciler/endpoints/rules/rules.yaml" in list_code()


def test_init_refuses_a_benchmark_without_scenarios_and_writes_nothing(tmp_path: Path) -> None:
    names: dict[str, Any] = {"division": "closed", "category": "datacenter", "benchmarks": ("gpt-oss-120b",)}
    request = SubmissionRequest(round_name="endpoints-v1.0", system=None, harness="", code="", **names)
    with pytest.raises(ReconcilerError, match="no scenarios"):
        make_repository(tmp_path, "acme", "Acme", request)
    assert not list(tmp_path.iterdir())
