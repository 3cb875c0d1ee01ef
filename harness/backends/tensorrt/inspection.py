"""What a build came to: layers and the types they compute in, from TensorRT's engine inspector."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

_TYPES = ("FP8", "BF16", "BFloat16", "Half", "FP16", "Float", "FP32", "Int8", "Int32", "Int64", "Bool", "Int4", "FP4")
_TYPE = re.compile(rf"\b({'|'.join(_TYPES)})\b", re.IGNORECASE)


def inspect(trt: Any, engine: Any) -> dict[str, Any]:
    """Empty where the engine tells nothing."""
    text = engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON)
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return summary(document.get("Layers") or [])


def summary(layers: list[str | Mapping[str, Any]]) -> dict[str, Any]:
    """``layers``: how many; ``types``: how many of each kind; ``outputs``: how many give each data type;
    ``precisions``: layer name -> type of its first output."""
    described = [layer for layer in layers if isinstance(layer, Mapping)]
    precisions = {str(layer.get("Name", "")): precision(layer) for layer in described}
    return {
        "layers": len(layers),
        "types": dict(sorted(Counter(str(layer.get("LayerType", "")) for layer in described).items())),
        "outputs": dict(sorted(Counter(precisions.values()).items())),
        "precisions": precisions,
    }


def precision(layer: Mapping[str, Any]) -> str:
    """ "Int8" of "Thirty-two wide channel vectorized row major Int8 format"; "" when it is not told."""
    outputs = layer.get("Outputs") or []
    first = outputs[0] if outputs else {}
    found = _TYPE.search(str(first.get("Format/Datatype", first.get("Format", ""))))
    return found[1] if found else ""
