"""A model's quantization settings, with validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.errors import HarnessError


def read_count(settings: Mapping[str, Any], name: str, default: int = 0) -> int:
    """Read a non-negative number. Raises HarnessError for anything else."""
    value = settings.get(name, default)
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = -1
    if count < 0:
        problem = f"model.settings.{name} {value!r} is not a number of 0 or more"
        raise HarnessError(problem, "input", "use a number such as 64")
    return count


def read_flag(settings: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Read a flag. Quoted text is refused, because "false" would count as true."""
    value = settings.get(name, default)
    if not isinstance(value, bool):
        raise HarnessError(f"model.settings.{name} {value!r} is not true or false", "input", "write true or false")
    return value


def read_scale(value: Any) -> float:
    """Read the step of a quantized input; 0 for none. Raises HarnessError for anything else."""
    try:
        scale = float(value)
    except (TypeError, ValueError):
        scale = -1.0
    if not 0 <= scale < float("inf"):
        raise HarnessError(f"input_scale {value!r} is not a positive number", "input", 'write it as "0.03125"')
    return scale
