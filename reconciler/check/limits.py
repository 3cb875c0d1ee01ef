"""Latency limits of a run, and the LoadGen settings that measure and enforce them."""

from __future__ import annotations

from decimal import Decimal

from reconciler.check.demands import NEW, OLD, OURS, Complaints, read_demand, read_setting, show_milliseconds
from reconciler.loadgen import keys
from reconciler.loadgen.compare import is_unlogged
from reconciler.resource.rules import Severity, rule
from reconciler.tree.findings import Complaint
from reconciler.tree.reading.values import find_at, read_number, show_value
from reconciler.tree.reading.view import RunView

_PERFORMANCE = f"{NEW}: performance check"

_SAME_PERCENT = Decimal("0.0001")  # LoadGen stores shares as doubles and logs six digits


@rule("run.target-latency", "the configured Server latency", sources=(_PERFORMANCE, OLD), setting=keys.TARGET_LATENCY)
def check_target_latency(run: RunView) -> Complaints:
    """The Server latency configured in LoadGen is at most the round's limit."""
    if run.log.scenario != "Server":
        return
    most = read_demand(run, "most_target_latency")
    found = read_number(run.log, keys.EFFECTIVE_TARGET_LATENCY_NS)
    if most is not None and (found is None or found > most):
        yield Complaint(
            find_at(run.log, keys.EFFECTIVE_TARGET_LATENCY_NS),
            f"target latency {show_milliseconds(found)}",
            f"at most {show_milliseconds(most)}",
        )


@rule("run.percentile", "the percentile of the latency", sources=("inference rules", "mlperf.conf"))
def check_percentile(run: RunView) -> Complaints:
    """The log states the round's percentile of the latency. It has no effect in Offline. In open, another percentile is
    a warning, because the model may need one."""
    key = keys.EFFECTIVE_TARGET_LATENCY_PERCENTILE
    ruled, found = read_setting(run, keys.TARGET_LATENCY_PERCENTILE), read_number(run.log, key)
    if run.log.scenario == "Offline" or ruled is None or found is None:
        return
    wanted = Decimal(str(ruled))
    if abs(found * 100 - wanted) < _SAME_PERCENT:
        return
    yield Complaint(
        find_at(run.log, key),
        f"percentile {(found * 100).normalize():f} of the latency",
        f"{wanted.normalize():f}, which {run.cell.ruleset.round} states {run.scenario} by",
        cause="LoadGen was given another model key, or a percentile in user.conf or code",
        fix="leave the percentile to LoadGen, and repeat the run",
        severity=Severity.WARNING if run.cell.division == "open" else None,
    )


@rule("run.token-latencies", "token latencies are measured", sources=(_PERFORMANCE, OLD))
def check_token_latencies(run: RunView) -> Complaints:
    """LoadGen measures TTFT and TPOT if the round limits them."""
    if (
        read_setting(run, "exact_use_token_latencies")
        and run.log.get_plain(keys.REQUESTED_USE_TOKEN_LATENCIES) is not True
    ):
        yield Complaint(
            find_at(run.log, keys.REQUESTED_USE_TOKEN_LATENCIES),
            "token latencies were not measured",
            "use_token_latencies on",
            cause="LoadGen was given another model key, so its settings for this benchmark were not used",
            fix=f"use the model key {read_setting(run, 'model_key')}",
        )


@rule(
    "run.token-limits",
    "TTFT and TPOT",
    sources=(_PERFORMANCE, f"{OLD}: Interactive limits"),
    setting=keys.TARGET_QPS,
)
def list_token_limits(run: RunView) -> Complaints:
    """The measured p99 is below the limits of the folder's scenario; Interactive has separate limits."""
    if run.log.scenario != "Server" or run.inferred:
        return
    for name, limit, key, _ in _TOKEN_LIMITS:
        most, found = read_demand(run, limit), read_number(run.log, key)
        if most is not None and (found is None or found >= most):
            yield Complaint(
                find_at(run.log, key),
                f"p99 {name} {show_milliseconds(found)}",
                f"below {show_milliseconds(most)}, the limit of {run.scenario}",
                fix="lower target_qps and repeat the run",
            )


# Name, the round's limit, and the keys of the measured latency and of LoadGen's limit.
_TOKEN_LIMITS = (
    ("TTFT", "most_ttft_latency", keys.FIRST_TOKEN_PERCENTILES["99.00"], keys.REQUESTED_SERVER_TTFT_LATENCY),
    ("TPOT", "most_tpot_latency", keys.OUTPUT_TOKEN_PERCENTILES["99.00"], keys.REQUESTED_SERVER_TPOT_LATENCY),
)


@rule("run.model-key", "Interactive's own model key", sources=("mlperf.conf", OURS))
def find_model_key(run: RunView) -> Complaints:
    """Interactive runs with its own model key, from which LoadGen takes its limits."""
    if run.scenario != "Interactive":
        return
    for name, limit, _, key in _TOKEN_LIMITS:
        most, found = read_demand(run, limit), read_number(run.log, key)
        if most is not None and found is not None and found > most:
            yield Complaint(
                find_at(run.log, key),
                f"LoadGen's {name} limit was {show_milliseconds(found)}",
                f"at most {show_milliseconds(most)}, the limit of Interactive",
                cause="LoadGen was given the model key of Server",
                fix=f"use the model key {read_setting(run, 'model_key')}",
            )
            return


@rule("run.equal-issue", "equal issue of samples", sources=(f"{OLD}: equal issue", "inference rules"))
def check_equal_issue(run: RunView) -> Complaints:
    """The log states equal issue. If its LoadGen did not print it, the confs in the same folder count, as in the
    round's checker. If only LoadGen's own configuration sets the value, an earlier LoadGen of the round may not set it
    yet: a warning."""
    key = keys.EFFECTIVE_SAMPLE_CONCATENATE_PERMUTATION
    if not read_setting(run, "exact_sample_concatenate_permutation") or run.log.get_plain(key) is True:
        return
    if not (is_unlogged(run.log, key) and _is_configured(run, key.removeprefix("effective_"))):
        yield Complaint(
            find_at(run.log, key),
            f"sample_concatenate_permutation {show_value(run.log.get_plain(key))}",
            "true: every sample is issued equally often",
            fix=f"use the model key {read_setting(run, 'model_key')}",
            severity=Severity.WARNING if _is_only_set(run, "exact_sample_concatenate_permutation") else None,
        )


def _is_only_set(run: RunView, name: str) -> bool:
    ruled = run.cell.rules.find_ruled_value(name, run.scenario) if run.cell.rules is not None else None
    return getattr(ruled, "sources", ()) == ("mlperf.conf",)


def _is_configured(run: RunView, name: str) -> bool:
    files, model = run.cell.files, str(read_setting(run, "model_key") or run.cell.official)
    confs = [read.value for read in (files.mlperf_conf, files.user_conf) if read.value is not None]
    lines = [conf.get_effective(model, run.log.scenario, name) for conf in confs]
    return any(line is not None and line.integer == 1 for line in lines)


LIMIT_RULES = (
    check_target_latency,
    check_percentile,
    check_token_latencies,
    list_token_limits,
    find_model_key,
    check_equal_issue,
)
