from __future__ import annotations

import json
import random
import shutil
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from reconciler.endpoints.check.engine import ALL_ENDPOINTS_RULES, check_endpoints, verify_endpoints
from reconciler.endpoints.rules.judge import judge_point
from reconciler.endpoints.rules.power import ProvisionedPower, compute_power
from reconciler.endpoints.rules.regions import derive_regions, place_points
from reconciler.endpoints.rules.results import parse_point
from reconciler.endpoints.tree.collecting import make_power
from reconciler.errors import ReconcilerError
from reconciler.resource.rules import Severity
from reconciler.tree.rule_engine import INTERNAL
from tests.unit.check.damage import change_number
from tests.unit.endpoints.tree.curves import (
    DATASET,
    MAXIMUM,
    RULES,
    make_config,
    make_curve,
    make_submission,
    make_summary,
    write_submission,
)
from tests.unit.endpoints.tree.mutations import (
    AGENTS,
    DEDICATED_RUN,
    MUTATIONS,
    PLAIN,
    Mutation,
    change,
    edit_json,
    find_rules,
    write_accepted,
)
from tests.unit.tree.test_unreadable_findings import Shut, find, shut

# Rules that a mutation breaks in addition to its own.
ALSO: dict[str, set[str]] = {
    "dataset is ['a']": {"config-consistency-dataset"},
    "runtime_settings.load_pattern is 7": {"benchmark-type-consistency", "load-pattern", "point-as-run"},
    "runtime_settings.min_duration_ms is 'a while'": {"point-as-run"},
    "runtime_settings.stream_all_chunks is -1": {"point-as-run"},
    "seed_set is ['A']": {"seed-set-consistency", "seed-set-membership"},
    "output_sequence_lengths.total is None": {"metric-consistency-output-tokens", "tps-utilization"},
    "a shared folder without name": {"point-disclosure-complete"},
    "a concurrency of 0": {"point-as-run", "point-dirname-concurrency"},
    "an empty load pattern": {"benchmark-type-consistency", "point-as-run"},
    "an inline score without type": {"accuracy-coverage"},
    "no docs": {"shared-path-resolution"},
    "no src": {"shared-path-resolution"},
    "a point without description": {"maximal-engagement"},
    "no maximum concurrency": {"region-basis"},
    "a maximum of 32": {"offline-point-present"},
    "a minimum at one point only": {"system-description-consistency"},
    "a minimum of 33": {"system-description-valid"},
    "a cohort of no form": {"seed-set-adoption"},
    "two seed sets": {"seed-set-membership"},
    "another seed": {"point-as-run"},
    "no seed set": {"point-disclosure-complete"},
    "concurrency as text": {"point-as-run"},
    "Poisson arrivals": {"benchmark-type-consistency", "point-as-run"},
    "points of two kinds": {"point-as-run"},
    "an unknown region": {"region-placement"},
    "two Offline points": {"accuracy-coverage"},
    "another point elected": {"accuracy-coverage"},
    "too many points": {
        "config-file-present",
        "measurement-points-present",
        "result-summary-present",
        "system-description-present",
    },
    "no point of low concurrency": {"accuracy-coverage", "point-count"},
    "no point of medium concurrency": {"accuracy-coverage", "point-count"},
    "no point of high concurrency": {"accuracy-coverage", "offline-point-present", "point-count", "tps-utilization"},
    "a point beyond the margin": {"point-as-run", "point-dirname-concurrency"},
    "a model that is not of the round": {"model-name-consistency"},
    "a model's name not canonical": {"model-name-consistency"},
    "TPOT without its 90th percentile": {"figures-possible"},
    "TPOT of 0": {"figures-possible"},
    "a short run": {"figures-possible", "tps-utilization"},
    "no accuracy anywhere": {"accuracy-coverage"},
    "accuracy without any entry": {"accuracy-coverage"},
    "an accuracy entry without name": {"accuracy-coverage"},
    "Offline below the maximum's rate": {"tps-utilization"},
    "a region without SWE-bench": {"agentic-accuracy-swebench"},
    "an elected Offline point": {"accuracy-coverage"},
    "one point of another kind": {"offline-point-present"},
    "a run of 1,300 s": {"tps-utilization"},
    "a drafter approved too late": {"seed-set-adoption"},
    "SWE-bench in percent": {"agentic-accuracy-swebench"},
}


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return write_accepted(tmp_path_factory.mktemp("accepted"))


@pytest.mark.parametrize("kind", [PLAIN, DEDICATED_RUN, AGENTS])
def test_what_is_rendered_is_accepted(accepted: Mapping[str, Path], kind: str) -> None:
    found = find_rules(accepted[kind])
    assert found[Severity.ERROR] == set()
    assert found[Severity.WARNING] == {"steady-state-basis"}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_spoiled_submission_is_refused(accepted: Mapping[str, Path], tmp_path: Path, mutation: Mutation) -> None:
    root = tmp_path / "ACME/pending"
    mutation.copy(accepted, root)
    found = find_rules(root)
    wanted = mutation.ours or mutation.rule
    assert wanted in found[Severity.ERROR] | (found[Severity.WARNING] if mutation.warning else set())
    broken = set().union(*found.values()) - {"steady-state-basis"}
    assert broken == {wanted, *ALSO.get(mutation.name, ())}


def survive(accepted: Path, work: Path, seeds: range) -> int:
    """How many of the damaged submissions something was found about."""
    found = 0
    for seed in seeds:
        root = work / "ACME/pending"
        shutil.copytree(accepted, root)
        choose = random.Random(seed)
        for _ in range(choose.randint(1, 4)):
            change_number(root, choose)
        report = check_endpoints(root)
        broken = [finding.complaint.found for finding in report.findings if finding.rule == INTERNAL]
        assert not broken, f"seed {seed}: {broken}"
        found += any(finding.severity is Severity.ERROR for finding in report.findings)
        shutil.rmtree(root)
    return found


