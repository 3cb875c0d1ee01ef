"""Ways to spoil an accepted submission, each with the check that must say so: ours as the official one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.endpoints.check.engine import check_endpoints
from reconciler.endpoints.rules.curve_rules import adopt_lists, load_endpoints_rules
from reconciler.endpoints.tree.point_file import write_yaml
from reconciler.resource.rules import Severity
from reconciler.rules.programs import PublishedLists
from reconciler.storage.documents import parse_yaml_mapping
from tests.unit.endpoints.tree.curves import (
    AGENTIC,
    make_accuracy,
    make_agentic_accuracy,
    make_curve,
    make_submission,
    write_submission,
)

_CURVE = Path("results/box/gpt-oss-120b")
_AGENTIC = Path("results/box") / AGENTIC
PLAIN, DEDICATED_RUN, AGENTS = "plain", "dedicated", "agentic"  # the accepted submissions


@dataclass(frozen=True, slots=True)
class Mutation:
    """``rule``: the official checker's name of what fails; ``spoil`` takes the submission's root. ``ours``: the rule
    that we name where it is not that one. ``of``: the accepted submission that it spoils. ``warning``: the official
    checker accepts it with a warning. ``lists``: newer lists, by their names in ``PublishedLists``, with which it is
    checked."""

    name: str
    rule: str
    spoil: Callable[[Path], object]
    ours: str = ""
    of: str = PLAIN
    warning: bool = False
    lists: Mapping[str, str] = field(default_factory=dict)

    def copy(self, accepted: Mapping[str, Path], root: Path) -> None:
        """Write a spoiled copy of the accepted submission to ``root``, and its lists next to it."""
        shutil.copytree(accepted[self.of], root)
        self.spoil(root)
        for name, text in self.lists.items():
            root.with_suffix(f".{name}").write_text(text)


def write_accepted(folder: Path) -> dict[str, Path]:
    """The roots of a curve with the maximum elected as Offline, of one with a dedicated run, and of an agentic one."""
    curves = {PLAIN: make_curve(), DEDICATED_RUN: make_curve(dedicated=True), AGENTS: make_curve(agentic=True)}
    return {kind: write_submission(folder / kind, make_submission(curve)) for kind, curve in curves.items()}


def find_rules(root: Path) -> dict[Severity, set[str]]:
    """The names of the broken rules, with the lists next to ``root``."""
    named = {name: root.with_suffix(f".{name}") for name in PublishedLists.__struct_fields__}
    lists = PublishedLists(**{name: path for name, path in named.items() if path.is_file()})
    found: dict[Severity, set[str]] = {severity: set() for severity in Severity}
    for finding in check_endpoints(root, adopt_lists(load_endpoints_rules(), lists)).findings:
        found[finding.severity].add(finding.rule.id.removeprefix("curve."))
    return found


def edit_yaml(root: Path, point: str, **changes: Any) -> None:
    """Of point.yaml; a name may have dots; None takes it out. ``point`` "*": of all."""
    for path in _files(root, point, "point.yaml"):
        _edit(path, changes)


def edit_json(root: Path, point: str, file: str, **changes: Any) -> None:
    for path in _files(root, point, file):
        _edit(path, changes)


def _edit(path: Path, changes: Mapping[str, Any], *, null: bool = False) -> None:
    data = path.read_bytes()
    if path.suffix == ".yaml":
        values = json.loads(json.dumps(parse_yaml_mapping(data).values))
        path.write_bytes(write_yaml(change(values, changes, null=null)))
    else:
        path.write_text(json.dumps(change(json.loads(data), changes, null=null)))


def _files(root: Path, point: str, file: str) -> list[Path]:
    return sorted((root / "results/box").glob(f"*/{'r*' if point == '*' else point}/{file}"))


def change(values: dict[str, Any], changes: Mapping[str, Any], *, null: bool = False) -> dict[str, Any]:
    """Change fields at any depth. ``null``: None is a value, and does not take a field out."""
    for name, value in changes.items():
        *parents, last = name.split("__")
        place: Any = values
        for parent in parents:
            place = place[int(parent)] if parent.isdigit() else place[parent]
        if value is None and not null:
            place.pop(last)
        else:
            place[last] = value
    return values


def _retyped(file: str, path: str, value: object) -> Callable[[Path], object]:
    """Give a field another type; null stays null. ``file``: below the curve, a pattern."""

    def spoil(root: Path) -> None:
        for found in (root / "results/box").glob(f"*/{file}"):
            _edit(found, {path.replace(".", "__"): value}, null=True)

    return spoil


def _point(**changes: Any) -> Callable[[Path], object]:
    return lambda root: edit_yaml(root, "r5", **changes)


def _points(**changes: Any) -> Callable[[Path], object]:
    return lambda root: edit_yaml(root, "*", **changes)


def _summary(point: str = "r5", **changes: Any) -> Callable[[Path], object]:
    return lambda root: edit_json(root, point, "result_summary.json", **changes)


def _described(point: str = "*", **changes: Any) -> Callable[[Path], object]:
    return lambda root: edit_json(root, point, "system_desc.json", **changes)


def _power(**changes: Any) -> Callable[[Path], object]:
    return lambda root: _edit(root / "results/box/system_power.json", changes)


def _remove(*paths: str) -> Callable[[Path], object]:
    def spoil(root: Path) -> None:
        for path in paths:
            target = root / path
            shutil.rmtree(target) if target.is_dir() else target.unlink()

    return spoil


def _write(path: Path | str, data: bytes) -> Callable[[Path], object]:
    return lambda root: (root / path).write_bytes(data)


def _accuracy(data: bytes, point: str = "r1") -> Callable[[Path], object]:
    return _write(_CURVE / point / "accuracy_results.json", data)


def _rename(before: str, after: str) -> Callable[[Path], object]:
    return lambda root: (root / _CURVE / before).rename(root / _CURVE / after)


def _move_model(root: Path) -> None:
    (root / _CURVE).rename(root / "results/box/deepseek-r1")


def _crowd(root: Path) -> None:
    """Empty folders are points, too."""
    for concurrency in range(26, 26 + 26):
        (root / _CURVE / f"r{concurrency}").mkdir()


def _leave(_: Path) -> None:
    """Nothing of the submission is wrong: the list is."""


def _scored(point: str, inline: float | None = 0.5832, swe_bench: float | None = None) -> Callable[[Path], object]:
    return _write(_AGENTIC / point / "accuracy_results.json", make_agentic_accuracy(inline, swe_bench))


def _turns(mean: float | None) -> Callable[[Path], object]:
    stated = None if mean is None else {"output_sequence_lengths": {"avg": mean}}
    return _summary(output_sequence_lengths_full_run=stated)


_DSPARK = "git-sha1:3c5bac301d9cf392706189d82ed947feca6c2f0f"  # of the shipped list, for kimi-k3 from 2026-10-C1 on


def _drafted(cohort: str) -> Callable[[Path], object]:
    return _points(speculative_decoding={"weight_checksum": _DSPARK}, target_cohort=cohort)


def _drafters(approved: str | None) -> str:
    entry = {"benchmark": AGENTIC, "model_id": "d", "weight_checksum": _DSPARK}
    return json.dumps({"drafters": [entry | ({"approved_cohort": approved} if approved else {})]})


_CONFIGURED = json.dumps(
    {"drafters": [{"benchmark": AGENTIC, "target_checksum": "sha256:1", "configuration": {"exit_layer": 24}}]}
)


def _seeds(name: str, published: str = "2026-10-C1", **changes: int) -> str:
    entry = {"id": name, **load_endpoints_rules().find_seed_set("A").seeds, **changes}
    return json.dumps({"cohort": {"cohort-id": published, "seed_sets": [entry]}})


_WINDOW = {"super_pass_start": 0, "super_pass_end": 4}
_UNAPPROVED = {"weight_checksum": "sha256:0"}
_OF_ANOTHER = {"weight_checksum": "git-sha1:56d4cbbb4d29f4355bab4b9a39ccb717a14ad5ad"}


def _steady(**changes: Any) -> Callable[[Path], object]:
    return _point(steady_state={"status": "windowable", "verdict": "STEADY STATE", "window": _WINDOW, **changes})


def _used(ensemble: int, nodes: int) -> Callable[[Path], object]:
    return _point(nodes_used=[{"system_node_ensemble_id": ensemble, "nodes": nodes}])


MUTATIONS: tuple[Mutation, ...] = (
    Mutation("no docs", "required-dir", _remove("docs")),
    Mutation("no src", "src-dir", _remove("src")),
    Mutation("no README of the implementation", "src-readme", _remove("src/vllm/README.md")),
    Mutation("a point without point.yaml", "measurement-points-present", _remove(f"{_CURVE}/r5/point.yaml")),
    Mutation("a point.yaml that is no YAML", "point-config-valid", _write(_CURVE / "r5/point.yaml", b"a: [1,\n")),
    Mutation("a point.yaml that is a list", "point-config-valid", _write(_CURVE / "r5/point.yaml", b"- 1\n")),
    Mutation("a point without config.yaml", "config-file-present", _remove(f"{_CURVE}/r5/config.yaml")),
    Mutation("a config.yaml that is a list", "config-file-present", _write(_CURVE / "r5/config.yaml", b"- 1\n")),
    Mutation("a point without result", "result-summary-present", _remove(f"{_CURVE}/r5/result_summary.json")),
    Mutation("a result that is no JSON", "result-file-valid", _write(_CURVE / "r5/result_summary.json", b"{")),
    Mutation("a result without duration", "result-file-valid", _summary(duration_ns=None)),
    Mutation("a result with a strange percentile", "result-file-valid", _summary(ttft__percentiles={"p9": 1})),
    Mutation(
        "a result with two 90th percentiles", "result-file-valid", _summary(tpot__percentiles={"90": 1, "90.0": 2})
    ),
    Mutation("a point without description", "system-description-present", _remove(f"{_CURVE}/r5/system_desc.json")),
    Mutation("another system at one point", "system-description-consistency", _described("r5", system_name="other")),
    Mutation(
        "another driver at one point", "system-description-consistency", _described("r5", node_types__0__driver="9")
    ),
    Mutation("a description without name", "system-description-valid", _described(system_name=None)),
    Mutation("a long short name", "system-description-valid", _described(shortened_system_name="x" * 21)),
    Mutation("an unknown division", "system-description-valid", _described(division="Closed")),
    Mutation("an Available system without address", "system-description-valid", _described(availability_url="")),
    Mutation("a Preview without date", "system-description-valid", _described(system_availability_status="Preview")),
    Mutation("a node without driver", "system-description-valid", _described(node_types__0__driver=None)),
    Mutation(
        "a node without cores", "system-description-valid", _described(node_types__0__host_processor_core_count=None)
    ),
    Mutation("no maximum concurrency", "system-description-valid", _described(max_supported_concurrency=None)),
    Mutation("a maximum of 32", "region-computation", _described(max_supported_concurrency=32)),
    Mutation("a minimum at one point only", "c-min-override", _described("r5", c_min_override=3)),
    Mutation("a minimum without point", "c-min-override", _described(c_min_override=4)),
    Mutation("a minimum of 33", "c-min-override", _described(c_min_override=33)),
    Mutation("a field of point.yaml is missing", "point-disclosure-complete", _point(model_precision=None)),
    Mutation("no shared sources named", "point-disclosure-complete", _points(shared_src=None)),
    Mutation("shared sources elsewhere", "shared-path-resolution", _points(shared_src="../vllm")),
    Mutation("shared documents that are not there", "shared-path-resolution", _points(shared_docs="documents")),
    Mutation("a cohort of no form", "target-cohort", _points(target_cohort="2026-11")),
    Mutation("a cohort outside the window", "seed-set-adoption", _points(target_cohort="2027-03-C0")),
    Mutation("a seed set that is not published", "seed-set-membership", _points(seed_set="B")),
    Mutation("two seed sets", "seed-set-consistency", _point(seed_set="B")),
    Mutation("another seed", "seed-runtime-match", _point(runtime_settings__runtime__model_seed=42)),
    Mutation("no seed set", "seed-config-legacy", _points(seed_set=None)),
    Mutation("no concurrency", "point-config-valid", _point(concurrency=None)),
    Mutation("concurrency as text", "point-config-valid", _point(concurrency="five")),
    Mutation("no warm-up declared", "warmup-present", _point(warmup=None)),
    Mutation("more warm-up completed than issued", "point-config-valid", _point(warmup__requests_completed=3)),
    Mutation("a warm-up of two days", "point-config-valid", _point(warmup__duration_s=172800, warmup__concurrency=5)),
    Mutation("a warm-up without source", "point-config-valid", _point(warmup__data_source="")),
    Mutation("Poisson arrivals", "load-pattern", _point(runtime_settings__load_pattern="poisson")),
    Mutation(
        "points of two kinds", "benchmark-type-consistency", _point(runtime_settings__load_pattern="agentic_inference")
    ),
    Mutation("an unknown region", "region-declared", _point(region="low_throughput")),
    Mutation("the wrong region", "region-placement", _point(region="high_concurrency"), warning=True),
    Mutation("an unknown word for Offline", "offline-declared", _point(offline="yes")),
    Mutation("no Offline point", "offline-point-present", lambda root: edit_yaml(root, "r64", offline=None)),
    Mutation("two Offline points", "offline-point-present", _point(offline="elected")),
    Mutation(
        "another point elected",
        "offline-point-present",
        lambda root: (edit_yaml(root, "r64", offline=None), edit_yaml(root, "r5", offline="elected")),
    ),
    Mutation("too few points", "point-count", _remove(f"{_CURVE}/r2")),
    Mutation("too few points with Offline", "point-count", _remove(f"{_CURVE}/r2"), of=DEDICATED_RUN),
    Mutation("too many points", "point-cap", _crowd),
    Mutation(
        "no point of low concurrency", "low-concurrency-coverage", _remove(*(f"{_CURVE}/r{n}" for n in (2, 3, 5)))
    ),
    Mutation("no point of medium concurrency", "med-concurrency-coverage", _remove(f"{_CURVE}/r10")),
    Mutation("no point of high concurrency", "high-concurrency-coverage", _remove(f"{_CURVE}/r64", f"{_CURVE}/r25")),
    Mutation("a point beyond the margin", "concurrency-in-range", lambda root: edit_yaml(root, "r25", concurrency=72)),
    Mutation("a folder of another concurrency", "point-dirname-concurrency", _rename("r25", "r26"), warning=True),
    Mutation("another model at one point", "config-consistency-model", _point(model_name="deepseek-r1")),
    Mutation("a model that is not of the round", "model-name-valid", _points(model_name="gpt-4")),
    Mutation("a model's name not canonical", "model-name-valid", _points(model_name="openai/gpt-oss-120b")),
    Mutation("a model's folder of another name", "model-name-consistency", _move_model),
    Mutation("another dataset at one point", "config-consistency-dataset", _point(dataset="other")),
    Mutation("too few samples of a known dataset", "min-query-count", _points(dataset="cnn_dailymail")),
    Mutation("an unknown status", "steady-state-valid", _point(steady_state={"status": "steady"})),
    Mutation(
        "a window of three super-passes", "steady-state-consistency", _steady(window={**_WINDOW, "super_pass_end": 2})
    ),
    Mutation("a window that drifts", "steady-state-consistency", _steady(state={"tpot_p90": "Drifting Up"})),
    Mutation("samples unaccounted for", "metric-consistency-accounting", _summary(n_samples_completed=190)),
    Mutation("a stated rate that the counts do not make", "metric-consistency-system-tps", _summary(system_tps=1e6)),
    Mutation(
        "a stated rate per user that TPOT does not make", "metric-consistency-tps-per-user", _summary(tps_per_user=1e6)
    ),
    Mutation(
        "TPOT without its 90th percentile", "metric-consistency-tpot-p90", _summary(tpot__percentiles={"50.0": 10})
    ),
    Mutation("TPOT of 0", "metric-consistency-tpot-p90", _summary(tpot__percentiles={"90.0": 0})),
    Mutation("a stated interactivity of its own", "agentic-metric-consistency", _summary(e2e_avg_interactivity=1e6)),
    Mutation("a short run", "point-duration", _summary("r64", duration_ns=10**9), warning=True),
    Mutation("another utilisation", "tps-utilization", _described("r1", tps_utilization=0.9)),
    Mutation(
        "no accuracy anywhere",
        "accuracy-present",
        lambda root: [path.unlink() for path in _files(root, "*", "accuracy_results.json")],
    ),
    Mutation("no accuracy at the elected point", "accuracy-coverage", _remove(f"{_CURVE}/r64/accuracy_results.json")),
    Mutation(
        "no accuracy at the Offline run",
        "accuracy-coverage",
        _remove(f"{_CURVE}/r192/accuracy_results.json"),
        of=DEDICATED_RUN,
    ),
    Mutation("accuracy at one point more", "accuracy-coverage", _accuracy(make_accuracy(), "r2")),
    Mutation("accuracy below its bar", "accuracy-gate", _accuracy(make_accuracy(0.81))),
    Mutation("accuracy over too few samples", "accuracy-sample-count", _accuracy(make_accuracy(samples=100))),
    Mutation("accuracy without any entry", "accuracy-valid", _accuracy(b'{"accuracy_scores": []}')),
    Mutation("an accuracy entry without name", "accuracy-valid", _accuracy(b'{"accuracy_scores": [{"score": 1}]}')),
    Mutation("a drafter that is not approved", "approved-drafter", _points(speculative_decoding=_UNAPPROVED)),
    Mutation(
        "Offline below the maximum's rate",
        "offline-ordering",
        _summary("r192", output_sequence_lengths={"total": 10}),
        of=DEDICATED_RUN,
        warning=True,
    ),
    Mutation("no power descriptor", "power-descriptor", _remove("results/box/system_power.json")),
    Mutation(
        "a power source that is no address",
        "power-descriptor",
        _power(node_sets__0__components__cpu__tdp_per_unit__source="a friend"),
    ),
    Mutation("another cooling than the description's", "power-descriptor", _power(cooling="liquid")),
    Mutation("a power total of its own", "power-descriptor", _power(provisioned_power_kw=1.0)),
    Mutation("a set of nodes without components", "power-descriptor", _power(node_sets__0__components=None)),
    Mutation("a point with more nodes than there are", "nodes-used", _used(0, 2)),
    Mutation("a point with unknown nodes", "nodes-used", _used(7, 1)),
    Mutation("half of the accelerators idle", "maximal-engagement", _described("r5", tensor_parallel=4)),
    Mutation("more accelerators than there are", "maximal-engagement", _described("r5", data_parallel=2)),
    Mutation("a stated rate per kilowatt of its own", "metric-consistency-tps-per-kw", _summary(system_tps_per_kw=1e6)),
    *(
        Mutation(name, rule, spoil, of=AGENTS)
        for name, rule, spoil in (
            ("inline accuracy below its bar", "agentic-accuracy-inline", _scored("r5", inline=0.58)),
            ("a point without inline accuracy", "agentic-accuracy-inline", _scored("r1", None, 0.935)),
            ("inline accuracy in percent", "agentic-accuracy-inline", _scored("r5", inline=58.4)),
            ("SWE-bench below its bar in the mean", "agentic-accuracy-swebench", _scored("r1", swe_bench=0.931)),
            ("SWE-bench in percent", "agentic-accuracy-swebench", _scored("r1", swe_bench=93.5)),
            ("a region without SWE-bench", "accuracy-coverage", _scored("r1")),
            ("SWE-bench at one point more", "accuracy-coverage", _scored("r5", swe_bench=0.95)),
            ("too many tokens a turn", "agentic-osl-range", _turns(520.1)),
            ("too few tokens a turn", "agentic-osl-range", _turns(424.9)),
            ("an elected Offline point", "offline-point-present", lambda r: edit_yaml(r, "r64", offline="elected")),
            ("one point of another kind", "benchmark-type-consistency", _point(runtime_settings__load_pattern=None)),
            ("interactivity of its own", "agentic-metric-consistency", _summary(e2e_avg_interactivity=1e6)),
            ("a drafter of another benchmark", "approved-drafter", _points(speculative_decoding=_OF_ANOTHER)),
            ("a drafter approved too late", "drafter-approval-lead-time", _drafted("2026-10-C0")),
        )
    ),
    Mutation("tokens of all turns unsaid", "agentic-osl-range", _turns(None), of=AGENTS, warning=True),
    Mutation("a run of 1,300 s", "point-duration", _summary("r64", duration_ns=1300 * 10**9), of=AGENTS, warning=True),
    *(
        Mutation(f"{path} is {value!r}", "point-config-valid", _retyped("r5/point.yaml", path, value))
        for path, value in (
            ("dataset", ["a"]),
            ("runtime_settings.load_pattern", 7),
            ("runtime_settings.min_duration_ms", "a while"),
            ("runtime_settings.stream_all_chunks", -1),
            ("warmup.initialization_steps", "none"),
            ("warmup.logs_retained", "perhaps"),
            ("seed_set", ["A"]),
        )
    ),
    *(
        Mutation(f"{path} is {value!r}", "system-description-valid", _retyped("r*/system_desc.json", path, value))
        for path, value in (
            ("serving_framework", 7),
            ("disaggregated", "partly"),
            ("node_types.0.cooling", 7),
            ("node_types.0.number_of_nodes", "many"),
            ("node_types.0.accelerator_info", {}),
            ("node_types.0.accelerator_info.0.accelerators_per_node", 1.5),
        )
    ),
    *(
        Mutation(f"{path} is {value!r}", "power-descriptor", _retyped("../system_power.json", path, value))
        for path, value in (
            ("system_desc_id", 7),
            ("cooling", []),
            ("node_sets.0.node_set_id", "first"),
            ("node_sets.0.system_node_ensemble_id", None),
            ("node_sets.0.components.cpu.model", ["ACME"]),
            ("scale_out.nics", "none"),
            ("computed", "by hand"),
        )
    ),
    *(
        Mutation(f"{path} is {value!r}", "result-file-valid", _retyped("r5/result_summary.json", path, value))
        for path, value in (
            ("n_samples_issued", None),
            ("ttft", None),
            ("ttft.total", "long"),
            ("latency.percentiles", []),
            ("output_sequence_lengths.total", None),
        )
    ),
    Mutation("a shared folder without name", "shared-path-resolution", _points(shared_src="")),
    Mutation("a concurrency of 0", "load-pattern", _point(concurrency=0)),
    Mutation("an empty load pattern", "load-pattern", _point(runtime_settings__load_pattern="")),
    Mutation(
        "an inline score without type",
        "agentic-accuracy-inline",
        _retyped("r5/accuracy_results.json", "accuracy_scores.0.dataset_type", None),
        of=AGENTS,
    ),
    *(
        Mutation(name, rule, _leave, lists={"seed_sets": seeds})
        for name, rule, seeds in (
            ("a newer list without the seed set", "seed-set-membership", _seeds("B")),
            ("a newer list with other seeds", "seed-runtime-match", _seeds("A", model_seed=3)),
            ("a newer list for later cohorts", "seed-set-adoption", _seeds("A", published="2027-02-C0")),
        )
    ),
    *(
        Mutation(name, rule, _drafted("2026-11-C1"), of=AGENTS, warning=late, lists={"approved_drafters": drafters})
        for name, rule, drafters, late in (
            ("a newer list without the drafter", "approved-drafter", "drafters: []", False),
            ("a list that approves the drafter later", "drafter-approval-lead-time", _drafters("2026-11-C0"), False),
            ("a list that does not say when", "drafter-approval-lead-time", _drafters(None), True),
        )
    ),
    Mutation(
        "another configuration of the approved target",
        "approved-drafter",
        _points(speculative_decoding={"target_checksum": "sha256:1", "configuration": {"exit_layer": 25}}),
        of=AGENTS,
        lists={"approved_drafters": _CONFIGURED},
    ),
)
