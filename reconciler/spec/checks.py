"""Checks of one cell after layering: settings that its backend or benchmark does not accept, and contradictions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.benchmark_catalog import BENCHMARKS
from harness.catalog import BACKENDS, BackendFacts, Option
from reconciler.errors import Problem
from reconciler.loadgen import keys
from reconciler.resource.inputs import Value
from reconciler.resource.quantities import is_whole
from reconciler.resource.settings import BUILD, COMMAND, HARNESS, NO_HARDWARE, SERVICE
from reconciler.rules.benchmark_facts import BenchmarkFacts, SourceFacts, find_benchmark_facts
from reconciler.spec.declared import Declared
from reconciler.spec.layers import Block, LayeredSetting, get_text
from reconciler.spec.names import find_nearest, give_advice
from reconciler.spec.quantities import show_quantity
from reconciler.spec.validation import explain_foreign

# Missing code of declared commands. Only `validate` checks this, since a clone without the code renders the same tree,
# and a folder outside the repository may be on another machine.

_PLACES_OF_CODE = tuple(f"{part}.{name}" for part in (HARNESS, SERVICE, BUILD) for name in ("code", "configs"))


def find_absent_code(declared: Declared, root: Path) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """Find missing code: problems for the repository at ``root``, notes for other folders of this machine, each at its
    line."""
    problems: list[Problem] = []
    notes: list[str] = []
    for benchmark, name, setting, path in _list_places(declared):
        if os.path.lexists(root / path):
            continue
        origin, message = setting.origin, f"no such file or folder: {show_quantity(path)}"
        if os.path.isabs(path):  # noqa: PTH117
            notes.append(f"{origin}: {message} on this machine; runs of {benchmark} need it")
            continue
        fix = "correct the path (it is relative to the repository), or create it"
        where = f"spec.benchmarks.{benchmark}.{name}"
        problems.append(origin.make_problem(where, message, fix))
    return tuple(dict.fromkeys(problems)), tuple(dict.fromkeys(notes))


def _list_places(declared: Declared) -> Iterator[tuple[str, str, Value, str]]:
    """Yield (benchmark, name of the setting, setting, path), without paths that contain variables or placeholders."""
    for cell in declared.cells:
        for name in _PLACES_OF_CODE:
            if (setting := cell.settings.get(name)) is None:
                continue
            for path in (setting.value,) if isinstance(setting.value, str) else setting.value:
                if "$" not in str(path) and "{" not in str(path):
                    yield cell.cell.benchmark, name, setting, str(path)


# Add an MLPerf benchmark's defaults for values that the spec does not set: official name, weights, types.

_INPUTS, _PRECISION, _QUANTIZED = "dataset.settings.dtype", "engine.precision", "model.settings.precision"
_WEIGHTS, _SPARSITY = "model.settings.weights", "model.settings.sparsity"


def add_facts(name: str, block: Block, facts: BenchmarkFacts) -> None:
    """Add the benchmark's defaults for values that the spec does not set."""
    known = {
        "benchmark.official": facts.find_official_name(name),
        "measurements.starting_weights_filename": facts.model.weights,
        "measurements.retraining": "No",
    }
    _add_known(block, facts, known)


def add_backend(block: Block, system: Mapping[str, Value]) -> None:
    """Add the default backend for the benchmark on CPUs or on NVIDIA GPUs, if there is one."""
    facts, accelerator = _find_facts(block), system.get("hardware.accelerator")
    if facts is None:
        return
    word = str(accelerator.value).lower() if accelerator else "none"
    backend = facts.backends.get("cpu" if word in NO_HARDWARE else "nvidia" if word.startswith("nvidia") else "")
    if backend:
        _add_known(block, facts, {"engine.backend": backend})


def add_types(block: Block) -> None:
    """Add the data types of the cell's computation, as published in its measurements."""
    facts = _find_facts(block)
    if facts is None:
        return
    names = (_INPUTS, _PRECISION, _QUANTIZED, _WEIGHTS, _SPARSITY)
    written = {key: get_text(block, key) for key in names if key in block}
    quantized = written.get(_WEIGHTS, written.get(_QUANTIZED, "fp32"))
    changes = [f"pruned to {written[_SPARSITY]} sparsity"] if _SPARSITY in written else []
    changes += [f"quantized to {quantized}"] if quantized != "fp32" else []
    known = {
        # A numpy type, under the name used in submissions: "float32" is fp32.
        "measurements.input_data_types": written.get(_INPUTS, facts.dataset.type).replace("float", "fp"),
        "measurements.weight_data_types": quantized if quantized != "fp32" else written.get(_PRECISION, "fp32"),
        "measurements.weight_transformations": ", ".join(changes) or "none",
    }
    _add_known(block, facts, known)


def _find_facts(block: Block) -> BenchmarkFacts | None:
    return find_benchmark_facts(get_text(block, "benchmark.code")) if "benchmark.code" in block else None


