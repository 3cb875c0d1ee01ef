"""A curve of an agentic benchmark, measured with the official Endpoints client and judged by the official checker.

``MLPERF_ENDPOINTS_CLIENT`` names a checkout of mlcommons/endpoints with a .venv, ``ENDPOINTS_CHECKER`` a virtual
environment with the package endpoints-submission-cli. The server and the SWE-bench service are stand-ins that answer on
the loopback; what is published comes from the client.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from harness.run.alphabet import write_rehearsal
from reconciler.diff.conditions import summarise_cells
from reconciler.endpoints.rules.curve_rules import load_endpoints_rules
from reconciler.execute.outcome import Status
from reconciler.resource.conditions import ConditionStatus
from tests.acceptance.test_endpoints_client import CHECKOUT, CODING, PYTHON, ROUTING, Agent, SweBench, name_url, serve
from tests.benchmarks.endpoints_checker import ask_official, ask_ours
from tests.passes.repository import SPEC, Repository
from tests.shared import make_once

CHECKER = Path(os.environ.get("ENDPOINTS_CHECKER", "/nowhere")) / "bin/python"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not PYTHON.is_file(), reason="MLPERF_ENDPOINTS_CLIENT names no checkout with a .venv"),
    pytest.mark.skipif(not CHECKER.is_file(), reason="ENDPOINTS_CHECKER names no virtual environment"),
]
CONVERSATIONS, INSTANCES, MAXIMUM = 66, 200, 64
POINTS = (1, 2, 3, 5, 10, 25, 64)
TOP = Path("ACME/pending-submission-id")
CURVE = "results/box/kimi-k3"
DOCUMENT = f"""\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {{name: agents}}
spec:
  program: endpoints
  round: v1.0
  submitter: ACME
  rehearsal: true
  systems:
    box:
      category: datacenter
      status: available
      description:
        shortened_system_name: box
        availability_url: https://acme.example/box
        serving_framework: a stand-in
        host_processor_model_name: ACME 9000
        host_processors_per_node: 1
        host_processor_core_count: 2
        host_memory_capacity: 8 GiB
        host_memory_configuration: 1 x 8 GiB
        host_network_card_count: N/A
        host_processor_tdp_w: 350
        host_processor_tdp_source: https://acme.example/spec
        cooling: air
        driver: N/A
        operating_system: Linux
        filesystem: ext4
  benchmarks:
    agents:
      as: kimi-k3
      model: {{path: data/model}}
      dataset: {{path: conversations.jsonl}}
      performance_sample_count: {CONVERSATIONS}
      accuracy_sample_count: {INSTANCES}
      min_duration: 0
      client:
        code: client
        python: {PYTHON}
        model_name: agent
        tokenizer: data/model
        workers: 1
        parameters: {{temperature: 1.0, top_p: 1.0, max_new_tokens: 8192}}
        accuracy: {{service: "SERVICE"}}
      endpoint: {{url: "ENDPOINT", stack: {{engine: a stand-in}}}}
      disclosure:
        model_precision: fp32
        link_to_model: https://acme.example/model
        dataset_name: conversations
        dataset_type: text
        dataset_link: https://acme.example/dataset
  divisions:
    standardized:
      box:
        agents: {{max_supported_concurrency: {MAXIMUM}, points: {list(POINTS)}}}
