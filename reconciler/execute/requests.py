"""Turn an attempt into the request that its child reads: one function per kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.contract import BACKENDS, BackgroundLoad, Benchmark, BuildRequest, FileMessage, RunRequest, ScoreRequest
from reconciler.execute.attempt import Attempt
from reconciler.execute.commands import has_command, make_command_build, make_command_run, make_command_score
from reconciler.execute.request_parts import enclose, load_power, select_slices
from reconciler.loadgen import keys
from reconciler.loadgen.log_files import ACCURACY_LOG
from reconciler.loadgen.settings import name_loadgen_scenario, select_conf_settings
from reconciler.loadgen.user_conf import select_audit_settings, select_settings, write_audit_config, write_user_conf
from reconciler.resource.kinds import Kind
from reconciler.resource.settings import BACKGROUND, SCORE_COMMAND, CellSettings
from reconciler.rules.results.table import find_format
from reconciler.storage.files import RepositoryPaths, replace

_GENERATION = "generation."
_PACED = ("Server", "Interactive")  # scenarios whose queries arrive at a set rate


def make_request(attempt: Attempt, paths: RepositoryPaths) -> FileMessage:
    kind = attempt.intent.address.kind
    if attempt.intent.address.is_run:
        write_confs(attempt)
        run: FileMessage
        if has_command(attempt):
            run = enclose(make_command_run(attempt, paths, attempt.list_inputs()), attempt, paths)
        else:
            run = _make_run_request(attempt, paths)
        power = load_power()
        return run if power is None else power.wrap_run(run, attempt, paths)
    if kind is Kind.SCORE:
        inputs = attempt.list_inputs()
        return make_score_request(attempt, paths, inputs, Path(inputs.pop("run")) / ACCURACY_LOG)
    if has_command(attempt):
        return enclose(make_command_build(attempt, paths, attempt.list_inputs()), attempt, paths)
    return _make_build_request(attempt, paths)


def describe_benchmark(attempt: Attempt, paths: RepositoryPaths) -> Benchmark:
    locations = attempt.intent.locations
    path = locations.get("benchmark.path")
    name = locations.get("benchmark.code", "") or (Path(path).stem if path else "")
    return Benchmark(name=name, path=str((paths.root / path).resolve()) if path else None)


def _make_build_request(attempt: Attempt, paths: RepositoryPaths) -> BuildRequest:
    intent = attempt.intent
    kind = intent.address.kind
    name = str(kind).lower()
    source = intent.locations.get(f"{name}.path")
    backend = intent.settings.backend or None
    settings = select_engine_settings(intent.settings) if kind is Kind.ENGINE else dict(intent.settings.values)
    caches = {"calibration": str(paths.caches / "calibration")} if kind is Kind.MODEL else {}
    if kind is Kind.ENGINE:
        caches = {"timing": str(paths.caches / f"timing-{backend}.cache")}
    return BuildRequest(
        kind=str(kind),  # type: ignore[arg-type]
        benchmark=describe_benchmark(attempt, paths),
        output=str(attempt.output),
        counter=str(attempt.counter),
        backend=backend if kind is Kind.ENGINE else None,
        settings=settings,
        inputs=attempt.list_inputs(),
        source=str((paths.root / source).resolve()) if source else None,
        caches=caches,
        # One slice suffices, of the smallest profile: an engine that fits it fits the others.
        slices=select_slices(intent.settings)[-1:] if kind is Kind.ENGINE else (),
    )


_CHOOSES_BACKEND = ("backend", "version")
_NOT_OF_CHILD = ("queue_delay", "stall_timeout")  # passed on with its unit, or watched by the pass


def select_engine_settings(settings: CellSettings) -> dict[str, object]:
    """Return every field of the spec's ``engine`` except those that select the backend, and the backend's own
    options."""
    named = {n: v for n, v in settings.get_below("engine.").items() if "." not in n and n not in _CHOOSES_BACKEND}
    return {**settings.get_below("engine.options."), **named}


def select_run_settings(settings: CellSettings) -> dict[str, object]:
    """Return every field of the spec's ``run``, and the backend's own options. ``batch_size`` defaults to the engine's
    and the devices to those that the system declares; the queue delay is in microseconds."""
    run = settings.get_below("run.")
    named = {name: value for name, value in run.items() if "." not in name and name not in _NOT_OF_CHILD}
    if "batch_size" not in named and "engine.batch_size" in settings:
        named["batch_size"] = settings.get("engine.batch_size")
    if settings.hardware.count:
        named["devices"] = settings.hardware.count
    if "queue_delay" in run:
        named["queue_delay_us"] = run["queue_delay"]
    return {**named, **settings.get_below("run.options.")}


def write_confs(attempt: Attempt) -> None:
    """Write user.conf, and the audit settings of a compliance test. LoadGen's built-in values are those of the round,
    so user.conf leaves them out."""
    intent = attempt.intent
    values = {name: value for name, (value, _) in intent.inputs.items()}
    scenario, mode = str(values["scenario"]), str(values["mode"])
    model_key = str(values.get("model_key", "*"))
    if not find_format(intent.settings).READS_CONF:
        return  # no LoadGen reads these files
    asked, known = select_conf_settings(values, mode, scenario), intent.rules.built_in if intent.rules else {}
    own = {name: value for name, value in asked.items() if name not in known or known[name] != value}
    texts = select_settings(scenario, {**_choose_rate(attempt, mode), **own})
    cell = intent.address.cell
    notes = [f"{cell}: settings of the {mode} run, written by mlperf-reconciler"]
    replace(attempt.user_conf, write_user_conf(model_key, scenario, texts, notes))
    audit = select_audit_settings(values)
    if audit:
        notes = [f"{cell}: {values['test']}, written by mlperf-reconciler"]
        replace(attempt.audit_file, write_audit_config(audit, notes))


def _choose_rate(attempt: Attempt, mode: str) -> dict[str, Any]:
    """Return the query rate for an accuracy run. LoadGen also paces the queries of a Server accuracy run, by default at
    one per second. A command's server gets the declared rate instead. The rate does not affect the result, so it is not
    part of the run's identity."""
    rate = attempt.intent.settings.get(keys.TARGET_QPS)
    paced = has_command(attempt) and mode == "accuracy" and rate is not None
    return {keys.TARGET_QPS: rate} if paced and str(attempt.intent.inputs["scenario"][0]) in _PACED else {}


