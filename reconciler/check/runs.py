"""Rules for a performance run, which TEST01 and TEST04 must also follow (submission checker: performance check)."""

from __future__ import annotations

from msgspec.structs import replace

from reconciler.check.demands import NEW, OLD, OURS, Complaints, read_demand, soften
from reconciler.check.limits import LIMIT_RULES
from reconciler.loadgen import keys
from reconciler.resource.quantities import show_count
from reconciler.resource.rules import Severity, rule
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.values import find_at, read_number, show_value
from reconciler.tree.reading.view import RunView

_PERFORMANCE = f"{NEW}: performance check"
# LoadGen's error about a second user.conf. The newer checker waives it in the runs of compliance tests.
_SECOND_CONFIGURATION = "Multiple conf files are used"


@rule("run.ended", "the run completed", sources=(OURS,))
def check_run_ended(run: RunView) -> Complaints:
    """The log of a run ends with the result. A shorter log is from a run that was stopped."""
    if not run.log.complete:
        yield Complaint(
            Place(run.log.file, run.log.length),
            "the log ends without a result",
            "the log of a completed run",
            cause="the run was stopped, or the file was truncated",
            fix="repeat the run, or copy its log again",
        )


@rule("run.valid", "LoadGen calls the run VALID", sources=(OLD, "inference rules: valid runs"))
def check_validity(run: RunView) -> Complaints:
    """LoadGen judges each performance run, and only VALID runs are published."""
    if keys.RESULT_VALIDITY in run.log.index and run.log.validity != "VALID":
        reason = show_value(run.log.get_plain(keys.RESULT_INVALID_REASON) or "")
        yield Complaint(
            find_at(run.log, keys.RESULT_VALIDITY),
            f"{show_value(run.log.validity)}{': ' if reason else ''}{reason}",
            "VALID",
            fix="repeat the run with a target that the system can sustain",
        )


@rule("run.errors", "the log has no ERROR", sources=(OLD, f"{NEW}: LoadGen errors"))
def check_error_lines(run: RunView) -> Complaints:
    """LoadGen logs an ERROR if a run cannot be trusted, and counts the errors at the end."""
    errors = run.log.errors
    stated = read_number(run.log, keys.NUM_ERRORS)
    if errors:
        first = errors[0]
        more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
        waived = run.name in run.cell.tests and all(_SECOND_CONFIGURATION in str(error.value) for error in errors)
        yield Complaint(
            Place(run.log.file, first.line),
            f"{show_value(str(first.value))}{more}",
            "no ERROR line",
            severity=soften(run.cell, "test_configurations") if waived else None,
        )
    elif stated:
        yield Complaint(find_at(run.log, keys.NUM_ERRORS), f"{show_count(int(stated), 'error')} counted", "no error")


@rule("run.mode", "the run is a performance run", sources=(OURS,))
def check_mode(run: RunView) -> Complaints:
    """The log in performance/ states PerformanceOnly mode, or both modes."""
    if run.log.mode != "PerformanceOnly" and not run.log.serves_both:
        cause = "this is a copy of an accuracy run's log" if run.log.mode == "AccuracyOnly" else ""
        place = find_at(run.log, keys.EFFECTIVE_TEST_MODE)
        yield Complaint(place, show_value(run.log.mode or None), "PerformanceOnly", cause=cause)


@rule("run.scenario", "the run's scenario matches its folder, or may be inferred", sources=(_PERFORMANCE,))
def check_scenario(run: RunView) -> Complaints:
    """A folder may contain the logs of another scenario only if the result may be inferred from them."""
    folder, ran, category = run.cell.cell.scenario, run.log.scenario, run.cell.system.category
    ruleset = run.cell.ruleset
    if not run.inferred or (category and ruleset.find_inference(folder, ran, category)):
        return
    place = find_at(run.log, keys.EFFECTIVE_SCENARIO)
    others = [rule for rule in ruleset.inferences if (rule.scenario, rule.measured) == (folder, ran)]
    if not others:
        yield Complaint(
            place, show_value(ran or None), f"a run of {folder}", cause="the logs of another scenario's folder"
        )
    elif category:
        found, wanted = f"{folder} inferred from {ran} in category {category}", f"a run of {folder}"
        yield Complaint(place, found, f"{wanted}: only {others[0].category} systems may infer it", fix=f"run {folder}")


@rule("run.inferred", "inferred results have an estimate", sources=(_PERFORMANCE,))
def check_inferred_metric(run: RunView) -> Complaints:
    """To infer MultiStream from SingleStream, 662 queries are required to estimate the 99th percentile."""
    folder, ran, category = run.cell.cell.scenario, run.log.scenario, run.cell.system.category
    inference = run.cell.ruleset.find_inference(folder, ran, category)
    if inference is not None and not read_number(run.log, inference.key):
        queries = f", which takes {inference.least_queries} queries" if inference.least_queries else ""
        yield Complaint(
            find_at(run.log, inference.key),
            f"{inference.key} {show_value(run.log.get_plain(inference.key))}",
            f"a value to infer {folder} from{queries}",
            cause=f"the {ran} run was too short" if queries else "",
            fix=f"repeat the {ran} run{f' with min_query_count = {inference.least_queries}' if queries else ''}",
        )


@rule("run.seeds", "the round's seeds", sources=(_PERFORMANCE, OLD))
def check_seeds(run: RunView) -> Complaints:
    """LoadGen ran with the three random seeds that the round published."""
    wanted = run.seeds
    wrong = [name for name, seed in wanted.items() if run.log.get_plain(f"effective_{name}") != seed]
    if wrong:
        name = wrong[0]
        yield Complaint(
            find_at(run.log, f"effective_{name}"),
            f"{name} {show_value(run.log.get_plain(f'effective_{name}'))}",
            f"{wanted[name]}, the seed of {run.cell.ruleset.round}",
            cause="a LoadGen of another round" if len(wrong) == len(wanted) else "a seed was set by hand",
            fix="use a LoadGen with the round's seeds",
        )