"""


class Talkative(Agent):
    """Says as much in a turn as the rules expect of the model."""

    padding = "a" * 440


class Resolving(SweBench):
    resolved = INSTANCES


def measure(folder: Path) -> Repository:
    repository = Repository(folder / "repository")
    shutil.copytree(CHECKOUT / "src", repository.root / "client/src", ignore=shutil.ignore_patterns("__pycache__"))
    write_rehearsal(repository.root / "data")
    rows = [
        {"conversation_id": name, "turn": turn, **row}
        for number in range(CONVERSATIONS // 2)
        for name, turns in ((f"code_{number}", CODING), (f"sim_{number}", ROUTING))
        for turn, row in enumerate(turns, start=1)
    ]
    repository.write("conversations.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    instances = f"{{'instance_id': [str(number) for number in range({INSTANCES})], 'prompt': 'p'}}"
    code = f"import sys, pandas; pandas.DataFrame({instances}).to_parquet(sys.argv[1])"
    kept = repository.root / "client/dataset_cache/swe_bench/verified/test/swe_bench_verified_test.parquet"
    kept.parent.mkdir(parents=True)
    subprocess.run([PYTHON, "-c", code, kept], check=True)
    with serve(Talkative) as server, serve(Resolving) as service:
        repository.write(SPEC, DOCUMENT.replace("ENDPOINT", name_url(server)).replace("SERVICE", name_url(service)))
        outcomes = repository.reconcile().outcomes
    assert {o.status for o in outcomes} == {Status.DONE}, [o.message for o in outcomes]
    return repository


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return make_once(tmp_path_factory, "agents", measure)


def test_both_checkers_accept_what_the_official_client_measures(measured: Repository) -> None:
    """Except that a rehearsal is short. The client doesn't count the tokens of all turns yet: both warn of that."""
    seen = measured.look()
    conditions = summarise_cells(seen.desired, seen.recorded, seen.observed, seen.difference)
    assert [status.ready for status in conditions] == [ConditionStatus.TRUE] * len(POINTS)
    tree = measured.paths.tree / TOP
    (official,), ours = ask_official(CHECKER, [tree]), ask_ours(tree)
    assert official[0] == set()
    assert ours[0] == {"rehearsal", "point-duration"}
    assert official[1] - {"point-duration"} == ours[1]
    assert official[1] >= {"agentic-osl-range", "point-duration"}


Spoil = Callable[[Path], object]
POINT, SUMMARY, ACCURACY, DESCRIPTION = "point.yaml", "result_summary.json", "accuracy_results.json", "system_desc.json"
_CUT = object()


def put(file: str, point: str = "r5", **changes: Any) -> Spoil:
    """Change fields of a point's file. Names are paths; "*": every point; ``_CUT`` removes the field."""

    def spoil(root: Path) -> None:
        for path in sorted((root / CURVE).glob(f"{point}/{file}")):
            values = YAML(typ="safe").load(path) if path.suffix == ".yaml" else json.loads(path.read_bytes())
            for name, value in changes.items():
                *parents, last = name.split("__")
                place: Any = values
                for parent in parents:
                    place = place[int(parent)] if parent.isdigit() else place.setdefault(parent, {})
                if value is _CUT:
                    del place[last]
                else:
                    place[last] = value(place.get(last)) if callable(value) else value
            path.write_text(json.dumps(values))  # JSON is YAML, too

    return spoil


def drop(*paths: str) -> Spoil:
    def spoil(root: Path) -> None:
        for path in paths:
            shutil.rmtree(root / path) if (root / path).is_dir() else (root / path).unlink()

    return spoil


def swap(file: str, one: str = "r1", other: str = "r64") -> Spoil:
    def spoil(root: Path) -> None:
        places = [root / CURVE / name / file for name in (one, other)]
        texts = [place.read_bytes() for place in places]
        for place, text in zip(places, reversed(texts), strict=True):
            place.write_bytes(text)

    return spoil


def turns(mean: float) -> Spoil:
    return put(SUMMARY, "*", output_sequence_lengths_full_run={"output_sequence_lengths": {"avg": mean}})


def draft(checksum: str | None, cohort: str = "2026-11-C1") -> Spoil:
    block = {"model_id": "drafter", **({"weight_checksum": checksum} if checksum else {})}
    return put(POINT, "*", speculative_decoding=block, target_cohort=cohort)


def add_score(entry: Mapping[str, Any]) -> Spoil:
    return put(ACCURACY, "r5", accuracy_scores=lambda scores: [*scores, entry])


_APPROVED = "git-sha1:3c5bac301d9cf392706189d82ed947feca6c2f0f"  # for this benchmark, from 2026-10-C1 on
_ELSEWHERE = "git-sha1:56d4cbbb4d29f4355bab4b9a39ccb717a14ad5ad"  # for another one
_SEEDS = load_endpoints_rules().find_seed_set("A").seeds
_SET = {"id": "A", **_SEEDS}
_DRAFTER = {"benchmark": "kimi-k3", "model_id": "drafter", "weight_checksum": _APPROVED}


def seeds(*sets: Mapping[str, Any], cohort: str = "2026-10-C1") -> dict[str, Any]:
    return {"seed_sets": {"cohort": {"cohort-id": cohort, "seed_sets": sets}}}


def drafters(*entries: Mapping[str, Any]) -> dict[str, Any]:
    return {"approved_drafters": {"drafters": entries}}


def leave(_: Path) -> None:
    """Only the list differs."""