def _add_known(block: Block, facts: BenchmarkFacts, known: Mapping[str, str]) -> None:
    for name, value in known.items():
        block.setdefault(name, (LayeredSetting(Value(value, facts.origin), name),))


_NUMBER, _FLAG, _OTHER = "number", "flag", "other"  # expected kinds of values
# Settings that harness.quantization accepts for any single-network model.
_OF_MODELS: Mapping[str, Any] = {
    "precision": ("fp32", "fp16", "bf16", "int8", "fp8"),
    "weights": _OTHER,
    "weight_block": _NUMBER,
    "sparsity": ("2:4",),
    "calibration_method": _OTHER,
    "calibration_count": _NUMBER,
    "quantize_residuals": _FLAG,
    "half_inputs": _FLAG,
    "input_scale": _OTHER,
    "compare_count": _NUMBER,
    "score_count": _NUMBER,
}


def check_benchmark_settings(settings: Block) -> Iterator[Problem]:
    """Check the settings of a built-in benchmark: an unknown one would only change the key, and a wrong value would be
    reported only when a child process reads it. What a user's own benchmark reads is defined only in its file."""
    if "benchmark.path" in settings or not any(".settings." in name for name in settings):
        return
    facts = _find_facts(settings)
    if facts is not None:
        yield from _check_source(settings, "dataset", facts.dataset, {})
        usual = _OF_MODELS if facts.computed == "network" else {"precision": ("fp32",)}
        own = {"precision": facts.model.precisions} if facts.model.precisions else {}
        yield from _check_source(settings, "model", facts.model, {**usual, **own})


def _check_source(settings: Block, kind: str, facts: SourceFacts, usual: Mapping[str, Any]) -> Iterator[Problem]:
    if facts.settings is None:
        return
    known, prefix = {**usual, **facts.settings}, f"{kind}.settings."
    for name, layers in settings.items():
        if not name.startswith(prefix):
            continue
        own = name.removeprefix(prefix)
        if own in known:
            yield from _check_source_value(layers[0], own, known[own])
        else:
            fix = give_advice(own, known) if known else "remove it: no settings are supported here"
            yield layers[0].make_problem(f"{own} is not a setting of this {kind}", fix)


def _check_source_value(setting: LayeredSetting, name: str, wanted: Any) -> Iterator[Problem]:
    value: Any = setting.value.value
    shown, fix = show_quantity(value), f"write '{name}: 8', or remove it"
    if wanted == _NUMBER and not (is_whole(value) and value >= 0):
        yield setting.make_problem(f"expected a number of 0 or more, not {shown}", fix)
    elif wanted == _FLAG and not isinstance(value, bool):
        yield setting.make_problem(f"expected true or false, not {shown}", f"write '{name}: true' or false")
    elif isinstance(wanted, tuple) and str(value) not in wanted:
        yield setting.make_problem(f"{shown} is not a valid {name}", give_advice(str(value), wanted))


_ORDERED = (
    ("min_duration", "max_duration"),
    ("min_query_count", "max_query_count"),
    ("run.batch_size", "engine.batch_size"),
)


_PACED = "which starts each query when the one before has ended", "write target_latency, the latency that you expect"
# Scenario, a setting that LoadGen does not read in it, the reason, and the fix.
_INEFFECTIVE = (
    (keys.OFFLINE, keys.TARGET_LATENCY, "which has no latency limit", "remove it"),
    (keys.SINGLE_STREAM, keys.TARGET_QPS, *_PACED),
    (keys.MULTI_STREAM, keys.TARGET_QPS, *_PACED),
)


def check_cell(settings: Block) -> Iterator[Problem]:
    """Check a cell with a backend. Each problem is at the wrong value, so that cells that share it have one problem."""
    for lower, upper in _ORDERED:
        if lower in settings and upper in settings:
            low, high = settings[lower][0], settings[upper][0]
            if 0 < int(high.value.value) < int(low.value.value):  # for LoadGen, a maximum of 0 is no bound
                message = f"{lower} is greater than {upper} ({high.value.origin})"
                yield low.make_problem(message, f"lower {lower} or raise {upper}")
    backend, written = get_text(settings, "engine.backend"), get_text(settings, "engine.precision")
    facts = BACKENDS[backend]
    if written and written not in facts.precisions:
        fix = _suggest_quantized(facts, written) or give_advice(written, facts.precisions)
        able = [name for name, other in BACKENDS.items() if written in other.precisions]
        fix += f", or use backend {' or '.join(able)}" if able else ""
        yield settings["engine.precision"][0].make_problem(f"backend {backend} does not support {written}", fix)
    if facts.serves and "run.options.url" in settings and "run.options.model" not in settings:
        listing = "GET /v1/models" if facts.generates else "POST /v2/repository/index"
        fix = f"write 'run: {{options: {{model: NAME}}}}'; {listing} of the server lists the names"
        yield settings["run.options.url"][0].make_problem("run.url needs a model name", fix)
    for scenario, name, reason, fix in _INEFFECTIVE:
        if name in settings and settings[name][0].path.endswith(f".{scenario}.{name}"):
            yield settings[name][0].make_problem(f"{name} has no effect in {scenario}, {reason}", fix)
    kind = get_text(settings, _WEIGHTS)
    if _WEIGHTS in settings and facts.builds_engine and kind not in facts.weights:
        able = [name for name, other in BACKENDS.items() if kind in other.weights]
        why = f"backend {backend} does not read weights of type {kind}"
        yield settings[_WEIGHTS][0].make_problem(why, f"choose backend {' or '.join(able)}" if able else 'write "int4"')
    yield from _check_model(settings, backend, facts)
    for name, layers in settings.items():
        part, options, option = name.partition(".options.")
        if options and part in ("engine", "run"):
            yield from _check_option(layers[0], option, backend, part, "run" if part == "engine" else "engine")


