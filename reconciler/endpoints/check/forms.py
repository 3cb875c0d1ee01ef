"""Types of the fields of point.yaml, result_summary.json, system_desc.json and system_power.json (rules §8.2, §8.3,
appendix E)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reconciler.endpoints.check.structure import WHOLE, Mismatch, describe_mismatch
from reconciler.resource.quantities import is_whole, parse_number

_FLAGS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "t", "f", "1", "0"})


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    """Return True for what the official checker reads as a boolean, including the words of YAML 1.1 and of JSON."""
    return isinstance(value, bool) or (isinstance(value, (str, int)) and str(value).lower() in _FLAGS)


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_list_of(is_valid: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(is_valid, value))


_KINDS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "text": (_is_text, "text"),
    "node text": (_is_text, "a text for each type of node"),
    "whole": (is_whole, WHOLE),
    "count": (lambda value: is_whole(value) and value >= 0, "a whole number, at least 0"),
    "number": (lambda value: parse_number(value) is not None, "a number"),
    "flag": (_is_flag, "true or false"),
    "mapping": (_is_mapping, "a mapping"),
    "texts": (_is_list_of(_is_text), "a list of texts"),
    "mappings": (_is_list_of(_is_mapping), "a list of mappings"),
    "named texts": (lambda value: isinstance(value, Mapping) and all(map(_is_text, value.values())), "texts by name"),
}
# Path of a field → its type; "*" in a path: each item of a list. "!": the field is required where its parent exists;
# "?": it may be null.
Fields = Mapping[str, str]

POINT_FIELDS: Fields = {
    "concurrency": "whole!",
    **dict.fromkeys(
        (
            *("region", "division", "model_name", "model_precision", "link_to_model", "dataset_name"),
            *("dataset_type", "dataset_link", "offline", "shared_src", "shared_docs", "seed_set", "target_cohort"),
        ),
        "text?",
    ),
    "max_supported_concurrency": "whole?",
    "dataset": "text",
    **dict.fromkeys(("link_to_model_transformation", "model_notes"), "text?"),
    "runtime_settings.load_pattern": "text",
    "runtime_settings.min_duration_ms": "whole",
    "runtime_settings.min_sample_count": "whole?",
    "runtime_settings.stream_all_chunks": "flag",
    "runtime_settings.warmup": "mapping?",
    "runtime_settings.warmup.salt": "flag?",
    "warmup.initialization_steps": "texts",
    "warmup.logs_retained": "flag?",
    "warmup.link_logs": "text?",
    "steady_state": "mapping?",
    **dict.fromkeys(("steady_state.status", "steady_state.verdict"), "text?"),
    "steady_state.window": "mapping",
    **dict.fromkeys((f"steady_state.window.super_pass_{name}" for name in ("start", "end", "size")), "whole?"),
    "steady_state.window.n_samples": "whole?",
    "steady_state.window.duration_s": "number?",
    "steady_state.state": "named texts",
    "speculative_decoding": "mapping?",
}


_SERIES = ("ttft", "tpot", "latency", "output_sequence_lengths")
SUMMARY_FIELDS: Fields = {
    **dict.fromkeys(("n_samples_issued", "n_samples_failed"), "whole"),
    **dict.fromkeys((*_SERIES, *(f"{name}.percentiles" for name in _SERIES)), "mapping"),
    **dict.fromkeys((f"{name}.total" for name in _SERIES), "number"),
    **dict.fromkeys(("output_tokens_per_turn_total", "e2e_turn_time_seconds_total"), "number?"),
}

_NODE_TEXTS = (
    *("host_processor_model_name", "host_memory_capacity", "host_networking", "host_storage_capacity"),
    *("host_storage_type", "other_hardware", "hw_notes", "cooling", "inference_backend", "operating_system"),
    *("container_link", "other_software_stack", "sw_notes"),
)
_ACCELERATOR_TEXTS = (
    *("accelerator_model_name", "accelerator_memory_capacity", "accelerator_memory_type"),
    *("accelerator_interconnect", "accelerator_host_interconnect"),
)
_PARALLEL = ("expert_parallel", "tensor_parallel", "pipeline_parallel", "data_parallel", "batch")
PARALLEL_FIELDS: Fields = dict.fromkeys(_PARALLEL, "whole?")
SYSTEM_FIELDS: Fields = {
    **dict.fromkeys(("system_name", "system_size", "shortened_system_name"), "text!"),
    "max_supported_concurrency": "whole!",
    **dict.fromkeys(("system_node_ensemble_count", "system_node_ensemble_total"), "whole!"),
}
NODE_FIELDS: Fields = dict.fromkeys(
    ("host_memory_configuration", "host_network_card_count", "driver", "filesystem"), "node text!"
)
DESCRIPTION_FIELDS: Fields = {
    **dict.fromkeys(
        (
            *("submitter_org_names", "submitter_contact", "submission_id", "submission_date", "publish_date"),
            *("system_category", "availability_url", "serving_framework", "endpoint_url", "node_config"),
            *("config_summary_notes", "link_config", "model_precision", "link_to_model", "model_notes"),
            *("link_to_model_transformation", "dataset_id", "dataset_name", "dataset_type", "dataset_link"),
        ),
        "text?",
    ),
    "disaggregated": "flag?",
    "tps_utilization": "number?",
    "config_summary.disaggregated": "flag?",
    **dict.fromkeys((f"config_summary.{name}" for name in _PARALLEL), "whole?"),
    **dict.fromkeys((f"node_types.*.{name}" for name in _NODE_TEXTS), "text?"),
    "node_types.*.number_of_nodes": "whole?",
    "node_types.*.host_processors_per_node": "whole?",
    "node_types.*.accelerator_info": "mappings",
    **dict.fromkeys((f"node_types.*.accelerator_info.*.{name}" for name in _ACCELERATOR_TEXTS), "text?"),
    "node_types.*.accelerator_info.*.accelerators_per_node": "whole?",
}

_FIGURES = (
    *("major_components_w", "overhead_fraction", "other_components_w", "published_node_power_w"),
    *("scale_out_switch_power_w", "total_system_power_w"),
)
POWER_FIELDS: Fields = {
    "system_desc_id": "text",
    "node_sets": "mappings",
    "node_sets.*.node_set_id": "whole!",
    "node_sets.*.system_node_ensemble_id": "whole!",
    "node_sets.*.nodes_in_published_rack": "whole?",
    "node_sets.*.components": "mapping?",
    **dict.fromkeys(
        (f"node_sets.*.components.{name}" for name in ("cpu", "accelerator", "scale_up_network")), "mapping?"
    ),
    **dict.fromkeys((f"node_sets.*.components.{name}.model" for name in ("cpu", "accelerator")), "text?"),
    "node_sets.*.components.accelerator.below_rated_tdp": "mapping?",
    "node_sets.*.components.scale_up_network.switch_count": "count?",
    "node_sets.*.components.scale_up_network.aggregate_bandwidth_tbps": "number?",
    "scale_out.cabling": "text?",
    "scale_out.required_bandwidth_tbps": "number?",
    "scale_out.nics": "mapping?",
    "scale_out.nics.count_per_node": "count!",
    "scale_out.nics.bandwidth_per_nic_gbps": "number!",
    "scale_out.nics.counted": "flag!",
    "scale_out.nics.excluded_from_published_power": "text?",
    "scale_out.switches": "mappings?",
    "scale_out.switches.*.model": "text!",
    "scale_out.switches.*.count": "count!",
    "scale_out.switches.*.bandwidth_tbps": "number!",
    "computed": "mapping?",
    **dict.fromkeys((f"computed.{name}" for name in _FIGURES), "number?"),
    "provisioned_power_kw": "number?",
    "mlc_estimated_power": "flag?",
    "notes": "text?",
}


def find_misfits(values: Mapping[str, Any], fields: Fields) -> Iterator[Mismatch]:
    """Yield (path, found, wanted) of each field whose value has another type, or that is required and missing."""
    for path, kind in fields.items():
        fits, wanted = _KINDS[kind.rstrip("?!")]
        for place, value in _find_values(values, path.split("."), "", required=kind.endswith("!")):
            if value is None and not kind.endswith("?"):
                yield place, "is null" if not kind.endswith("!") else "is missing", wanted
            elif value is not None and not fits(value):
                yield place, describe_mismatch(value), wanted


def _find_values(found: Any, path: list[str], place: str, *, required: bool) -> Iterator[tuple[str, Any]]:
    if not path:
        yield place, found
    elif path[0] == "*":
        for number, item in enumerate(found if isinstance(found, list) else ()):
            yield from _find_values(item, path[1:], f"{place}[{number}]", required=required)
    elif isinstance(found, Mapping) and (path[0] in found or (required and len(path) == 1)):
        yield from _find_values(found.get(path[0]), path[1:], f"{place}.{path[0]}".lstrip("."), required=required)
