"""Latency limits of a run, and the settings by which LoadGen measures and keeps them."""

from __future__ import annotations

from reconciler.tree.check.demands import NEW, OLD, OURS, Complaints, demand, milliseconds, setting
from reconciler.tree.findings import Complaint, Rule
from reconciler.tree.reading.values import at, number, shown, value
from reconciler.tree.reading.view import RunView


def target_latency(run: RunView) -> Complaints:
    if run.log.scenario != "Server":
        return
    most = demand(run, "most_target_latency")
    found = number(run.log, "effective_target_latency_ns")
    if most is not None and (found is None or found > most):
        yield Complaint(
            at(run.log, "effective_target_latency_ns"),
            f"target latency {milliseconds(found)}",
            f"at most {milliseconds(most)}",
        )


def token_latencies(run: RunView) -> Complaints:
    if setting(run, "exact_use_token_latencies") and value(run.log, "requested_use_token_latencies") is not True:
        yield Complaint(
            at(run.log, "requested_use_token_latencies"),
            "token latencies were not measured",
            "use_token_latencies on",
            cause="LoadGen was given another model key, so that its settings for this benchmark did not apply",
            fix=f"pass the model key {setting(run, 'model_key')}",
        )


def token_limits(run: RunView) -> Complaints:
    """The measured p99 against the limits of the folder's scenario: Interactive's are its own."""
    if run.log.scenario != "Server" or run.inferred:
        return
    for name, limit, key in _TOKEN_LIMITS:
        most, found = demand(run, limit), number(run.log, key)
        if most is not None and (found is None or found >= most):
            yield Complaint(
                at(run.log, key),
                f"p99 {name} {milliseconds(found)}",
                f"below {milliseconds(most)}, the limit of {run.scenario}",
                fix="lower target_qps and repeat the run",
            )


_TOKEN_LIMITS = (
    ("TTFT", "most_ttft_latency", "result_first_token_99.00_percentile_latency_ns"),
    ("TPOT", "most_tpot_latency", "result_time_per_output_token_99.00_percentile_ns"),
)


def model_key(run: RunView) -> Complaints:
    """Interactive ran with its own model key, which is what gives LoadGen its limits."""
    if run.scenario != "Interactive":
        return
    for name, limit, key in _KEY_LIMITS:
        most, found = demand(run, limit), number(run.log, key)
        if most is not None and found is not None and found > most:
            yield Complaint(
                at(run.log, key),
                f"LoadGen's {name} limit was {milliseconds(found)}",
                f"at most {milliseconds(most)}, the limit of Interactive",
                cause="LoadGen was given the model key of Server",
                fix=f"pass the model key {setting(run, 'model_key')}",
            )
            return


_KEY_LIMITS = (
    ("TTFT", "most_ttft_latency", "requested_server_ttft_latency"),
    ("TPOT", "most_tpot_latency", "requested_server_tpot_latency"),
)


def equal_issue(run: RunView) -> Complaints:
    key = "effective_sample_concatenate_permutation"
    if setting(run, "exact_sample_concatenate_permutation") and value(run.log, key) is not True:
        yield Complaint(
            at(run.log, key),
            f"sample_concatenate_permutation {shown(value(run.log, key))}",
            "true: every sample is issued equally often",
            fix=f"pass the model key {setting(run, 'model_key')}",
        )


_PERFORMANCE = f"{NEW}: performance check"
LIMIT_RULES = (
    (Rule("run.target-latency", "the configured Server latency", (_PERFORMANCE, OLD)), target_latency),
    (Rule("run.token-latencies", "token latencies are measured", (_PERFORMANCE, OLD)), token_latencies),
    (Rule("run.token-limits", "TTFT and TPOT", (_PERFORMANCE, f"{OLD}: Interactive limits")), token_limits),
    (Rule("run.model-key", "Interactive's own model key", ("mlperf.conf", OURS)), model_key),
    (Rule("run.equal-issue", "equal issue of samples", (f"{OLD}: equal issue", "inference rules")), equal_issue),
)
