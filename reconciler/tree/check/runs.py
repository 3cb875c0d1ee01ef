"""Rules of a performance run; those of TEST01 and TEST04 must keep them too (submission checker: performance check)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

from reconciler.tree.findings import Complaint, Place, Rule, Severity
from reconciler.tree.reading.values import as_number, at, number, shown, value
from reconciler.tree.reading.view import RunView

Complaints = Iterator[Complaint]
_MILLISECOND = 1_000_000


def run_ended(run: RunView) -> Complaints:
    if not run.log.complete:
        yield Complaint(
            Place(run.log.file, run.log.length),
            "the log ends without a result",
            "the log of a run that came to its end",
            cause="the run was stopped, or the file was cut",
            fix="repeat the run, or copy its log again",
        )


def validity(run: RunView) -> Complaints:
    if "result_validity" in run.log.index and run.log.validity != "VALID":
        reason = shown(value(run.log, "result_invalid_reason") or "")
        yield Complaint(
            at(run.log, "result_validity"),
            f"{shown(run.log.validity)}{': ' if reason else ''}{reason}",
            "VALID",
            fix="repeat the run with a target that the system keeps",
        )


def error_lines(run: RunView) -> Complaints:
    errors = run.log.errors
    stated = number(run.log, "num_errors")
    if errors:
        first = errors[0]
        more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
        yield Complaint(Place(run.log.file, first.line), f"{shown(str(first.value))}{more}", "no ERROR line")
    elif stated:
        yield Complaint(at(run.log, "num_errors"), f"{stated} errors counted", "no error")


def mode(run: RunView) -> Complaints:
    if run.log.mode != "PerformanceOnly":
        cause = "the log of an accuracy run was copied here" if run.log.mode == "AccuracyOnly" else ""
        place = at(run.log, "effective_test_mode")
        yield Complaint(place, shown(run.log.mode or None), "PerformanceOnly", cause=cause)


def scenario(run: RunView) -> Complaints:
    """A folder may hold the logs of another scenario only where the result may be inferred from it."""
    folder, ran, category = run.cell.cell.scenario, run.log.scenario, run.cell.system.category
    ruleset = run.cell.ruleset
    if not run.inferred or (category and ruleset.inference(folder, ran, category)):
        return
    place = at(run.log, "effective_scenario")
    others = [rule for rule in ruleset.inferences if (rule.scenario, rule.measured) == (folder, ran)]
    if not others:
        yield Complaint(place, shown(ran or None), f"a run of {folder}", cause="the logs of another scenario's folder")
    elif category:
        found, wanted = f"{folder} inferred from {ran} on a {category} system", f"a run of {folder}"
        yield Complaint(place, found, f"{wanted}: only {others[0].category} systems may infer it", fix=f"run {folder}")


def inferred_metric(run: RunView) -> Complaints:
    """MultiStream from SingleStream takes 662 queries, so that the 99th percentile can be estimated."""
    folder, ran, category = run.cell.cell.scenario, run.log.scenario, run.cell.system.category
    inference = run.cell.ruleset.inference(folder, ran, category) if run.inferred and category else None
    if inference is not None and not number(run.log, inference.key):
        queries = f", which takes {inference.least_queries} queries" if inference.least_queries else ""
        yield Complaint(
            at(run.log, inference.key),
            f"{inference.key} {shown(value(run.log, inference.key))}",
            f"a value to infer {folder} from{queries}",
            cause=f"the {ran} run was too short" if queries else "",
            fix=f"repeat the {ran} run{f' with min_query_count = {inference.least_queries}' if queries else ''}",
        )


def seeds(run: RunView) -> Complaints:
    wanted = run.seeds
    wrong = [name for name, seed in wanted.items() if value(run.log, f"effective_{name}") != seed]
    if wrong:
        name = wrong[0]
        yield Complaint(
            at(run.log, f"effective_{name}"),
            f"{name} {shown(value(run.log, f'effective_{name}'))}",
            f"{wanted[name]}, the seed of {run.cell.ruleset.round}",
            cause="a LoadGen of another round" if len(wrong) == len(wanted) else "a seed was set by hand",
            fix="use a LoadGen that carries the seeds of the round",
        )


def least_duration(run: RunView) -> Complaints:
    yield from _least(run, "effective_min_duration_ms", "least_min_duration", " ms")


def least_samples(run: RunView) -> Complaints:
    yield from _least(run, "effective_performance_sample_count", "least_performance_sample_count", " samples")


def samples_per_query(run: RunView) -> Complaints:
    """Where the newer checker exempts the division, the older one still refuses: a note."""
    if run.scenario != "Offline":
        return
    for complaint in _least(run, "effective_samples_per_query", "least_samples_per_query", " samples"):
        bound = run.cell.binds("least_samples_per_query")
        yield complaint if bound else replace(complaint, severity=Severity.NOTE)


def early_stopping(run: RunView) -> Complaints:
    """Also where it proves nothing (Offline): LoadGen itself logs it as met there."""
    met = value(run.log, "early_stopping_met")
    needed = run.scenario != "Offline"
    if (met is not True and needed) or met is False:
        if needed and not run.log.complete:
            return
        result = next((v for k in _RESULTS if (v := value(run.log, k))), "")
        yield Complaint(
            at(run.log, "early_stopping_met"),
            f"early stopping {'not met' if met is False else shown(met)}{f': {shown(result)}' if result else ''}",
            "met: enough queries to prove the percentile",
            fix="run longer, or with a larger min_query_count",
        )


_RESULTS = ("early_stopping_result", "early_stopping_tpot_result", "early_stopping_ttft_result")


def target_latency(run: RunView) -> Complaints:
    if run.log.scenario != "Server":
        return
    most = _demand(run, "most_target_latency")
    found = number(run.log, "effective_target_latency_ns")
    if most is not None and (found is None or found > most):
        yield Complaint(
            at(run.log, "effective_target_latency_ns"),
            f"target latency {_milliseconds(found)}",
            f"at most {_milliseconds(most)}",
        )


def token_latencies(run: RunView) -> Complaints:
    if _setting(run, "exact_use_token_latencies") and value(run.log, "requested_use_token_latencies") is not True:
        yield Complaint(
            at(run.log, "requested_use_token_latencies"),
            "token latencies were not measured",
            "use_token_latencies on",
            cause="LoadGen was given another model key, so that its settings for this benchmark did not apply",
            fix=f"pass the model key {_setting(run, 'model_key')}",
        )


def token_limits(run: RunView) -> Complaints:
    """The measured p99 against the limits of the folder's scenario: Interactive's are its own."""
    if run.log.scenario != "Server" or run.inferred:
        return
    for name, demand, key in _TOKEN_LIMITS:
        most, found = _demand(run, demand), number(run.log, key)
        if most is not None and (found is None or found >= most):
            yield Complaint(
                at(run.log, key),
                f"p99 {name} {_milliseconds(found)}",
                f"below {_milliseconds(most)}, the limit of {run.scenario}",
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
    for name, demand, key in _KEY_LIMITS:
        most, found = _demand(run, demand), number(run.log, key)
        if most is not None and found is not None and found > most:
            yield Complaint(
                at(run.log, key),
                f"LoadGen's {name} limit was {_milliseconds(found)}",
                f"at most {_milliseconds(most)}, the limit of Interactive",
                cause="LoadGen was given the model key of Server",
                fix=f"pass the model key {_setting(run, 'model_key')}",
            )
            return


_KEY_LIMITS = (
    ("TTFT", "most_ttft_latency", "requested_server_ttft_latency"),
    ("TPOT", "most_tpot_latency", "requested_server_tpot_latency"),
)


def equal_issue(run: RunView) -> Complaints:
    key = "effective_sample_concatenate_permutation"
    if _setting(run, "exact_sample_concatenate_permutation") and value(run.log, key) is not True:
        yield Complaint(
            at(run.log, key),
            f"sample_concatenate_permutation {shown(value(run.log, key))}",
            "true: every sample is issued equally often",
            fix=f"pass the model key {_setting(run, 'model_key')}",
        )


def metric(run: RunView) -> Complaints:
    """A result needs its number, whatever LoadGen says of it."""
    rules = run.cell.rules
    if rules is None or not run.log.complete or run.inferred or rules.ruled("metric_key", run.scenario) is None:
        return
    key = rules.metric(run.scenario).key
    found = number(run.log, key)
    if found is None or found <= 0:
        yield Complaint(at(run.log, key), f"{key} {shown(value(run.log, key))}", "a number above 0")


def audit_absent(run: RunView) -> Complaints:
    marker = run.log.audit
    if marker is not None:
        yield Complaint(
            Place(run.log.file, marker.line),
            "LoadGen took settings from an audit.config",
            "a run without audit.config",
            cause="a compliance run was copied here, or an audit left its audit.config behind",
            fix="remove audit.config and repeat the run",
        )


def network_name(run: RunView) -> Complaints:
    name, wanted = value(run.log, "sut_name"), run.cell.ruleset.network.sut_name
    if run.cell.division == "network" and wanted and wanted not in str(name):
        yield Complaint(at(run.log, "sut_name"), f"sut_name {shown(name)}", f'a name that holds "{wanted}"')


def _least(run: RunView, key: str, demand: str, unit: str) -> Complaints:
    least, found = _demand(run, demand), number(run.log, key)
    if least is not None and (found is None or found < least):
        amount = shown(value(run.log, key))
        yield Complaint(at(run.log, key), f"{amount}{unit if found is not None else ''}", f"at least {least}{unit}")


def _demand(run: RunView, name: str) -> Decimal | None:
    rules = run.cell.rules
    return as_number(rules.value(name, run.scenario)) if rules is not None else None


def _setting(run: RunView, name: str) -> Any:
    rules = run.cell.rules
    return rules.value(name, run.scenario) if rules is not None else None


def _milliseconds(nanoseconds: Decimal | None) -> str:
    return "nothing" if nanoseconds is None else f"{(nanoseconds / _MILLISECOND).normalize():f} ms"


NEW, OLD, OURS = "submission checker", "older submission checker", "ours"
_PERFORMANCE = f"{NEW}: performance check"

RUN_RULES = (
    (Rule("run.ended", "the run came to its end", (OURS,)), run_ended),
    (Rule("run.valid", "LoadGen calls the run VALID", (OLD, "inference rules: valid runs")), validity),
    (Rule("run.errors", "the log holds no ERROR", (OLD, f"{NEW}: LoadGen errors")), error_lines),
    (Rule("run.mode", "the run is a performance run", (OURS,)), mode),
    (Rule("run.scenario", "the scenario that ran is the folder's, or may be inferred", (_PERFORMANCE,)), scenario),
    (Rule("run.inferred", "what is inferred was estimated", (_PERFORMANCE,)), inferred_metric),
    (Rule("run.seeds", "the round's seeds", (_PERFORMANCE, OLD)), seeds),
    (Rule("run.duration", "the configured minimum duration", (_PERFORMANCE, OLD)), least_duration),
    (Rule("run.samples", "the number of loaded samples", (_PERFORMANCE, OLD)), least_samples),
    (Rule("run.samples-per-query", "the samples of an Offline query", (_PERFORMANCE, OLD)), samples_per_query),
    (Rule("run.early-stopping", "enough queries to prove the percentile", (_PERFORMANCE,)), early_stopping),
    (Rule("run.target-latency", "the configured Server latency", (_PERFORMANCE, OLD)), target_latency),
    (Rule("run.token-latencies", "token latencies are measured", (_PERFORMANCE, OLD)), token_latencies),
    (Rule("run.token-limits", "TTFT and TPOT", (_PERFORMANCE, f"{OLD}: Interactive limits")), token_limits),
    (Rule("run.model-key", "Interactive's own model key", ("mlperf.conf", OURS)), model_key),
    (Rule("run.equal-issue", "equal issue of samples", (f"{OLD}: equal issue", "inference rules")), equal_issue),
    (Rule("run.metric", "the published number", (_PERFORMANCE,)), metric),
    (Rule("run.network", "the network division's SUT", (_PERFORMANCE, OLD)), network_name),
)
PERFORMANCE_RULES = (
    *RUN_RULES,
    (Rule("run.audit", "no audit.config took part", (OURS,), Severity.ERROR), audit_absent),
)