def _make_run_request(attempt: Attempt, paths: RepositoryPaths) -> RunRequest:
    intent = attempt.intent
    values = {name: value for name, (value, _) in intent.inputs.items()}
    settings, server, path = select_run_settings(intent.settings), intent.server, intent.locations.get("model.path")
    key = settings.get("api_key_env")
    if not BACKENDS[intent.settings.backend].builds_engine:  # otherwise the engine would show them
        settings |= intent.settings.get_below("engine.options.")
    if "engine.precision" in intent.settings:
        settings["precision"] = intent.settings.get("engine.precision")
    return RunRequest(
        benchmark=describe_benchmark(attempt, paths),
        backend=intent.settings.backend,
        scenario=name_loadgen_scenario(str(values["scenario"])),  # type: ignore[arg-type]
        mode=str(values["mode"]),  # type: ignore[arg-type]
        model_key=str(values.get("model_key", "*")),
        user_conf=str(attempt.user_conf),
        log_dir=str(attempt.output),
        counter=str(attempt.counter),
        audit_config=str(attempt.audit_file) if attempt.audit_file.exists() else "",
        performance_sample_count=int(values.get(keys.PERFORMANCE_SAMPLE_COUNT) or 0),
        settings=settings,
        inputs={name: path for name, path in attempt.list_inputs().items() if not name.startswith(BACKGROUND)},
        generation={
            name.removeprefix(_GENERATION): value for name, value in values.items() if name.startswith(_GENERATION)
        },
        sources={"model": str((paths.root / path).resolve())} if path else {},
        service_url=server.url if server else "",
        service_log=server.log if server else "",
        secrets={"api_key": str(key)} if key else {},
        slices=select_slices(intent.settings),
        background=tuple(_list_background(attempt, paths)),
    )


def _list_background(attempt: Attempt, paths: RepositoryPaths) -> Iterator[BackgroundLoad]:
    """List the background loads, each of which runs on a slice of the smallest profile."""
    settings, inputs = attempt.intent.settings, attempt.list_inputs()
    for number in range(len(settings.get_words(BACKGROUND))):
        given = {n.removeprefix(mark): at for n, at in inputs.items() if n.startswith(mark := f"{BACKGROUND}{number}_")}
        if not given:
            return  # not a timed run
        own = CellSettings(settings.get_below(f"{BACKGROUND}.{number}."))
        path, name = own.benchmark_path, own.benchmark_code
        yield BackgroundLoad(
            benchmark=Benchmark(
                name=name or Path(path).stem, path=str((paths.root / path).resolve()) if path else None
            ),
            backend=own.backend,
            slice=settings.hardware.slices[-1],
            performance_sample_count=own.get_number(keys.PERFORMANCE_SAMPLE_COUNT),
            settings=select_run_settings(own),
            inputs=given,
        )


def make_score_request(
    attempt: Attempt, paths: RepositoryPaths, inputs: dict[str, str], accuracy_log: Path
) -> FileMessage:
    """Make the request to the declared scoring command, or else to the benchmark's own scorer."""
    if SCORE_COMMAND in attempt.intent.settings:
        return enclose(make_command_score(attempt, paths, inputs, accuracy_log), attempt, paths)
    shown = attempt.intent.rules.shown if attempt.intent.rules else None
    return ScoreRequest(
        benchmark=describe_benchmark(attempt, paths),
        accuracy_log=str(accuracy_log),
        output=str(attempt.output),
        counter=str(attempt.counter),
        settings=dict(attempt.intent.settings.values),
        inputs=inputs,
        shown=shown.stems if shown else (),
        shown_folder=shown.folder if shown else "",
    )