def can_compute(facts: BackendFacts, benchmark: BenchmarkFacts) -> bool:
    """Return True if a backend can read the benchmark's model and accepts its inputs: token ids, sounds, messages."""
    asked = benchmark.model.inputs
    taken = not facts.takes or not asked or not set(facts.takes).isdisjoint(asked)
    return facts.computes(benchmark.computed) and taken


def _check_model(settings: Block, backend: str, facts: BackendFacts) -> Iterator[Problem]:
    """Refuse a built-in benchmark that this backend cannot compute. A command is not checked."""
    name = get_text(settings, "benchmark.code")
    known = _find_facts(settings)
    if known is None and name in BENCHMARKS and "benchmark.official" in settings:  # such as the benchmark digits
        entered = find_benchmark_facts(get_text(settings, "benchmark.official"))
        known = entered if entered is not None and entered.computed == "network" else None
    if known is None or "benchmark.path" in settings or COMMAND in settings or can_compute(facts, known):
        return
    computing = {n: other for n, other in BACKENDS.items() if other.distributions or other.builds_engine}
    able = [name for name, other in computing.items() if not other.synthetic and can_compute(other, known)]
    message = f"backend {backend} does not support {known.code}, {_KINDS[known.computed]}"
    if facts.computes(known.computed):
        message = f"backend {backend} takes no {next(iter(known.model.inputs))}, which {known.code} needs"
    fix = f"use backend {' or '.join(able)}, or `harness: {{command: …}}`"
    yield settings["engine.backend"][0].make_problem(message, fix)


_KINDS = {
    "network": "a network in ONNX",
    "program": "a program for PyTorch",
    "pipeline": "a pipeline of diffusers",
    "tokens": "which answers with tokens",
}


def _suggest_quantized(facts: BackendFacts, precision: str) -> str:
    """Suggest a fix for int8, which is a property of the model, since a backend that builds engines follows the model's
    Q/DQ nodes."""
    if precision != "int8" or not facts.builds_engine:
        return ""
    return (
        "remove it and set 'model: {settings: {precision: int8}}', which quantizes the model, "
        "or use a model with Q/DQ nodes"
    )


def _list_options(facts: BackendFacts, part: str) -> Mapping[str, Option[Any]]:
    return facts.engine if part == "engine" else facts.run


def _check_option(setting: LayeredSetting, name: str, backend: str, part: str, other: str) -> Iterator[Problem]:
    facts = BACKENDS[backend]
    if part == "run" and name in ("streams", "threads"):
        yield setting.make_problem(f"{name} is a setting of run, not an option", f"write 'run: {{{name}: …}}'")
        return
    known = {key: value for key, value in _list_options(facts, part).items() if key not in ("streams", "threads")}
    if name in known:
        yield from _check_value(setting, name, known[name])
        return
    message = f"backend {backend} has no {part} option {name}"
    if name in _list_options(facts, other):
        fix = f"write it under {other}: options"
    elif foreign := explain_foreign(name):
        fix = foreign[1]
    elif known:
        fix = give_advice(name, known)
    else:
        able = [key for key, found in BACKENDS.items() if find_nearest(name, _list_options(found, part))]
        fix = f"take it out{f', or use backend {able[0]}' if able else f' ({backend} has no {part} options)'}"
    yield setting.make_problem(message, fix)


def _check_value(setting: LayeredSetting, name: str, option: Option[Any]) -> Iterator[Problem]:
    value: Any = setting.value.value
    shown = show_quantity(value)
    if option.choices and value not in option.choices:
        yield setting.make_problem(f"{shown} is not a valid {name}", give_advice(str(value), option.choices))
    elif type(option.default) is int and not is_whole(value):
        yield setting.make_problem(f"expected a whole number, not {shown}", f"write '{name}: {option.default}'")
    elif type(option.default) is bool and not isinstance(value, bool):
        yield setting.make_problem(f"expected true or false, not {shown}", f"write '{name}: true' or false")
    elif type(option.default) is str and not isinstance(value, str):
        yield setting.make_problem(f"expected text, not {shown}", "write the text in quotes")