RUNTIME = "runtime_settings__runtime"
HONEST: Mapping[str, tuple[Spoil, dict[str, Any]]] = {  # accepted by both
    "one region's SWE-bench score below the bar of the mean": (put(ACCURACY, "r1", accuracy_scores__1__score=0.8), {}),
    "the least tokens a turn": (turns(425), {}),
    "the most tokens a turn": (turns(520), {}),
    "an approved drafter": (draft(_APPROVED), {}),
    "a newer list with the same seed set": (leave, seeds(_SET)),
    "a newer list with the same drafter": (draft(_APPROVED), drafters({**_DRAFTER, "approved_cohort": "2026-09-C0"})),
    "an exact rate": (put(SUMMARY, system_tps=lambda _: None), {}),
    "a system's own fields": (put(DESCRIPTION, "*", rack="4"), {}),
}
DISHONEST: Mapping[str, tuple[Spoil, dict[str, Any]]] = {
    # Numbers.
    "inline accuracy below its bar": (put(ACCURACY, accuracy_scores__0__score=0.58), {}),
    "inline accuracy of 75": (put(ACCURACY, accuracy_scores__0__score=75), {}),
    "negative inline accuracy": (put(ACCURACY, "r1", accuracy_scores__0__score=-0.75), {}),
    "inline accuracy as words": (put(ACCURACY, accuracy_scores__0__score="good"), {}),
    "no inline score": (put(ACCURACY, accuracy_scores__0__score=None), {}),
    "SWE-bench below its bar in the mean": (put(ACCURACY, "r1", accuracy_scores__1__score=0.7), {}),
    "SWE-bench of 100": (put(ACCURACY, "r1", accuracy_scores__1__score=100), {}),
    "the rate of another run": (put(SUMMARY, system_tps=1e6), {}),
    "the rate per user of another run": (put(SUMMARY, tps_per_user=1e6), {}),
    "interactivity of another run": (put(SUMMARY, e2e_avg_interactivity=1e6), {}),
    "a sample less": (put(SUMMARY, n_samples_completed=lambda count: count - 1), {}),
    "a duration in words": (put(SUMMARY, duration_ns="long"), {}),
    "no duration": (put(SUMMARY, duration_ns=_CUT), {}),
    "no tokens": (put(SUMMARY, output_sequence_lengths__total=0), {}),
    "no 90th percentile": (put(SUMMARY, tpot__percentiles={"50.0": 1}), {}),
    "a 101st percentile": (put(SUMMARY, ttft__percentiles={"101": 1}), {}),
    "too many tokens a turn": (turns(520.5), {}),
    "too few tokens a turn": (turns(424.5), {}),
    "another utilisation": (put(DESCRIPTION, "r64", tps_utilization=0.2), {}),
    "a maximum of 32": (put(DESCRIPTION, "*", max_supported_concurrency=32), {}),
    "another maximum at one point": (put(DESCRIPTION, max_supported_concurrency=128), {}),
    "a minimum without point": (put(DESCRIPTION, "*", c_min_override=4), {}),
    "a concurrency of half a user": (put(POINT, concurrency=0.5), {}),
    # Files.
    "no docs": (drop("docs"), {}),
    "no sources": (drop("src"), {}),
    "no point.yaml": (drop(f"{CURVE}/r5/{POINT}"), {}),
    "no configuration": (drop(f"{CURVE}/r5/config.yaml"), {}),
    "no result": (drop(f"{CURVE}/r5/{SUMMARY}"), {}),
    "no accuracy": (drop(f"{CURVE}/r5/{ACCURACY}"), {}),
    "no accuracy in a region": (drop(f"{CURVE}/r1/{ACCURACY}"), {}),
    "no description": (drop(f"{CURVE}/r5/{DESCRIPTION}"), {}),
    "no power": (drop("results/box/system_power.json"), {}),
    "six points": (drop(f"{CURVE}/r5"), {}),
    "no point of medium concurrency": (drop(f"{CURVE}/r10"), {}),
    "swapped results": (swap(SUMMARY), {}),
    "swapped descriptions": (swap(DESCRIPTION), {}),
    # Seeds and lists.
    "another scheduler seed": (put(POINT, **{f"{RUNTIME}__scheduler_rng_seed": 42}), {}),
    "no model seed": (put(POINT, **{f"{RUNTIME}__model_seed": _CUT}), {}),
    "an unpublished seed set": (put(POINT, "*", seed_set="B"), {}),
    "two seed sets": (put(POINT, seed_set="B"), {}),
    "no seed set": (put(POINT, "*", seed_set=_CUT), {}),
    "a cohort before the seed set": (put(POINT, "*", target_cohort="2026-09-C1"), {}),
    "a cohort without index": (put(POINT, "*", target_cohort="2026-11"), {}),
    "a newer list without the seed set": (leave, seeds({**_SET, "id": "B"})),
    "a newer list with other seeds": (leave, seeds({**_SET, "scheduler_rng_seed": 7})),
    "a newer list of a later cohort": (leave, seeds(_SET, cohort="2027-04-C0")),
    # Drafters.
    "an unapproved drafter": (draft("sha256:0"), {}),
    "a drafter without checksum": (draft(None), {}),
    "another benchmark's drafter": (draft(_ELSEWHERE), {}),
    "a drafter approved too late": (draft(_APPROVED, "2026-10-C0"), {}),
    "a newer list without drafters": (draft(_APPROVED), drafters()),
    "a newer list that approves it later": (draft(_APPROVED), drafters({**_DRAFTER, "approved_cohort": "2026-11-C0"})),
    "a newer list with another checksum": (draft(_APPROVED), drafters({**_DRAFTER, "weight_checksum": "sha256:1"})),
    # The kind of benchmark.
    "an elected Offline point": (put(POINT, "r64", offline="elected"), {}),
    "a load pattern of single turns": (put(POINT, runtime_settings__load_pattern="concurrency"), {}),
    "single turns everywhere": (put(POINT, "*", runtime_settings__load_pattern="concurrency"), {}),
    "Poisson arrivals": (put(POINT, runtime_settings__load_pattern="poisson"), {}),
    "a model that isn't of the round": (put(POINT, "*", model_name="kimi-k2"), {}),
    "another model at one point": (put(POINT, model_name="qwen3_6-35b-a3b"), {}),
    "two entries of the performance run": (
        add_score({"dataset_name": "p", "dataset_type": "performance", "score": 1}),
        {},
    ),
    "an entry without name": (add_score({"score": 1}), {}),
    "SWE-bench at one point more": (add_score({"dataset_name": "swe_bench", "score": 1}), {}),
    "an undeclared model precision": (put(POINT, model_precision=_CUT), {}),
    "an undeclared warm-up": (put(POINT, warmup=_CUT), {}),
    "a window that drifts": (
        put(
            POINT,
            steady_state={"status": "windowable", "verdict": "STEADY STATE", "state": {"ttft_p90": "Drifting Up"}},
        ),
        {},
    ),
}
STRICTER: Mapping[str, tuple[Spoil, dict[str, Any]]] = {  # refused here only: the official checker doesn't compare them
    "another point's configuration": (swap("config.yaml", "r2", "r5"), {}),
    "a failed sample": (put(SUMMARY, n_samples_failed=1, n_samples_completed=lambda count: count - 1), {}),
    "an incomplete run": (put(SUMMARY, complete=False), {}),
    "a quoted number": (put(POINT, concurrency="5"), {}),
}


