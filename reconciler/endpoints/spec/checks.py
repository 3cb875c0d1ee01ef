"""Checks of declared points, reported before days are spent: settings that a point must set or must not set itself, and
those that a cell of a round with results of the client must not request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.desired.checks import make_cell_problem
from reconciler.desired.compliance import ASKED, list_asked_tests
from reconciler.endpoints.results.client import SERVICE
from reconciler.endpoints.spec.curves import SettingProblem, is_elsewhere
from reconciler.errors import Problem
from reconciler.loadgen import keys
from reconciler.resource.inputs import Value
from reconciler.resource.settings import AGENTIC, CLIENT_CODE, DISCLOSING, RESULTS, group_node_types
from reconciler.rules.ruleset import BenchmarkRules, Ruleset
from reconciler.spec.declared import DeclaredCell
from reconciler.spec.layers import Block, get_text

# Settings that a point may set itself; all others belong to the curve's one stack, or to its client.
_OF_A_POINT = (
    *(keys.TARGET_QPS, keys.MIN_DURATION, keys.MAX_DURATION, keys.MIN_QUERY_COUNT, "attempts", "policy."),
    *("harness.timeout", "client.warmup", "client.workers"),
    *(f"{group}." for group in DISCLOSING),
)
_NOT_OF_AGENTS = {
    "client.warmup": "the client cannot salt conversations of a warm-up",
    "client.audit.": "the client's test supports only single requests",
    "client.accuracy.dataset": "the SWE-bench service has its own dataset",
    "client.accuracy.method": "the client scores it with SWE-bench",
    "client.columns.": "its dataset has fixed conversation columns",
    keys.TARGET_QPS: "use min_query_count for the number of conversations",
}
_ANSWERING = ("endpoint.url", "harness.service.command")
# Disclosures that the rules require of a service that anyone can buy (§2.3.1), by their names.
_SERVICE_TERMS = {
    "advertised_model": "the model's advertised name and version",
    "pricing": "its prices at the time of submission",
    "rate_limits": "its rate limits and quotas, or their absence",
}


def find_unlocked(own: Block, settings: Block) -> Iterator[SettingProblem]:
    """Find settings of a point that would measure it on another stack, or with another client. ``settings``: all of its
    settings. Runs made elsewhere are not checked."""
    for name in sorted(own) if not is_elsewhere(settings) else ():
        if not name.startswith(_OF_A_POINT):
            fix = "set it next to points, for all of them, or declare another curve"
            yield name, f"a point cannot set {name}: all points of a curve use the same stack", fix


def find_point_problems(settings: Block, *, rehearsal: bool) -> Iterator[SettingProblem]:
    """Find missing settings without which a point cannot run. ``rehearsal``: it sets its own durations."""
    if "harness.model_name" not in settings:
        fix = "write 'client: {model_name: NAME}'; GET /v1/models lists the names"
        yield "client.model_name", "the endpoint's model is not declared", fix
    if is_elsewhere(settings):
        return
    if CLIENT_CODE not in settings:
        fix = "write 'client: {code: ${MLPERF_ENDPOINTS_CLIENT}}', a checkout of mlcommons/endpoints"
        yield "client.code", "the official client's location is not declared", fix
    if "dataset.path" not in settings:
        fix = "write 'dataset: {path: …}' in the benchmark"
        yield "dataset.path", "the performance dataset is not declared", fix
    if AGENTIC in settings:
        yield from _find_agentic_problems(settings)
    else:
        for name, what in {"dataset": "the accuracy dataset", "method": "the scoring of its answers"}.items():
            if f"client.accuracy.{name}" not in settings:
                fix = "write 'client: {accuracy: {dataset: FILE, method: SCORER, …}}'"
                yield f"client.accuracy.{name}", f"nothing says {what}", fix
    named = [name for name in _ANSWERING if name in settings]
    if len(named) != 1:
        neither = "neither endpoint.url nor a service is declared"
        message = "both endpoint.url and a service are declared" if named else neither
        fix = "write 'endpoint: {url: …}' for a remote endpoint, or `harness: {service: …}` to start one"
        yield (named or ["endpoint.url"])[0], message, fix
    given = [name for name in settings if name.startswith("client.audit.")]
    if given and "client.audit.samples" not in settings:
        yield given[0], "the number of audit samples is not declared", "write 'client: {audit: {samples: 64}}'"
    if "endpoint.url" in settings and not any(name.startswith("endpoint.stack.") for name in settings):
        fix = "write 'endpoint: {stack: {engine: …, weights: …, flags: …}}'; a change makes every point stale"
        yield "endpoint.url", "the endpoint's stack is not declared", fix
    if rehearsal:
        return
    least = int(get_text(settings, "point.least_duration"))
    duration = int(get_text(settings, keys.MIN_DURATION, str(least)))
    if duration < least:
        message = f"min_duration is {duration // 1000} s; the rules require {least // 1000} s"
        yield keys.MIN_DURATION, message, "remove min_duration, or set `rehearsal: true` (never packaged)"


def _find_agentic_problems(settings: Block) -> Iterator[SettingProblem]:
    """Find settings that an agentic benchmark's client requires, rejects or ignores."""
    if SERVICE not in settings:
        fix = "write 'client: {accuracy: {service: http://HOST:18080}}', the address of the client's swebench_service"
        yield SERVICE, "no SWE-bench service is declared for the accuracy runs", fix
    for name, why in _NOT_OF_AGENTS.items():
        given = next((own for own in settings if own == name or (name.endswith(".") and own.startswith(name))), "")
        if given and settings[given][0].value.value:
            yield given, f"an agentic benchmark has no {given}: {why}", "remove it"
    size = int(get_text(settings, keys.PERFORMANCE_SAMPLE_COUNT, "0"))
    count = int(get_text(settings, keys.MIN_QUERY_COUNT, "0"))
    if keys.PERFORMANCE_SAMPLE_COUNT not in settings:
        fix = "write 'performance_sample_count: 613', the number of conversations"
        yield keys.PERFORMANCE_SAMPLE_COUNT, "the number of conversations of the dataset is not declared", fix
    elif count % size:
        message = f"{count} conversations are not complete passes over {size}"
        yield keys.MIN_QUERY_COUNT, message, f"write a multiple of {size}"


