"""Places of datasets and models of MLPerf for a spec without paths: in the scratch space that guides of submitters
have.

A location never enters a key, so that another machine, or none of it being there, changes nothing but where is looked.
"""

from __future__ import annotations

import os

from reconciler.resource.inputs import Origin, Value
from reconciler.rules.benchmark_files import SCRATCH_DEFAULTS, SCRATCH_VARIABLE, BenchmarkFiles
from reconciler.spec.layers import Block, LayeredSetting
from reconciler.spec.locations import Variables
from reconciler.spec.quantities import UnfitError, show_quantity

PREPARED = "preprocessed_data/mlperf-reconciler"


def add_scratch_places(block: Block, files: BenchmarkFiles, variables: Variables, looked: dict[str, bool]) -> None:
    """Unwritten ``dataset.path`` and ``model.path``: the first place that is there, else the first of all, with every
    place that was looked at. ``looked``: learns which of them is there. Raises UnfitError where the variable does not
    name a place."""
    root, origin = _find_root(variables, looked)
    for kind, places in (("dataset", files.datasets), ("model", files.models)):
        if f"{kind}.path" in block:
            continue
        paths = [variables.expand(f"{root}/{place}") for place in places]
        found = next((path for path in paths if _is_there(path, looked)), paths[0])
        _put(block, f"{kind}.path", found, origin)
        _put(block, f"{kind}.looked_for", ", ".join(paths), origin)
    if variables.environment.get(SCRATCH_VARIABLE):
        _put(block, "dataset.prepared", variables.expand(f"{root}/{PREPARED}"), origin)


def _find_root(variables: Variables, looked: dict[str, bool]) -> tuple[str, Origin]:
    """As a location is written: with the variable where it is set."""
    named = variables.environment.get(SCRATCH_VARIABLE)
    if named:
        # A commit is read without any machine: there each variable is left as it is.
        if not named.startswith(("/", "${")):
            what = f"{SCRATCH_VARIABLE} is {show_quantity(named)}, which is not an absolute path"
            raise UnfitError(what, f"export {SCRATCH_VARIABLE}=/path/to/it, or write dataset.path and model.path")
        return f"${{{SCRATCH_VARIABLE}}}", Origin(SCRATCH_VARIABLE)
    variables.read[SCRATCH_VARIABLE] = named
    found = next((path for path in SCRATCH_DEFAULTS if _is_there(path, looked)), SCRATCH_DEFAULTS[0])
    return found, Origin(f"{SCRATCH_VARIABLE} of the guides")


def _is_there(path: str, looked: dict[str, bool]) -> bool:
    if path not in looked:
        looked[path] = os.path.exists(path)  # noqa: PTH110  as the door of the compiled spec looks again
    return looked[path]


def _put(block: Block, name: str, value: str, origin: Origin) -> None:
    block[name] = (LayeredSetting(Value(value, origin), name),)
