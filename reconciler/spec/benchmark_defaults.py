"""Defaults of a benchmark of MLPerf where the spec says nothing else: its official name, its weights, its types."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.resource.inputs import Value
from reconciler.resource.settings import NO_HARDWARE
from reconciler.rules.benchmark_facts import BenchmarkFacts, find_benchmark_facts
from reconciler.spec.layers import Block, LayeredSetting

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