def find_node_problems(settings: Block, system: Mapping[str, Value]) -> Iterator[SettingProblem]:
    """Find problems of a point's nodes. ``system``: the settings of the point's system."""
    types = group_node_types(system)
    for name in sorted(name for name in settings if name.startswith("nodes_used.")):
        node, used = name.partition(".")[2], int(get_text(settings, name))
        provisioned = types.get(node, {}).get("number_of_nodes")
        if node not in types:
            known = ", ".join(sorted(types)) or "none are declared"
            yield name, f"{node} is not a node type of the system", f"its node_types: {known}"
        elif provisioned is not None and not str(provisioned.value).strip().isdecimal():
            message = f"number_of_nodes of {node} is {str(provisioned.value)[:40]!r}"
            yield name, message, "write a whole number, such as 4"
        elif provisioned is not None and used > int(provisioned.value):
            message = f"{used} nodes of {node} are used, the system has {provisioned.value}"
            yield name, message, "use at most that many"
    given = {name.partition(".")[2] for name in settings if name.startswith("dp_shortfall.")}
    if given and (missing := sorted({"replicas", "fitting", "reason"} - given)):
        fix = "write 'dp_shortfall: {replicas: …, fitting: …, reason: …}'"
        yield f"dp_shortfall.{min(given)}", f"dp_shortfall has no {' and '.join(missing)}", fix


def find_service_problems(settings: Block, division: str, description: Mapping[str, Value]) -> Iterator[SettingProblem]:
    """Find problems of a curve in the Serviced division: the service must be reachable over the network by everyone,
    with public terms."""
    if division != "serviced" or is_elsewhere(settings):
        return
    if "harness.service.command" in settings:
        message = "the Serviced division is for public services, not for a server started here"
        fix = "declare 'endpoint: {url: …}', or use the Standardized or RDI division"
        yield "harness.service.command", message, fix
    for name, what in _SERVICE_TERMS.items():
        if f"disclosure.{name}" not in settings:
            yield "endpoint.url", f"nothing says {what}", f"write 'disclosure: {{{name}: …}}'"
    if "endpoint_url" not in description:
        fix = "write 'description: {endpoint_url: …}' in the system"
        yield "endpoint.url", "the service's public address is not declared", fix


def check_cell(cell: DeclaredCell, rules: BenchmarkRules, ruleset: Ruleset) -> list[Problem]:
    """Check a declared cell for settings that the round does not use for these results."""
    problems, value = [], cell.settings[RESULTS]
    if rules.name not in ruleset.endpoints.benchmarks:
        known = ", ".join(ruleset.endpoints.benchmarks) or f"no benchmark in round {ruleset.round}"
        fix = f"remove `results: endpoints`; it supports {known}"
        message = f"round {ruleset.round} does not accept results of the endpoints harness for {rules.name}"
        problems.append(make_cell_problem(cell, value, message, fix))
    if power := cell.power_path:
        message = "a power measurement needs LoadGen's logs, which the endpoints harness does not write"
        problems.append(make_cell_problem(cell, power, message, "take `power` out"))
    for test in list_asked_tests(cell):
        fix = "remove it, and add the test to the harness's configuration (`audit:`)"
        message = f"{test} is part of the endpoints harness's performance run"
        problems.append(make_cell_problem(cell, cell.settings[f"{ASKED}{test}"], message, fix))
    return problems
