"""Summary of a built engine: layers and the types they compute in, from TensorRT's engine inspector."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

_TYPES = ("FP8", "BF16", "BFloat16", "Half", "FP16", "Float", "FP32", "Int8", "Int32", "Int64", "Bool", "Int4", "FP4")
_WEIGHTS = ("ConvWeights", "Weights", "Kernel")
_TYPE = re.compile(rf"\b({'|'.join(_TYPES)})\b", re.IGNORECASE)


def inspect(trt: Any, engine: Any, context: Any) -> dict[str, Any]:
    """``context``: with shapes set, without which a dynamic engine does not give its formats. Empty where the engine
    gives nothing.
    """
    inspector = engine.create_engine_inspector()
    inspector.execution_context = context
    try:
        # Names of fused layers hold control characters.
        document = json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON), strict=False)
    except ValueError:
        return {}
    return summary(document.get("Layers") or [])


def summary(layers: list[str | Mapping[str, Any]]) -> dict[str, Any]:
    """``layers``: how many; ``types``: how many of each kind; ``outputs``: how many give each data type;
    ``precisions``: layer name -> type of its first output."""
    described = [layer for layer in layers if isinstance(layer, Mapping)]
    precisions = {str(layer.get("Name", "")): parse_precision(layer) for layer in described}
    return {
        "layers": len(layers),
        "types": dict(sorted(Counter(str(layer.get("LayerType", "")) for layer in described).items())),
        "outputs": dict(sorted(Counter(precisions.values()).items())),
        "precisions": precisions,
    }


def parse_precision(layer: Mapping[str, Any]) -> str:
    """ "Int8" of "Thirty-two wide channel vectorized row major Int8 format", else the type of the weights, else ""."""
    outputs = layer.get("Outputs") or []
    first = outputs[0] if outputs else {}
    found_weights = (layer.get(name) for name in _WEIGHTS)
    weights: Mapping[str, Any] = next((item for item in found_weights if isinstance(item, Mapping)), {})
    for description in (first.get("Format/Datatype", first.get("Format", "")), weights.get("Type", "")):
        if found := _TYPE.search(str(description)):
            return found[1]
    return ""
