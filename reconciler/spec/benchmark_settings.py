"""Checks the settings of the dataset and the model of a built-in benchmark: an unknown one would change nothing but the
key, and a wrong value would be reported only once a child reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.errors import Problem
from reconciler.resource.inputs import Value
from reconciler.resource.quantities import is_whole
from reconciler.resource.settings import NO_HARDWARE
from reconciler.rules.benchmark_facts import BenchmarkFacts, SourceFacts, find_benchmark_facts
from reconciler.spec.checks import make_problem
from reconciler.spec.layers import Block, LayeredSetting
from reconciler.spec.names import give_advice
from reconciler.spec.quantities import show_quantity

# Defaults of a benchmark of MLPerf where the spec says nothing else: its official name, its weights, its types.

_INPUTS, _PRECISION, _QUANTIZED = "dataset.settings.dtype", "engine.precision", "model.settings.precision"
_WEIGHTS, _SPARSITY = "model.settings.weights", "model.settings.sparsity"


def add_facts(name: str, block: Block, facts: BenchmarkFacts) -> None:
    """Add the defaults of a benchmark of MLPerf, where the spec says nothing else."""
    known = {
        "benchmark.official": facts.find_official_name(name),
        "measurements.starting_weights_filename": facts.model.weights,
        "measurements.retraining": "No",
    }
    _add_known(block, facts, known)


def add_backend(block: Block, system: Mapping[str, Value]) -> None:
    """Add the backend for such a benchmark on processors, and on GPUs of NVIDIA, where it comes with an answer."""
    facts, accelerator = _find_facts(block), system.get("hardware.accelerator")
    if facts is None:
        return
    word = str(accelerator.value).lower() if accelerator else "none"
    backend = facts.backends.get("cpu" if word in NO_HARDWARE else "nvidia" if word.startswith("nvidia") else "")
    if backend:
        _add_known(block, facts, {"engine.backend": backend})


def add_types(block: Block) -> None:
    """Add the types that a cell of such a benchmark computes in, as its measurements have them."""
    facts = _find_facts(block)
    if facts is None:
        return
    names = (_INPUTS, _PRECISION, _QUANTIZED, _WEIGHTS, _SPARSITY)
    written = {key: str(block[key][0].value.value) for key in names if key in block}
    quantized = written.get(_WEIGHTS, written.get(_QUANTIZED, "fp32"))
    changes = [f"pruned to {written[_SPARSITY]} sparsity"] if _SPARSITY in written else []
    changes += [f"quantized to {quantized}"] if quantized != "fp32" else []
    known = {
        "measurements.input_data_types": _name_type(written.get(_INPUTS, facts.dataset.type)),
        "measurements.weight_data_types": quantized if quantized != "fp32" else written.get(_PRECISION, "fp32"),
        "measurements.weight_transformations": ", ".join(changes) or "none",
    }
    _add_known(block, facts, known)


def _find_facts(block: Block) -> BenchmarkFacts | None:
    code = block.get("benchmark.code")
    return find_benchmark_facts(str(code[0].value.value)) if code else None


def _name_type(dtype: str) -> str:
    """numpy's name of a type as submissions write it: "float32" is fp32."""
    return dtype.replace("float", "fp")


def _add_known(block: Block, facts: BenchmarkFacts, known: Mapping[str, str]) -> None:
    for name, value in known.items():
        block.setdefault(name, (LayeredSetting(Value(value, facts.origin), name),))


_NUMBER, _FLAG, _OTHER = "number", "flag", "other"  # of a setting: what it is, or else what it may be
# Settings that harness.quantization takes for any model of one network.
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
    """Nothing of a benchmark of the user's own, whose file alone knows what it reads."""
    code = settings.get("benchmark.code")
    if code is None or "benchmark.path" in settings or not any(".settings." in name for name in settings):
        return
    facts = find_benchmark_facts(str(code[0].value.value))
    if facts is not None:
        yield from _check(settings, "dataset", facts.dataset, {})
        usual = _OF_MODELS if facts.computed == "network" else {"precision": ("fp32",)}
        own = {"precision": facts.model.precisions} if facts.model.precisions else {}
        yield from _check(settings, "model", facts.model, {**usual, **own})


def _check(settings: Block, kind: str, facts: SourceFacts, usual: Mapping[str, Any]) -> Iterator[Problem]:
    if facts.settings is None:
        return
    known, prefix = {**usual, **facts.settings}, f"{kind}.settings."
    for name, layers in settings.items():
        if not name.startswith(prefix):
            continue
        own = name.removeprefix(prefix)
        if own in known:
            yield from _check_value(layers[0], own, known[own])
        else:
            fix = give_advice(own, known) if known else "take it out: it has none"
            yield make_problem(layers[0], f"{own} is not a setting of this {kind}", fix)


def _check_value(setting: LayeredSetting, name: str, wanted: Any) -> Iterator[Problem]:
    value: Any = setting.value.value
    shown_value = show_quantity(value)
    if wanted == _NUMBER and not (is_whole(value) and value >= 0):
        yield make_problem(
            setting, f"expected a number of 0 or more, not {shown_value}", f"write '{name}: 8', or take it out"
        )
    elif wanted == _FLAG and not isinstance(value, bool):
        yield make_problem(setting, f"expected true or false, not {shown_value}", f"write '{name}: true' or false")
    elif isinstance(wanted, tuple) and str(value) not in wanted:
        yield make_problem(setting, f"{shown_value} is not a valid {name}", give_advice(str(value), wanted))
