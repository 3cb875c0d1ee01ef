"""Check that an engine belongs on this machine, by its description, before anything is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.backends import BackendEngine
from harness.backends.tensorrt.versions import parse_version_numbers
from harness.errors import HarnessError

_AMPERE = (8, 0)


@dataclass(frozen=True, slots=True)
class Here:
    """Versions and device of this machine."""

    flavour: str
    version: str
    capability: tuple[int, int]
    device: str


def refuse_misfit(engine: BackendEngine, here: Here, batch_size: int) -> None:
    """Raises HarnessError naming the first thing that does not fit."""
    made = engine.settings.get("tensorrt", {})
    reason = _version(engine, made, here) or _capability(made, here) or _batch(engine, batch_size)
    if reason:
        raise HarnessError(f"the engine does not fit: {reason[0]}", "input", reason[1])


Reason = tuple[str, str] | None


def _version(engine: BackendEngine, made: Mapping[str, Any], here: Here) -> Reason:
    if made.get("flavour", here.flavour) != here.flavour:
        return f"it is made by {made['flavour']}, this is {here.flavour}", "build it again here"
    if engine.version == here.version:
        return None
    wanted, have = parse_version_numbers(engine.version), parse_version_numbers(here.version)
    if made.get("version_compatible") and wanted[0] == have[0] and have >= wanted:
        return None
    return (
        f"it is made by TensorRT {engine.version}, this is {here.version}",
        "build it again here, or build with version_compatible: true for later versions of one major version",
    )


def _capability(made: Mapping[str, Any], here: Here) -> Reason:
    wanted = tuple(made.get("compute_capability") or ())
    if not wanted:  # made where there was no device: for any that the library knows
        return None
    level = made.get("hardware_compatibility", "none")
    if wanted == here.capability or (level == "ampere_plus" and here.capability >= _AMPERE):
        return None
    return (
        f"it is made for compute capability {wanted[0]}.{wanted[1]}, {here.device} has "
        f"{here.capability[0]}.{here.capability[1]}",
        "build it again on such a device, or with hardware_compatibility: ampere_plus",
    )


def _batch(engine: BackendEngine, batch_size: int) -> Reason:
    if batch_size <= engine.batch_size:
        return None
    return (
        f"the run wants batches of {batch_size}, its largest profile holds {engine.batch_size}",
        f"set run.batch_size to {engine.batch_size} at most, or build with a larger engine.batch_size",
    )
