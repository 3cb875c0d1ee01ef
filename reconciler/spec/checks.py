"""Checks of one cell after layering: what its backend takes, and values that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.catalog import BACKENDS, BackendFacts, Option
from reconciler.errors import Problem
from reconciler.resource.quantities import is_whole
from reconciler.resource.settings import COMMAND
from reconciler.rules.benchmark_facts import BenchmarkFacts, find_benchmark_facts
from reconciler.spec.layers import Block, LayeredSetting
from reconciler.spec.names import find_nearest, give_advice
from reconciler.spec.quantities import show_quantity
from reconciler.spec.validation import explain_foreign

_ORDERED = (
    ("min_duration", "max_duration"),
    ("min_query_count", "max_query_count"),
    ("run.batch_size", "engine.batch_size"),
)


def check_cell(settings: Block) -> Iterator[Problem]:
    """Problems of a cell that has a backend, each where the wrong value is written: cells that share it share them."""
    for lower, upper in _ORDERED:
        yield from _check_order(settings, lower, upper)
    backend = str(settings["engine.backend"][0].value.value)
    facts = BACKENDS[backend]
    precision = settings.get("engine.precision")
    if precision is not None and precision[0].value.value not in facts.precisions:
        written = str(precision[0].value.value)
        fix = f"{_quantized(facts, written) or give_advice(written, facts.precisions)}{_other_backends(written)}"
        yield make_problem(precision[0], f"backend {backend} does not compute in {written}", fix)
    if facts.serves and "run.options.url" in settings and "run.options.model" not in settings:
        listing = "GET /v1/models" if facts.generates else "POST /v2/repository/index"
        fix = f"write 'run: {{options: {{model: NAME}}}}'; {listing} of the server lists the names"
        yield make_problem(settings["run.options.url"][0], "a server's address does not say which model it serves", fix)
    yield from _check_weights(settings, backend, facts)
    yield from _check_model(settings, backend, facts)
    for name, layers in settings.items():
        if ".options." not in name:
            continue
        for part, other in (("engine", "run"), ("run", "engine")):
            prefix = f"{part}.options."
            if name.startswith(prefix):
                yield from _check_option(layers[0], name.removeprefix(prefix), backend, part, other)


def _check_weights(settings: Block, backend: str, facts: BackendFacts) -> Iterator[Problem]:
    """A model whose weights have fewer bits than this backend reads."""
    if "model.settings.weights" not in settings:
        return
    asked = settings["model.settings.weights"][0]
    kind = str(asked.value.value)
    if facts.builds_engine and kind not in facts.weights:
        able = [name for name, other in BACKENDS.items() if kind in other.weights]
        why = f"backend {backend} does not read weights of type {kind}"
        yield make_problem(asked, why, f"choose backend {' or '.join(able)}" if able else 'write "int4"')


def can_compute(facts: BackendFacts, benchmark: BenchmarkFacts) -> bool:
    """True where a backend reads such a model, and takes such inputs: token ids, sounds, messages."""
    asked = benchmark.model.inputs
    taken = not facts.takes or not asked or not set(facts.takes).isdisjoint(asked)
    return facts.computes(benchmark.computed) and taken


def _check_model(settings: Block, backend: str, facts: BackendFacts) -> Iterator[Problem]:
    """A built-in benchmark that this backend cannot compute. What a command makes of it is its own affair."""
    code = settings.get("benchmark.code")
    known = find_benchmark_facts(str(code[0].value.value)) if code is not None else None
    if known is None or "benchmark.path" in settings or COMMAND in settings or can_compute(facts, known):
        return
    able = [name for name, other in BACKENDS.items() if not _computes_nothing(other) and can_compute(other, known)]
    message = f"backend {backend} cannot compute {known.code}, {_KINDS[known.computed]}"
    if facts.computes(known.computed):
        message = f"backend {backend} takes no {next(iter(known.model.inputs))}, which {known.code} asks with"
    fix = f"choose backend {' or '.join(able)}, or run it through `harness: {{command: …}}`"
    yield make_problem(settings["engine.backend"][0], message, fix)


_KINDS = {
    "network": "a network in ONNX",
    "program": "a program for PyTorch",
    "pipeline": "a pipeline of diffusers",
    "tokens": "which answers with tokens",
}


def _computes_nothing(facts: BackendFacts) -> bool:
    return facts.synthetic or not (facts.distributions or facts.builds_engine)


def make_problem(setting: LayeredSetting, message: str, fix: str) -> Problem:
    origin = setting.value.origin
    return Problem(origin.file, origin.line, origin.column, setting.path, message, fix)


def _check_order(settings: Block, lower: str, upper: str) -> Iterator[Problem]:
    if lower not in settings or upper not in settings:
        return
    low, high = settings[lower][0], settings[upper][0]
    # A maximum of zero means no bound to LoadGen.
    if 0 < int(high.value.value) < int(low.value.value):
        message = f"{lower} is greater than {upper} ({high.value.origin})"
        yield make_problem(low, message, f"lower {lower} or raise {upper}")


def _quantized(facts: BackendFacts, precision: str) -> str:
    """int8 is part of the model: a backend that does not ask for it computes what the model's Q/DQ nodes say."""
    if precision != "int8" or not facts.builds_engine:
        return ""
    return (
        "take it out and set 'model: {settings: {precision: int8}}', which quantizes the model, "
        "or use a model with Q/DQ nodes"
    )


def _other_backends(precision: str) -> str:
    able = [name for name, facts in BACKENDS.items() if precision in facts.precisions]
    return f", or choose backend {' or '.join(able)}" if able else ""


def _options(facts: BackendFacts, part: str) -> Mapping[str, Option[Any]]:
    return facts.engine if part == "engine" else facts.run


def _check_option(setting: LayeredSetting, name: str, backend: str, part: str, other: str) -> Iterator[Problem]:
    facts = BACKENDS[backend]
    if part == "run" and name in ("streams", "threads"):
        yield make_problem(setting, f"{name} is a setting of run, not an option", f"write 'run: {{{name}: …}}'")
        return
    known = {key: value for key, value in _options(facts, part).items() if key not in ("streams", "threads")}
    if name in known:
        yield from _check_value(setting, name, known[name])
        return
    message = f"backend {backend} has no {part} option {name}"
    if name in _options(facts, other):
        fix = f"write it under {other}: options"
    elif foreign := explain_foreign(name):
        fix = foreign[1]
    elif known:
        fix = give_advice(name, known)
    else:
        able = [key for key, found in BACKENDS.items() if find_nearest(name, _options(found, part))]
        fix = f"take it out{f', or choose backend {able[0]}' if able else f' ({backend} has no {part} options)'}"
    yield make_problem(setting, message, fix)


def _check_value(setting: LayeredSetting, name: str, option: Option[Any]) -> Iterator[Problem]:
    value: Any = setting.value.value
    if option.choices and value not in option.choices:
        yield make_problem(
            setting, f"{show_quantity(value)} is not a valid {name}", give_advice(str(value), option.choices)
        )
    elif type(option.default) is int and not is_whole(value):
        yield make_problem(
            setting, f"expected a whole number, not {show_quantity(value)}", f"write '{name}: {option.default}'"
        )
    elif type(option.default) is bool and not isinstance(value, bool):
        yield make_problem(
            setting, f"expected true or false, not {show_quantity(value)}", f"write '{name}: true' or false"
        )
    elif type(option.default) is str and not isinstance(value, str):
        yield make_problem(setting, f"expected text, not {show_quantity(value)}", "write the text in quotes")