def test_no_number_breaks_a_rule(accepted: Mapping[str, Path], tmp_path: Path) -> None:
    assert survive(accepted[PLAIN], tmp_path, range(6)) > 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_number_of_many_breaks_a_rule(accepted: Mapping[str, Path], tmp_path: Path) -> None:
    assert survive(accepted[DEDICATED_RUN], tmp_path, range(100, 400)) > 100


def test_every_mutation_names_a_rule_of_ours() -> None:
    known = {rule.id for rule in ALL_ENDPOINTS_RULES}
    assert {f"curve.{mutation.ours or mutation.rule}" for mutation in MUTATIONS} <= known


__all__ = ["shut"]


@pytest.mark.parametrize(
    "name", ["results/{system}", "results/{system}/{model}", "results/{system}/{model}/{point}", "src"]
)
def test_closed_folder_is_one_finding(tmp_path: Path, name: str, shut: Shut) -> None:
    curve = make_curve()
    root = write_submission(tmp_path, make_submission(curve))
    point = next(path for path in sorted(root.glob("results/*/*/r*")))
    names = {"system": point.parts[-3], "model": point.parts[-2], "point": point.name}
    folder = root / name.format(**names)
    other = tmp_path / "Other" / "one"
    shutil.copytree(root, other)
    before = find(check_endpoints(tmp_path).findings)
    shut(folder)
    report = check_endpoints(tmp_path)
    (reported,) = [f for f in report.findings if f.rule.id == "tree.readable"]
    assert str(reported.complaint.place) == str(folder.relative_to(tmp_path))
    assert not find(report.findings) - before - find((reported,))
    if name != "src":
        assert [f.rule.id for f in verify_endpoints(tmp_path).findings] == ["tree.readable"]


CONCURRENCY = 5
LIES: dict[str, tuple[dict[str, Any], str]] = {
    "ten times the samples": ({"n_samples_issued": 11520, "n_samples_completed": 11520}, "11520 were completed"),
    "a 90th percentile below the median": ({"tpot__percentiles": {"50": 600000, "90": 500000}}, "percentile 90 is 5"),
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
    regions = derive_regions(place_points(MAXIMUM, RULES), MAXIMUM, RULES)
    return [f.text for f in judge_point(point, RULES, regions) if f.rule == "figures-possible"]


@pytest.mark.parametrize("concurrency", [1, CONCURRENCY, 64])
def test_honest_figures_are_believed(concurrency: int) -> None:
    assert judge(concurrency, make_summary(concurrency)) == []


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_named_for_the_run_and_in_the_tree(lie: str, tmp_path: Path) -> None:
    changes, words = LIES[lie]
    lying = json.dumps(change(json.loads(make_summary(CONCURRENCY)), changes)).encode()
    assert any(words in text for text in judge(CONCURRENCY, lying))
    root = write_submission(tmp_path)
    edit_json(root, f"r{CONCURRENCY}", "result_summary.json", **changes)
    found = [f.complaint.found for f in verify_endpoints(root).findings if f.rule.id == "curve.figures-possible"]
    assert any(words in text for text in found)


_BOX: dict[str, Any] = {
    "cooling": "direct liquid cooling",
    "host_processor_model_name": "ACME 9000",
    "host_processors_per_node": 2,
    "host_processor_tdp_w": 350,
    "host_processor_tdp_source": "https://acme.example/9000",
    "accelerator_model_name": "ACME X1",
    "accelerators_per_node": 8,
    "accelerator_tdp_w": "700.5",
    "accelerator_tdp_source": "https://acme.example/x1",
}


def compute(**changes: Any) -> ProvisionedPower:
    return compute_power(make_power("box", {**_BOX, **changes}), RULES, {}, {})


def test_declared_parts_give_the_provisioned_power() -> None:
    power = compute()
    assert (power.problems, power.estimated) == ([], [])
    assert power.kilowatts == Decimal("8.20")  # 1.3 x (2 x 350 + 8 x 700.5)
    switched = compute(scale_up_switch_count=2, scale_up_switch_w=100, scale_up_switch_source="https://acme.example/s")
    assert switched.kilowatts == Decimal("8.46")


def test_cooling_that_no_one_names_takes_the_greater_overhead() -> None:
    assert compute(cooling="").kilowatts == Decimal("9.46")


def test_what_is_left_out_is_estimated_and_not_guessed() -> None:
    listed = compute(accelerator_model_name="NVIDIA B200", accelerator_tdp_w="")
    assert listed.estimated == ["node_sets[0].accelerator.tdp_per_unit (D.3)"]
    assert any("no figure" in problem for problem in compute(host_processor_tdp_w="").problems)
    assert any("not an address" in problem for problem in compute(accelerator_tdp_source="").problems)


def test_a_machine_without_accelerators_has_a_power() -> None:
    assert compute(accelerators_per_node="", accelerator_tdp_w="").kilowatts == Decimal("0.91")


def test_a_published_power_and_a_declared_one_govern() -> None:
    published = compute(published_node_power_w=10_200, published_node_power_source="https://acme.example/box")
    assert published.kilowatts == Decimal("10.20")
    declared = compute(provisioned_power_kw=12, provisioned_power_source="https://acme.example/box")
    assert (declared.kilowatts, declared.declared) == (Decimal("12.00"), True)


@pytest.mark.parametrize("figure", ["about 700", "nan", "inf"])
def test_a_figure_that_is_none_is_refused(figure: str) -> None:
    with pytest.raises(ReconcilerError, match=f"accelerator_tdp_w is '{figure}'"):
        make_power("box", {**_BOX, "accelerator_tdp_w": figure})
