"""A curve of eight measured points made from what the official client left of one run, and its folder on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.endpoints.rules.curve_rules import CurveRules, load_endpoints_rules
from reconciler.endpoints.rules.regions import choose_accuracy_points, derive_regions, place_points
from reconciler.endpoints.rules.results import parse_point
from reconciler.endpoints.tree.content import (
    DEDICATED,
    ELECTED,
    PENDING,
    CurveContent,
    EndpointsContent,
    PointContent,
    PointFacts,
)
from reconciler.endpoints.tree.render import render_endpoints
from reconciler.tree.content import LogRef

RULES = load_endpoints_rules()
MAXIMUM, DATASET = 64, 192
_SAMPLES = Path(__file__).parents[1] / "rules/samples"
_CONFIG = (_SAMPLES / "config.yaml").read_text()
_SUMMARY = json.loads((_SAMPLES / "result_summary.json").read_bytes())
_SECONDS = 1300

NODE: Mapping[str, Any] = {
    "system_node_ensemble_id": 0,
    "number_of_nodes": 1,
    "host_processor_model_name": "ACME 9000",
    "host_processors_per_node": 2,
    "host_processor_core_count": 64,
    "host_memory_capacity": "1 TiB",
    "host_memory_configuration": "16 x 64 GiB DDR5",
    "accelerator_info": [{"accelerator_model_name": "ACME X1", "accelerators_per_node": 8}],
    "host_network_card_count": "2 x 100 Gb/s",
    "cooling": "air-cooled",
    "driver": "1.2.3",
    "operating_system": "Debian 12",
    "filesystem": "ext4",
}
DESCRIPTION: Mapping[str, Any] = {
    "system_name": "ACME box with 8 X1",
    "shortened_system_name": "ACME 8xX1",
    "system_availability_status": "Available",
    "availability_url": "https://acme.example/box",
    "system_size": "8 accelerators",
    "system_node_ensemble_count": 1,
    "system_node_ensemble_total": 1,
    "serving_framework": "vLLM 0.24",
    "node_types": [NODE],
}
DISCLOSED: Mapping[str, Any] = {
    "model_precision": "FP8",
    "link_to_model": "https://acme.example/model",
    "dataset_name": "tiny_prompts",
    "dataset_type": "Performance",
    "dataset_link": "https://acme.example/dataset",
}


def _sourced(watts: float) -> dict[str, Any]:
    return {"value_w": watts, "source_type": "vendor_spec", "source": "https://acme.example/spec"}


POWER: Mapping[str, Any] = {
    "system_desc_id": "box",
    "cooling": "air",
    "node_sets": [
        {
            "node_set_id": 0,
            "system_node_ensemble_id": 0,
            "nodes_provisioned": 1,
            "power_method": "component_sum",
            "components": {
                "cpu": {"model": "ACME 9000", "count_per_node": 2, "tdp_per_unit": _sourced(350)},
                "accelerator": {"model": "ACME X1", "count_per_node": 8, "tdp_per_unit": _sourced(700)},
                "scale_up_network": {"method": "none"},
            },
        }
    ],
    "scale_out": {"present": False},
}
DEPLOYMENT: Mapping[str, Any] = {"tensor_parallel": 8, "data_parallel": 1, "batch": 256}


AGENTIC = "kimi-k3"
_PLAYED = """\
  accuracy_config: {eval_method: agentic_inference_inline, num_repeats: 1}
  agentic_inference:
    turn_timeout_s: 14400.0
    enable_salt: true
    inject_tool_delay: true
    num_trajectories_to_issue: 613
    stop_issuing_on_first_user_complete: false
"""
# What a run of an agentic benchmark has of its own: longer, and at the lower bound of tokens a turn.
_TURNS = {
    "duration_ns": 2 * _SECONDS * 10**9,
    "output_sequence_lengths_full_run": {"output_sequence_lengths": {"avg": 425.0}},
}


def make_config(concurrency: int, *, offline: bool = False, agentic: bool = False) -> bytes:
    text = _CONFIG.replace("target_concurrency: 5", f"target_concurrency: {concurrency}")
    if agentic:
        text = text.replace("type: concurrency", "type: agentic_inference").replace("    n_samples_to_issue: 192\n", "")
        text = text.replace("  parser:\n    prompt: text_input\n", _PLAYED)
    if offline:
        text = text.replace("type: concurrency", "type: max_throughput").replace("streaming: 'on'", "streaming: 'off'")
    return text.encode()


def make_summary(concurrency: int, **changes: Any) -> bytes:
    """Throughput grows with the concurrency up to 25, and each user's rate falls."""
    summary = json.loads(json.dumps(_SUMMARY))
    passes = 1 + min(concurrency, 25)
    for name in ("n_samples_issued", "n_samples_completed"):
        summary[name] = DATASET * passes
    summary["duration_ns"] = _SECONDS * 10**9
    summary["output_sequence_lengths"]["total"] = 6568 * passes
    for name in ("ttft", "latency", "tpot"):
        summary[name]["total"] *= passes
    tpot, slower = summary["tpot"], 1 + concurrency / 10
    for figures in (tpot, tpot["percentiles"]):
        figures.update({name: value * slower for name, value in figures.items() if name != "percentiles"})
    summary.pop("qps")
    summary.pop("tps")
    return json.dumps({**summary, **changes}).encode()


