"""Checks of a harness command: its placeholders, and whether it receives the values that it needs."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping

from harness.catalog import BACKENDS
from reconciler.errors import Problem
from reconciler.resource.kinds import MODES, SCENARIOS
from reconciler.resource.placeholders import (
    Conditional,
    OpenConditionError,
    Placeholder,
    list_placeholders,
    parse_template,
)
from reconciler.resource.settings import (
    ADAPTER,
    BUILD,
    BUILD_COMMAND,
    COMMAND,
    RESULTS,
    SCORE_COMMAND,
    SERVICE,
    SERVICE_COMMAND,
)
from reconciler.rules.results.format import ResultFormat
from reconciler.rules.results.table import find_declared_format
from reconciler.spec.layers import Block, LayeredSetting, get_text
from reconciler.spec.names import find_nearest, give_advice

_BLOCK = "harness."
ENV, MODEL = "harness.env.", "harness.model_name"
# Meanings of the placeholders of a run.
PLACEHOLDERS = {
    "run_dir": "an empty folder for the logs of this run",
    "mode": "performance or accuracy",
    "test": "the compliance test, such as TEST01; empty in other runs",
    "loadgen_mode": "the LoadGen mode: PerformanceOnly or AccuracyOnly",
    "scenario": "the cell's scenario, such as Offline",
    "target_qps": "the target rate of this run; empty if not declared",
    "target_latency": "the target latency in milliseconds; empty if not declared",
    "user_conf": "path of the user.conf generated for this run",
    "audit_config": "path of a compliance test's audit.config; empty in other runs",
    "engine": "folder of the engine, if built here",
    "model": "path of the model",
    "dataset": "path of the dataset",
    "python": "the interpreter that runs children: that of reconcile, or the launcher's",
    "device": "accelerator indices, such as 0,1; cpu if the system declares no accelerators",
    "benchmark": "the official name of the benchmark",
    "system": "the system's name",
    "image": "the declared container image",
    "model_name": "the declared model_name of the endpoints harness",
    "endpoints_mode": "the mode of the endpoints harness: perf or acc",
    "endpoints_type": "its scenario: offline or online",
    "min_duration": "the shortest duration of a performance run in milliseconds; empty if not required",
    "max_duration": "the longest duration of a performance run in milliseconds; empty if not declared",
    "min_query_count": "the declared query count of a performance run; empty if not declared",
    "sample_index_seed": "the round's seed for the order of samples",
    "schedule_seed": "the round's seed for the arrival of queries",
    "accuracy_log": "path of the accuracy log, when scoring",
    "precision": "engine.precision of the cell",
    "batch_size": "engine.batch_size of the cell",
    "port": "a free port of this machine, chosen at each start of the harness's service",
    "service_url": "http://127.0.0.1:{port}",
}
# Placeholders of a build, and of a service, which is started for several runs.
BUILD_PLACEHOLDERS = (
    *("run_dir", "scenario", "model", "dataset", "device", "benchmark", "system", "image"),
    *("precision", "batch_size", "python"),
)
SERVICE_PLACEHOLDERS = (*BUILD_PLACEHOLDERS, "engine", "port", "service_url")
_WITH_SERVICE = ("port", "service_url")
_OF_POINTS = ("client_python", "client_config")  # placeholders of the command that starts the official Endpoints client
_WITH_ADDRESS = (*_WITH_SERVICE, "client_config")  # placeholders that contain the service's address
# Further names in {name:+text}, which makes a part of a command conditional. The end of a system's name (_MaxQ) may
# also be used.
_ENDINGS = ("_MaxQ", "_MaxP", "_TRT")  # the usual ones; a similar but different name is a mistake
_OF_SCORES = (SCORE_COMMAND, "harness.code", "harness.configs", "harness.cwd", "harness.image", "harness.timeout")
_TEXTS = (COMMAND, SCORE_COMMAND, "harness.cwd", "harness.logs", "harness.outputs", "harness.user_conf_at")


def check_harness(settings: Block, *, scorer_refused: bool = False) -> Iterator[Problem]:
    """Check a cell's harness command; each problem is at the wrong value. ``scorer_refused``: a ``score`` was declared
    but refused, so it is not reported as missing."""
    chosen = get_text(settings, "engine.backend")
    if chosen not in ("command", "external") and not any(name.startswith(_BLOCK) for name in settings):
        return  # true for nearly every cell
    texts = {name: layers[0] for name, layers in settings.items() if name in _TEXTS or name.startswith(ENV)}
    served = SERVICE_COMMAND in settings
    known = [name for name in PLACEHOLDERS if served or name not in _WITH_SERVICE]
    known += _OF_POINTS if _find_format(settings).TIES_ACCURACY else ()
    unserved = [item for item in known if item not in _WITH_SERVICE]
    allowed = ((setting, unserved if name == SCORE_COMMAND else known) for name, setting in texts.items())
    misspelt = [problem for setting, names in allowed for problem in _check_placeholders(setting, names)]
    yield from misspelt
    yield from _check_build(settings)
    yield from _check_service(settings, texts.values())
    if COMMAND not in settings:
        if ADAPTER in settings:
            return  # already refused with its name
        if chosen == "command":
            fix = 'write \'harness: {command: ["python", "run.py", "{run_dir}"]}\' instead'
            yield settings["engine.backend"][0].make_problem("backend command has no command", fix)
        elsewhere = chosen == "external"
        if elsewhere:
            yield from _check_model_name(settings)
        asks = chosen and served and BACKENDS[chosen].serves
        for name, layers in settings.items():
            own = (elsewhere and name in (RESULTS, MODEL)) or (asks and name.startswith(f"{SERVICE}."))
            own = own or (SCORE_COMMAND in settings and (name in _OF_SCORES or name.startswith(ENV)))
            if name.startswith(_BLOCK) and not own:
                fix = 'write \'harness: {command: ["python", "run.py", "{run_dir}"]}\', or remove the rest'
                yield layers[0].make_problem("harness has no command", fix)
                return
        return
    if misspelt:
        return  # misspelt placeholders are not also reported as missing
    given = " ".join(text for setting in texts.values() for text in _list_texts(setting))
    yield from _find_unused_files(settings, given, scored=scorer_refused)


def _find_format(settings: Block) -> ResultFormat:
    return find_declared_format({name: settings[name][0].value for name in (RESULTS,) if name in settings})


def _check_model_name(settings: Block) -> Iterator[Problem]:
    if _find_format(settings).NAMES_MODEL and MODEL not in settings:
        fix = "write `model_name: NAME`, from model_params.name in its config.yaml"
        yield settings[RESULTS][0].make_problem("the model of the results is not declared", fix)


def _list_texts(setting: LayeredSetting) -> list[str]:
    value = setting.value.value
    return [value] if isinstance(value, str) else list(value) if isinstance(value, tuple) else []


def _check_placeholders(setting: LayeredSetting, known: Collection[str], of: str = "") -> Iterator[Problem]:
    for text in _list_texts(setting):
        try:
            found = list(list_placeholders(parse_template(text)))
        except OpenConditionError:
            yield setting.make_problem("a conditional part has no closing brace", "write {name:+text}")
            continue
        for part in found:
            if isinstance(part, Placeholder) and part.name not in known:
                fix = f"{give_advice(part.name, known)}; write {{{{{part.name}}}}} for literal braces"
                yield setting.make_problem(f"{{{part.name}}} is not a placeholder{of}", fix)
            runs = MODES if "mode" in known else ()
            usual = find_nearest(part.name, _ENDINGS) or part.name if part.name.startswith("_") else ""
            allowed = (*known, *runs, *SCENARIOS, usual)
            if isinstance(part, Conditional) and part.name not in allowed:
                fix = give_advice(part.name, [name for name in allowed if name])
                yield setting.make_problem(f"{{{part.name}:+…}} does not refer to a value of a run{of}", fix)


def _list_below(settings: Block, block: str) -> dict[str, LayeredSetting]:
    return {name: layers[0] for name, layers in settings.items() if name.startswith(f"{block}.")}


def _report_no_command(own: Mapping[str, LayeredSetting], noun: str, example: str) -> Iterator[Problem]:
    """Report a block that has settings but no command, once."""
    for setting in itertools.islice(own.values(), 1):
        fix = f"write '{noun}: {{command: {example}}}', or remove the rest"
        yield setting.make_problem(f"{noun} has no command", fix)


def _check_build(settings: Block) -> Iterator[Problem]:
    own = _list_below(settings, BUILD)
    command = own.get(BUILD_COMMAND)
    if command is None:
        yield from _report_no_command(own, "build", '["python", "build.py", "{model}", "{run_dir}"]')
        return
    for setting in own.values():
        yield from _check_placeholders(setting, BUILD_PLACEHOLDERS, " of a build")
    given = any("{run_dir}" in text for setting in own.values() for text in _list_texts(setting))
    if f"{BUILD}.outputs" not in own and not given:
        fix = "pass {run_dir} to the command, or list its output files in `outputs`"
        yield command.make_problem("the build's output is not declared", fix)


def _check_service(settings: Block, asking: Iterable[LayeredSetting]) -> Iterator[Problem]:
    """Check that a server can be started, and that its runs can find it."""
    own = _list_below(settings, SERVICE)
    command = own.get(SERVICE_COMMAND)
    if command is None:
        yield from _report_no_command(own, "service", '["python", "server.py", "--port", "{port}"]')
        return
    for setting in own.values():
        yield from _check_placeholders(setting, SERVICE_PLACEHOLDERS, " of a service, which several runs share")
    probes = [own[name] for name in (f"{SERVICE}.ready.{probe}" for probe in ("url", "tcp", "log")) if name in own]
    listens = any("{port}" in text for setting in own.values() for text in _list_texts(setting))
    for extra in probes[1:]:
        yield extra.make_problem("a service can have only one readiness check", "keep one of url, tcp and log")
    if not probes and not listens:
        fix = "pass {port} to the command, or add 'ready: {url: \"http://127.0.0.1:8000/health\"}'"
        yield command.make_problem("the service has no readiness check", fix)
    given = [text for setting in asking for text in _list_texts(setting)]
    if COMMAND in settings and listens and not any(f"{{{name}}}" in text for name in _WITH_ADDRESS for text in given):
        fix = "pass {service_url} or {port} to the harness command"
        yield command.make_problem("the command does not use its service's address", fix)


def _find_unused_files(settings: Block, texts: str, *, scored: bool) -> Iterator[Problem]:
    """Report files and folders that are prepared for a command without a placeholder for them, since it would not use
    them."""
    command = settings[COMMAND][0]
    results = _find_format(settings)
    yield from _check_model_name(settings)
    scored = scored or results.SCORES_ITSELF or SCORE_COMMAND in settings
    if not scored and get_text(settings, "benchmark.code") == "command":
        fix = 'write \'score: {command: ["python", "accuracy.py", "{accuracy_log}"]}\', or set the benchmark\'s `code`'
        yield command.make_problem("the accuracy run of this benchmark has no scorer", fix)
    if "harness.logs" not in settings and "{run_dir}" not in texts:
        fix = "pass {run_dir} as an argument or in env, or set harness.logs to its own folder"
        yield command.make_problem("the command has no placeholder for its log folder", fix)
    if not results.READS_CONF:
        return  # its configuration is part of its results, and is checked there
    if get_text(settings, "harness.user_conf", "written") == "written" and "{user_conf}" not in texts:
        fix = "pass {user_conf}, or set 'user_conf: harvested' if the command generates its own"
        yield command.make_problem("the command has no placeholder for its user.conf", fix)