def compare(measured: Repository, place: Path, cases: Mapping[str, tuple[Spoil, dict[str, Any]]]) -> dict[str, Any]:
    """Case → (rules broken for ours, for the official checker), as errors that the honest tree doesn't have."""
    tree, roots = measured.paths.tree / TOP, {}
    for number, (name, (spoil, lists)) in enumerate(cases.items()):
        roots[name] = root = place / f"{number:03d}"
        shutil.copytree(tree, root)
        spoil(root)
        for kind, document in lists.items():
            root.with_suffix(f".{kind}").write_text(json.dumps(document))
    official = dict(zip(roots, ask_official(CHECKER, list(roots.values())), strict=True))
    before = ask_ours(tree)[0]
    return {name: (ask_ours(root)[0] - before, official[name][0]) for name, root in roots.items()}


def test_both_checkers_accept_what_the_rules_allow(measured: Repository, tmp_path: Path) -> None:
    found = compare(measured, tmp_path, HONEST)
    assert found == dict.fromkeys(HONEST, (set(), set()))


def test_both_checkers_refuse_the_same_trees_by_the_same_rules(measured: Repository, tmp_path: Path) -> None:
    found = compare(measured, tmp_path, DISHONEST)
    assert {name: rules for name, rules in found.items() if not rules[1] or not rules[1] <= rules[0]} == {}


def test_a_run_that_contradicts_itself_is_refused_here(measured: Repository, tmp_path: Path) -> None:
    found = compare(measured, tmp_path, STRICTER)
    assert {name: rules for name, rules in found.items() if not rules[0] or rules[1]} == {}