def make_accuracy(score: float = 0.8312, samples: int = 4395) -> bytes:
    entry = {"dataset_name": "tiny_questions", "score": score, "unit_samples": samples, "num_repeats": 1}
    return json.dumps({"accuracy_scores": [{**entry, "complete": True, "dataset_type": "accuracy"}]}).encode()


def make_agentic_accuracy(inline: float | None = 0.5832, swe_bench: float | None = None) -> bytes:
    """The score of the performance run, and of the SWE-bench run where there is one."""
    shared = {"unit_samples": 200, "num_repeats": 1, "complete": True}
    scores: list[dict[str, Any]] = []
    if inline is not None:
        scores.append({**shared, "dataset_name": "performance", "dataset_type": "performance", "score": inline})
    if swe_bench is not None:
        scores.append({**shared, "dataset_name": "swe_bench", "dataset_type": "accuracy", "score": swe_bench})
    return json.dumps({"accuracy_scores": scores}).encode()


def make_point(
    concurrency: int, *, accuracy: bytes | None = None, offline: str = "", agentic: bool = False, **changes: Any
) -> PointContent:
    config = make_config(concurrency, offline=offline == DEDICATED, agentic=agentic)
    summary = make_summary(concurrency, **(_TURNS if agentic else {}), **changes)
    measured = parse_point({"config.yaml": config, "result_summary.json": summary}, concurrency)
    return PointContent(
        facts=PointFacts(measured, MAXIMUM, "A", own_accuracy=accuracy is not None, disclosed=DEPLOYMENT),
        config=config,
        summary=summary,
        accuracy=accuracy,
        offline=offline,
    )


def make_curve(*, dedicated: bool = False, agentic: bool = False, **changes: Any) -> CurveContent:
    """Seven points with the maximum elected as Offline, or eight with a dedicated Offline run; of an agentic benchmark
    seven, none of which is Offline."""
    placed = place_points(MAXIMUM, RULES)
    regions = derive_regions(placed, MAXIMUM, RULES)
    scored = set(choose_accuracy_points(placed, regions, RULES, elected=None if agentic else MAXIMUM).values())
    points = []
    for concurrency in placed:
        offline = ELECTED if concurrency == MAXIMUM and not dedicated and not agentic else ""
        accuracy = make_accuracy() if concurrency in scored else None
        if agentic:
            accuracy = make_agentic_accuracy(swe_bench=0.935 if concurrency in scored else None)
        points.append(make_point(concurrency, accuracy=accuracy, offline=offline, agentic=agentic))
    if dedicated:
        points.append(make_point(DATASET, accuracy=make_accuracy(), offline=DEDICATED))
    values: dict[str, Any] = {
        "system": "box",
        "model": AGENTIC if agentic else "gpt-oss-120b",
        "division": "Standardized",
        "max_concurrency": MAXIMUM,
        "dataset": "tiny_prompts",
        "seed_set": "A",
        "target_cohort": "2026-11-C1",
        "implementation": "vllm",
        "points": tuple(points),
        "disclosed": DISCLOSED,
        "description": DESCRIPTION,
        "power": POWER,
    }
    return CurveContent(**{**values, **changes})


def make_submission(*curves: CurveContent, **changes: Any) -> EndpointsContent:
    return EndpointsContent(submitter="ACME", curves=curves or (make_curve(),), **changes)


def write_submission(folder: Path, submission: EndpointsContent | None = None, rules: CurveRules = RULES) -> Path:
    """The submission's root below ``folder``."""
    content = submission or make_submission()
    for name, file in render_endpoints(content, rules):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        assert not isinstance(file, LogRef)
        path.write_bytes(file)
    return folder / content.submitter / PENDING