@rule("run.duration", "the configured minimum duration", sources=(_PERFORMANCE, OLD), setting=keys.MIN_DURATION)
def check_least_duration(run: RunView) -> Complaints:
    """The minimum duration configured in LoadGen is at least the round's."""
    yield from _check_least(run, keys.EFFECTIVE_MIN_DURATION_MS, "least_min_duration", " ms", "minimum duration ")


@rule("run.samples", "the number of loaded samples", sources=(_PERFORMANCE, OLD), setting=keys.PERFORMANCE_SAMPLE_COUNT)
def check_least_samples(run: RunView) -> Complaints:
    """LoadGen's performance sample count is at least the round's."""
    yield from _check_least(run, keys.EFFECTIVE_PERFORMANCE_SAMPLE_COUNT, "least_performance_sample_count", " samples")


@rule(
    "run.samples-per-query",
    "the samples of an Offline query",
    sources=(_PERFORMANCE, OLD),
    setting=keys.MIN_QUERY_COUNT,
)
def check_samples_per_query(run: RunView) -> Complaints:
    """The query has at least the round's number of samples. A note if the newer checker exempts the division but the
    older one does not."""
    if run.scenario != "Offline":
        return
    for complaint in _check_least(run, keys.EFFECTIVE_SAMPLES_PER_QUERY, "least_samples_per_query", " samples"):
        bound = run.cell.binds("least_samples_per_query")
        yield complaint if bound else replace(complaint, severity=Severity.NOTE)


@rule("run.early-stopping", "enough queries to prove the percentile", sources=(_PERFORMANCE,))
def check_early_stopping(run: RunView) -> Complaints:
    """Early stopping is met, even in Offline, where it proves nothing but LoadGen still logs it as met. Rounds before
    early stopping require a number of queries."""
    if not run.cell.binds("early_stopping"):
        yield from _check_least(run, keys.EFFECTIVE_MIN_QUERY_COUNT, "least_query_count", " queries")
        return
    met = run.log.get_plain(keys.EARLY_STOPPING_MET)
    needed = run.scenario != "Offline"
    if (met is not True and needed) or met is False:
        if needed and not run.log.complete:
            return
        result = next((v for k in _RESULTS if (v := run.log.get_plain(k))), "")
        yield Complaint(
            find_at(run.log, keys.EARLY_STOPPING_MET),
            (
                "no early_stopping_met"
                if met is None
                else f"early stopping {'not met' if met is False else show_value(met)}"
            )
            + (f": {show_value(result)}" if result else ""),
            "met: enough queries to prove the percentile",
            fix="run longer, or with a larger min_query_count",
        )


_RESULTS = (keys.EARLY_STOPPING_RESULT, keys.EARLY_STOPPING_TPOT_RESULT, keys.EARLY_STOPPING_TTFT_RESULT)


@rule("run.metric", "the published number", sources=(_PERFORMANCE,))
def check_metric(run: RunView) -> Complaints:
    """A result has a number, whatever LoadGen's verdict."""
    rules = run.cell.rules
    if (
        rules is None
        or not run.log.complete
        or run.inferred
        or rules.find_ruled_value("metric_key", run.scenario) is None
    ):
        return
    key = rules.find_metric(run.scenario).key
    found = read_number(run.log, key)
    if found is None or found <= 0:
        yield Complaint(find_at(run.log, key), f"{key} {show_value(run.log.get_plain(key))}", "a number above 0")


@rule("run.audit", "no audit.config was used", sources=(OURS,))
def check_audit_absent(run: RunView) -> Complaints:
    """A run with settings from an audit.config is a compliance run."""
    marker = run.log.audit
    if marker is not None:
        yield Complaint(
            Place(run.log.file, marker.line),
            "LoadGen used settings from an audit.config",
            "a run without audit.config",
            cause="the log of a compliance run, or a leftover audit.config",
            fix="remove audit.config and repeat the run",
        )


@rule("run.network", "the network division's SUT", sources=(_PERFORMANCE, OLD))
def check_network_name(run: RunView) -> Complaints:
    """The name of the SUT indicates that it is reached over a network."""
    name, wanted = run.log.get_plain(keys.SUT_NAME), run.cell.ruleset.network.sut_name
    if run.cell.division == "network" and wanted and wanted not in str(name):
        yield Complaint(
            find_at(run.log, keys.SUT_NAME), f"sut_name {show_value(name)}", f'a name that contains "{wanted}"'
        )


def _check_least(run: RunView, key: str, limit: str, unit: str, what: str = "") -> Complaints:
    least, found = read_demand(run, limit), read_number(run.log, key)
    if least is not None and (found is None or found < least):
        amount = show_value(run.log.get_plain(key))
        yield Complaint(
            find_at(run.log, key), f"{what}{amount}{unit if found is not None else ''}", f"at least {least}{unit}"
        )


RUN_RULES = (
    check_run_ended,
    check_validity,
    check_error_lines,
    check_mode,
    check_scenario,
    check_inferred_metric,
    check_seeds,
    check_least_duration,
    check_least_samples,
    check_samples_per_query,
    check_early_stopping,
    *LIMIT_RULES,
    check_metric,
    check_network_name,
)
PERFORMANCE_RULES = (*RUN_RULES, check_audit_absent)
