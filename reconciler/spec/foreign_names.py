"""Names that people bring from elsewhere: LoadGen's own, those of user.conf and mlperf.conf, of other submitters' code.

Each comes with its name here, which a list of valid names does not give.
"""

from __future__ import annotations

from collections.abc import Mapping

# Settings that the round, or the harness, decides alone: a spec that set one would be refused at the end.
_FIXED: Mapping[str, str] = {
    **dict.fromkeys(
        ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed", "accuracy_log_rng_seed"),
        "is fixed by the round, as are all seeds",
    ),
    **dict.fromkeys(
        ("target_latency_percentile", "samples_per_query", "ttft_latency", "tpot_latency", "use_token_latencies"),
        "is fixed by the round",
    ),
    "sample_concatenate_permutation": "is fixed by the round",
    "model_key": "follows from the benchmark",
    "mode": "is decided by the pass, which makes an accuracy run and a performance run of each cell",
    "scenario": "is the cell's own name in spec.divisions",
    "performance_issue_unique": "is set by the compliance tests alone",
    "performance_issue_same": "is set by the compliance tests alone",
}
_FIXED_FIX = "take it out; `reconcile rounds show` prints what the round rules"

# Their name → what to write.
_RENAMED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "target_latency_ns",
            "single_stream_expected_latency_ns",
            "multi_stream_expected_latency_ns",
            "server_target_latency_ns",
            "expected_latency",
        ),
        "'target_latency: 15 ms': durations carry their unit",
    ),
    "min_duration_ms": "'min_duration: 600 s': durations carry their unit",
    "max_duration_ms": "'max_duration: 20 min': durations carry their unit",
    **dict.fromkeys(
        ("offline_expected_qps", "server_target_qps", "expected_qps", "qps"),
        "'target_qps: …', which each scenario takes as its own",
    ),
    "performance_sample_count_override": "performance_sample_count",
    "accuracy_sample_count_override": "accuracy_sample_count",
    **dict.fromkeys(("gpu_batch_size", "max_batch_size"), "'engine: {batch_size: …}'"),
    **dict.fromkeys(("gpu_inference_streams", "num_streams", "inference_streams"), "'run: {streams: …}'"),
    "deque_timeout_usec": "'run: {queue_delay: … us}'",
    "input_dtype": "'measurements: {input_data_types: …}'",
    "weight_data_type": "'measurements: {weight_data_types: …}'",
    "checkpoint": "'model: {path: …}'",
    **dict.fromkeys(("gpu", "gpus", "gpu_model", "device"), "'hardware: {accelerator: …}'"),
    **dict.fromkeys(("num_gpus", "gpu_count"), "'hardware: {count: …}'"),
}


def explain_foreign(name: str) -> tuple[str, str] | None:
    """(message, fix) of a name that means something elsewhere; None for any other."""
    if name in _FIXED:
        return f"{name} {_FIXED[name]}", _FIXED_FIX
    if name in _RENAMED:
        return f"{name} is not what this is called here", f"write {_RENAMED[name]}"
    return None
