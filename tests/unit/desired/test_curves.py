"""A curve of MLPerf Endpoints as desired state: points are cells, one stack is behind all of them."""

from __future__ import annotations

import pytest

from reconciler.desired.checks import check
from reconciler.desired.compile import compile_desired
from reconciler.desired.state import Desired, Pins
from reconciler.errors import Problem
from reconciler.reconcile.planning import make_expectation
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Recorded
from reconciler.resource.settings import DEDICATED_OFFLINE
from reconciler.rules.rounds import load_ruleset
from tests.unit.desired.test_inputs import find_rules
from tests.unit.spec import writing

SPEC = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {name: curve}
spec:
  program: endpoints
  round: v1.0
  submitter: ACME
  systems: {box: {category: datacenter, status: available}}
  benchmarks:
    oss:
      as: gpt-oss-120b
      model: {path: weights, sha256: "WEIGHTS"}
      dataset: {path: prompts.jsonl, sha256: "PROMPTS"}
      client:
        code: client
        model_name: gpt-oss-120b
        accuracy: {dataset: questions.jsonl, method: pass_at_1, ground_truth: answer}
      harness:
        service:
          command: [serve, --port, "{port}", --model, "{model}"]
  divisions:
    standardized:
      box:
        oss: {max_supported_concurrency: 256, points: auto}
""".replace("WEIGHTS", "a" * 64).replace("PROMPTS", "b" * 64)
CELL = "standardized/box/oss"
HIGHEST = Address(Kind.RUN, f"{CELL}/c256/performance")


def compile_curve(*changes: tuple[str, str]) -> Desired:
    text = SPEC
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    declared = writing.declare(text)
    ruleset = load_ruleset(str(declared.round.value))
    check(declared, ruleset)
    return compile_desired(declared, ruleset, Pins())[0]


def list_keys(*changes: tuple[str, str]) -> dict[str, str]:
    return {str(resource.address): resource.key for resource in compile_curve(*changes).resources}


def list_points(keys: dict[str, str], mode: str = "performance") -> list[int]:
    runs = (name for name in keys if name.startswith("Run:") and name.endswith(f"/{mode}"))
    return [int(name.split("/")[3].removeprefix("c")) for name in runs]


def test_the_rules_of_the_program_leave_the_least_duration_of_a_point_to_its_client() -> None:
    rules = find_rules(compile_curve(), HIGHEST)
    assert rules.endpoints is not None
    assert rules.endpoints.min_duration == 0


@pytest.mark.parametrize("rehearsal", [False, True])
def test_the_accuracy_of_a_rehearsed_point_is_required_to_meet_no_bar(rehearsal: bool) -> None:
    desired = compile_curve(("submitter: ACME", f"submitter: ACME\n  rehearsal: {str(rehearsal).lower()}"))
    assert find_rules(desired, HIGHEST).bars_bind is not rehearsal


def find_problems(*changes: tuple[str, str]) -> list[Problem]:
    return list(writing.catch_problems(list_keys, *changes))


def list_stale(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name, key in before.items() if after.get(name, key) != key}


POINTS = [1, 3, 7, 17, 39, 100, 256]
EXPLICIT = ("points: auto", f"points: {POINTS}")


def test_the_regions_and_the_offline_point_have_an_accuracy_run_and_the_others_stand_on_theirs() -> None:
    desired = compile_curve()
    own = {a.cell for a in desired.by_address if a.mode == "accuracy"}
    assert len(own) == 4
    for resource in desired.resources:
        if str(resource.address).startswith("Result:"):
            kinds = [(up.kind.value, up.mode) for up in resource.upstream]
            assert kinds == [("Run", "performance"), ("Run", "accuracy"), ("Score", "")]
            assert resource.upstream[0].cell == resource.cell
            assert resource.upstream[1].cell in own


def test_accuracy_is_measured_where_the_spec_says() -> None:
    before = list_keys(EXPLICIT)
    assert list_points(before, "accuracy") == [1, 3, 17, 256]
    after = list_keys(("points: auto", f"{EXPLICIT[1]}, accuracy_points: [256, 7, 1, 17, 39]"))
    assert list_points(after, "accuracy") == [1, 7, 17, 39, 256]
    performance = {name for name in before if name.endswith("/performance")}
    assert not performance & list_stale(before, after)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("[1, 17, 256]", "no point with an accuracy run lies in low concurrency (2-"),
        ("[1, 7, 17, 100]", "256 is elected as the Offline point, but has no accuracy run"),
        ("[1, 7, 17, 50, 256]", "50 is not a point of the curve"),
        ("auto", "accuracy_points must be a list of numbers"),
    ],
)
def test_declared_accuracy_points_must_cover_the_regions(declared: str, message: str) -> None:
    found = find_problems(("points: auto", f"{EXPLICIT[1]}, accuracy_points: {declared}"))
    assert any(message in problem.message for problem in found)
    assert all(problem.path.endswith("oss.accuracy_points") for problem in found)


def test_a_curve_measured_elsewhere_needs_neither_client_nor_server() -> None:
    """Its runs are imported; what a run was given still counts."""
    benchmark = SPEC[SPEC.index("      model: {path") : SPEC.index("  divisions:")]
    elsewhere = "      code: external\n      client: {model_name: gpt-oss-120b, parameters: {temperature: 1}}\n"
    before = list_keys((benchmark, elsewhere))
    stale = list_stale(before, list_keys((benchmark, elsewhere.replace("temperature: 1", "temperature: 0"))))
    assert {name for name in before if name.startswith("Run:")} <= stale


@pytest.mark.parametrize(
    "change",
    [
        ('"{model}"]', '"{model}", --max-num-seqs, "64"]'),
        ("a" * 64, "c" * 64),
        ("service:\n", f"service:\n          image: vllm@sha256:{'d' * 64}\n"),
        ("service:\n", "service:\n          env: {OMP_NUM_THREADS: '2'}\n"),
    ],
    ids=["flag", "weights", "image", "environment"],
)
def test_another_stack_makes_every_point_stale(change: tuple[str, str]) -> None:
    before, after = list_keys(), list_keys(change)
    runs = {name for name in before if name.startswith("Run:")}
    assert len(runs) == 11
    assert runs <= list_stale(before, after)


def test_an_address_counts_by_its_stack_and_not_by_where_it_is() -> None:
    service = SPEC[SPEC.index("      harness:") : SPEC.index("  divisions:")]
    endpoint = '      endpoint: {url: "http://here:8000", stack: {engine: vllm 0.11, image: one}}\n'
    before = list_keys((service, endpoint))
    assert not list_stale(before, list_keys((service, endpoint.replace("here", "there"))))
    stale = list_stale(before, list_keys((service, endpoint.replace("image: one", "image: two"))))
    assert {name for name in before if name.startswith("Run:")} <= stale


def test_a_removed_point_makes_no_other_run_stale() -> None:
    eight = f"points: {sorted([*POINTS, 60])}"
    before, after = list_keys(("points: auto", eight)), list_keys(EXPLICIT)
    stale = list_stale(before, after)
    assert set(before) - set(after) == {f"{kind}:{CELL}/c60{part}" for kind, part in _OF_A_SHARING_POINT}
    assert stale == {"Submission:curve"}


_OF_A_SHARING_POINT = (("Service", ""), ("Run", "/performance"), ("Result", ""))


def test_what_is_disclosed_only_renders_anew() -> None:
    disclosed = ("client:\n", "disclosure: {link_to_model: 'https://models'}\n      client:\n")
    stale = list_stale(list_keys(), list_keys(disclosed))
    assert {name.partition(":")[0] for name in stale} == {"Result", "Submission"}


def test_the_plan_knows_how_long_a_point_takes_before_it_was_ever_measured() -> None:
    desired = compile_curve()
    lasting = {
        cell: make_expectation(desired, Recorded()).predict(Address.parse(f"Run:{CELL}/{cell}/performance"))
        for cell in ("c1", "c256")
    }
    assert lasting == {"c1": (750.0, "formula"), "c256": (1500.0, "formula")}


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (("256", "32"), 24, "max_supported_concurrency is 32; three regions need at least 33"),
        (("points: auto", "points: [1, 256]"), 24, "2 points are declared; the rules require at least 7"),
        (("points: auto", "points: [1, 2, 3, 4, 5, 6, 256]"), 24, "no point lies in med concurrency"),
        (("points: auto", "points: [1, 3, 7, 17, 39, 100, 200]"), 24, "no point is at 256"),
        (("points: auto", "points: [1, 3, 7, 17, 39, 100, 256, 300]"), 24, "point 300 is above 282"),
        (("points: auto", "points: [one]"), 24, "is not a concurrency"),
        (("points: auto", "points: auto, seed_set: Z"), 24, "'Z' is not a published seed set"),
        (("points: auto", "points: auto, min_duration: 10 s"), 24, "min_duration is 10 s; the rules require 600 s"),
        (("        code: client\n", ""), 23, "the official client's location is not declared"),
        (("standardized:", "closed:"), 22, "program endpoints has no division closed"),
        (("  program: endpoints\n", ""), 21, "program inference has no division standardized"),
        (("round: v1.0", "round: v9.9"), 6, "unknown version 'v9.9'"),
        (("as: gpt-oss-120b", "as: gpt-oss-12b"), 11, "has no benchmark 'gpt-oss-12b'"),
    ],
)
def test_what_a_checker_refuses_is_reported_at_its_line(change: tuple[str, str], line: int, message: str) -> None:
    found = [problem for problem in find_problems(change) if message in problem.message]
    assert found
    assert found[0].line == line
    assert found[0].column > 0
    assert found[0].fix


OFFLINE = ("points: auto", "points: {auto: , offline: {target_qps: 40}}")
SIZED = ("      client:\n", "      performance_sample_count: 6396\n      client:\n")


def test_a_dedicated_offline_run_is_a_point_of_its_own_with_an_accuracy_run() -> None:
    desired = compile_curve(OFFLINE, SIZED)
    own = {a.cell.scenario for a in desired.by_address if a.mode == "accuracy" and a.cell is not None}
    settings = desired.detail(Address.parse(f"Result:{CELL}/c6396")).settings
    assert settings.get(DEDICATED_OFFLINE) is True
    assert settings.get_number("min_duration") == 1_500_000
    assert len(own) == 5
    assert "c6396" in own
    assert len(list_points({str(a): "" for a in desired.by_address})) == 8


@pytest.mark.parametrize("written", ["[auto, 100, 20]", "{auto: , 20: {}, 100: {min_duration: 2 h}}"])
def test_points_by_hand_are_added_to_those_of_the_rules(written: str) -> None:
    placed = list_points(list_keys())
    found = list_points(list_keys(("points: auto", f"points: {written}")))
    assert {20, 100}.isdisjoint(placed)
    assert set(found) == {*placed, 20, 100}


def test_auto_places_as_many_points_as_are_asked_for() -> None:
    points = list_points(list_keys(("points: auto", "points: auto, point_count: 12")))
    assert len(points) == 12
    assert {1, 256} <= set(points)
    both = ("points: auto", "points: {auto: , offline: }, point_count: 12")
    assert len(list_points(list_keys(both, SIZED))) == 12


TERMS = "{advertised_model: gpt-oss, pricing: 1 USD a million tokens, rate_limits: none}"
SERVICE = SPEC[SPEC.index("      harness:") : SPEC.index("  divisions:")]
SERVICED = (
    (SERVICE, f'      endpoint: {{url: "https://host", stack: {{api: v1}}}}\n      disclosure: {TERMS}\n'),
    ("status: available", "status: available, description: {endpoint_url: 'https://host'}"),
    ("standardized:", "serviced:"),
)


@pytest.mark.parametrize("term", ["advertised_model", "pricing", "rate_limits", "endpoint_url"])
def test_a_service_without_its_terms_is_reported_as_such(term: str) -> None:
    found = find_problems(*SERVICED, (f"{term}:", "else:"))
    assert any(f"{{{term}:" in problem.fix for problem in found)


def test_regions_are_derived_from_a_declared_minimum() -> None:
    points = list_points(list_keys(("points: auto", "points: auto, min_concurrency: 16")))
    assert points[0] == 16
    found = find_problems(("points: auto", "points: [1, 3, 7, 17, 39, 100, 256], min_concurrency: 16"))
    assert any("no point is at the declared minimum concurrency, 16" in problem.message for problem in found)


FIELDS = "serving_framework, availability_url, host_memory_configuration, host_network_card_count, driver, filesystem"
COMPLETE = (
    (
        "status: available}",
        f"status: available, description: {{{', '.join(f'{n}: x' for n in FIELDS.split(', '))}, cooling: air, "
        "host_processor_core_count: 64}}",
    ),
    ("      client:\n", "      performance_sample_count: 6396\n      target_qps: 4\n      client:\n"),
    (
        "  divisions:\n",
        "      disclosure: {model_precision: fp8, link_to_model: x, dataset_name: x,"
        " dataset_type: x, dataset_link: x}\n"
        "  divisions:\n",
    ),
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("  divisions:", "  divisions:"), ""),
        (("fp8,", "fp8, target_cohort: 2029-01-C0,"), "target_cohort 2029-01-C0 cannot adopt seed set A"),
        (("fp8,", "fp8, target_cohort: soon,"), "target_cohort soon cannot adopt seed set A"),
        (("client:\n", "client:\n        parameters: {seed: 42}\n"), "the model's seed is 42, seed set A has 9"),
        (("driver: x", "driver: ''"), "the description of box has no driver"),
        (
            ("description: {", "node_types: {gpu: {number_of_nodes: 1, cooling: ''}}, description: {"),
            "the description of box has no cooling of gpu",
        ),
    ],
)
def test_a_complete_spec_has_no_gap_and_each_missing_word_is_one(change: tuple[str, str], message: str) -> None:
    found = [gap.message for gap in compile_curve(*COMPLETE, change).gaps]
    assert len(found) == (1 if message else 0)
    assert "".join(found).startswith(message)
    rehearsed = compile_curve(*COMPLETE, change, ("submitter: ACME", "submitter: ACME\n  rehearsal: true"))
    assert not rehearsed.gaps


NODES = ("status: available}", "status: available, node_types: {gpu: {number_of_nodes: 4}, cpu: {number_of_nodes: 1}}}")


@pytest.mark.parametrize("name", ["gpu", "gpu-v1.5"])
def test_types_of_node_and_what_a_point_engages_only_render_anew(name: str) -> None:
    used = ("points: auto", f"points: auto, nodes_used: {{{name}: 2}}")
    stale = list_stale(list_keys(), list_keys(NODES, ("gpu: {number", f"{name}: {{number"), used))
    assert {name.partition(":")[0] for name in stale} == {"Result", "Submission"}


OTHER_IMAGE = f"{{harness: {{service: {{image: 'vllm@sha256:{'d' * 64}'}}}}}}"
OWN = "{{1: {}, 3: , 7: , 17: , 39: , 100: , 256: }}"


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ("auto, nodes_used: {gpu: 5}", "5 nodes of gpu are used, the system has 4"),
        ("auto, nodes_used: {tpu: 1}", "tpu is not a node type of the system"),
        ("auto, dp_shortfall: {replicas: 1}", "dp_shortfall has no fitting and reason"),
        ("auto, client: {audit: {audit_samples: 9}}", "the number of audit samples is not declared"),
        ("{auto: , offline: }", "needs the size of the dataset"),
        ("[1, 2, 3, 4, 50, 256, offline], performance_sample_count: 200", "needs more than 256"),
        ("[1, 3, 7, 17, 39, 256, offline], performance_sample_count: 900", "7 points are declared; the rules"),
        ("[1, 3, 7, 17, 39, 100, 256], point_count: 9", "point_count applies only to"),
        ("auto, point_count: 40", "40 points"),
        (OWN.format(OTHER_IMAGE), "cannot set harness.service.image"),
        (OWN.format("{engine: {batch_size: 2}}"), "cannot set engine.batch_size"),
        (OWN.format("{performance_sample_count: 2}"), "cannot set performance_sample_count"),
    ],
)
def test_what_a_curve_cannot_have_is_reported_at_its_line(points: str, message: str) -> None:
    found = [p for p in find_problems(NODES, ("points: auto", f"points: {points}")) if message in p.message]
    assert found
    assert found[0].line
    assert found[0].fix


def test_a_point_has_settings_of_its_own_over_those_of_its_curve() -> None:
    own = "points: {1: {min_query_count: 64}, 3: {}, 7: {}, 17: {}, 39: {}, 100: {}, 256: {target_qps: 40}}"
    before, after = list_keys(EXPLICIT), list_keys(("points: auto", own))
    timed = {name for name in list_stale(before, after) if name.endswith("/performance")}
    assert timed == {f"Run:{CELL}/c1/performance", f"Run:{CELL}/c256/performance"}


@pytest.mark.parametrize("written", ["7", "[]", "{1: 5}", "[1, 1]", "[-1]", "[auto, one]"])
def test_points_that_cannot_be_read_are_a_problem_and_no_crash(written: str) -> None:
    found = find_problems(("points: auto", f"points: {written}"))
    assert all(problem.line for problem in found)


AGENTIC_CLIENT = (
    ("as: gpt-oss-120b", "as: qwen3_6-35b-a3b\n      performance_sample_count: 613"),
    ("{dataset: questions.jsonl, method: pass_at_1, ground_truth: answer}", "{service: 'http://scorer:18080'}"),
)


def test_a_point_of_an_agentic_benchmark_takes_the_rules_of_one() -> None:
    """Four regions have an accuracy run, the maximum is no Offline point, and runs above the lowest band are longer."""
    desired = compile_curve(*AGENTIC_CLIENT)
    settings = {
        address.cell.scenario: desired.detail(address).settings
        for address in desired.by_address
        if address.mode == "performance"
    }
    assert {point: found.get_number("point.least_duration") for point, found in settings.items()} == {
        name: 600_000 if int(name[1:]) <= 32 else 2_400_000 for name in settings
    }
    for found in settings.values():
        assert found.get("point.agentic") is True
        assert found.get_text("point.least_inline") == "55.86"
        assert found.get_text("client.accuracy.extras.swebench_template") == "qwen_tools"
    assert len([address for address in desired.by_address if address.mode == "accuracy"]) == 4


def test_the_address_of_the_scoring_service_is_no_part_of_a_key_and_its_settings_are_of_the_accuracy_alone() -> None:
    before = list_keys(*AGENTIC_CLIENT)
    assert list_stale(before, list_keys(*AGENTIC_CLIENT, ("scorer:18080", "other:18080"))) == set()
    stale = list_stale(before, list_keys(*AGENTIC_CLIENT, ("18080'}", "18080', extras: {split: other}}")))
    assert {name.rpartition("/")[2] for name in stale if name.startswith("Run:")} == {"accuracy"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("{service: 'http://scorer:18080'}", "{}"), "no SWE-bench service"),
        (("18080'}", "18080', method: rouge}"), "has no client.accuracy.method"),
        (("code: client", "code: client\n        warmup: 4"), "has no client.warmup"),
        (("code: client", "code: client\n        audit: {samples: 4}"), "has no client.audit.samples"),
        (("points: auto", "points: auto, target_qps: 4"), "has no target_qps"),
        (("points: auto", "points: auto, min_query_count: 700"), "700 conversations are not complete passes over 613"),
        (("      performance_sample_count: 613", ""), "the number of conversations"),
        (("points: auto", "points: [auto, offline]"), "agentic benchmarks have no Offline run"),
    ],
)
def test_what_an_agentic_benchmark_needs_and_what_its_client_cannot_do_is_refused(
    change: tuple[str, str], message: str
) -> None:
    assert [problem for problem in find_problems(*AGENTIC_CLIENT, change) if message in problem.message]
