"""The rules of structure as tables, and the functions that apply them to imports.

A place is a folder or module at the top of ``reconciler/``. Modules are written without ``reconciler.`` where only that
package is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.architecture.source import Import, Module

# From top to bottom: a place imports from rows below its own, and in its own row only the TYPES of places to its right.
# The row of stages reads from the last to the first: each knows the types of the stages before it.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("cli",),
    ("render",),
    ("controller", "history"),
    ("importing",),
    ("reconcile",),
    ("publishing",),
    ("planning",),
    ("desired_cache",),
    ("tree",),
    ("record", "execute", "plan", "diff", "observed", "desired", "spec"),
    ("mlperf",),
    ("resource",),
    ("git_remotes", "git_history"),
    ("git",),
    ("git_process",),
    ("launch",),
    ("process",),
    ("files",),
    ("foreign",),
    ("quantities",),
    ("errors",),
)

# Modules that hold only the values which stages hand to each other.
TYPES = frozenset(
    {
        "spec.declared",
        "desired.state",
        "observed.state",
        "diff.change",
        "diff.claims",
        "diff.impact",
        "diff.timeline",
        "plan.plan",
        "execute.outcome",
        "record.objects",
        "tree.content",
        "tree.findings",
    }
)

# Places that show or decide on values: of the stages they know the types, never what makes them.
ONLY_TYPES_OF_STAGES = frozenset({"render"})

# The one module of harness that reconciler may import.
CONTRACT = "harness.contract"

# Pure: values in, values out. plan.saved reads and writes the file of a saved plan.
PURE = ("resource", "diff", "plan", "mlperf.loadgen", "mlperf.rules.ruleset")
NOT_PURE = ("plan.saved",)
WORLD = (
    *("reconciler.files", "reconciler.process", "reconciler.git", "reconciler.git_process"),
    *("os", "pathlib", "random", "shutil", "socket", "subprocess", "tempfile", "time"),
)

# A library or module of the standard library -> the only places of reconciler that import it.
DOORS: dict[str, tuple[str, ...]] = {
    "click": ("cli", "render"),
    "fcntl": ("files",),
    "fsspec": ("record.remote",),
    "git": ("git_process",),
    "pydantic": ("spec",),
    "pydantic_core": ("spec",),
    "rich": ("cli", "render"),
    "ruamel": ("spec", "mlperf.documents", "mlperf.rules.rounds"),
    "subprocess": ("process",),
    "watchdog": ("controller",),
}

# A heavy library -> the only modules (or folders) of harness that import it. Nothing in reconciler does, at any time.
# numpy is free within harness: every backend and benchmark hands arrays around.
HEAVY: dict[str, tuple[str, ...]] = {
    "cuda": ("harness.cuda.driver",),
    "cv2": ("harness.benchmarks.resnet50",),
    "mlperf_loadgen": ("harness.loadgen",),
    "numpy": ("harness",),
    "onnx": ("harness.benchmarks.digits", "harness.benchmarks.resnet50", "harness.quantization"),
    "onnxruntime": (
        "harness.backends.onnxruntime",
        "harness.backends.onnxruntime_cuda",
        "harness.quantization",
        "harness.benchmarks.resnet50",
    ),
    "openvino": ("harness.backends.openvino",),
    "pynvml": ("harness.cuda.nvml", "harness.machine"),
    "sklearn": ("harness.benchmarks.digits",),
    "tensorrt": ("harness.backends.tensorrt",),
    "tensorrt_rtx": ("harness.backends.tensorrt",),
    "torch": (),
}

# What is imported inside functions, so that `--help`, and `plan` on a warm cache, stay fast. Type checkers see these
# imports like any other.
SLOW: dict[str, str] = {
    "fsspec": "comes with an extra, only where a store elsewhere is opened",
    "importlib.metadata": "only for --version",
    "reconciler.cli.shared.crash_report": "only where there is a bug to report",
    "reconciler.desired.checks": "rules, only when the spec changed",
    "reconciler.desired.compile": "rules, only when the spec changed",
    "reconciler.desired.published": "rules, only when the spec changed",
    "reconciler.desired.requirements": "rules, only when the spec changed",
    "reconciler.git": "GitPython",
    "reconciler.git_history": "GitPython",
    "reconciler.mlperf.rules.rounds": "YAML, only when the spec changed",
    "reconciler.publishing.rendered_tree": "the renderer, only in a pass that acts",
    "reconciler.record.signing": "git's configuration, only where records are signed",
    "reconciler.render.bar": "rich",
    "reconciler.render.documents": "only where a command gives JSON",
    "reconciler.render.live": "rich",
    "reconciler.render.transfer_progress": "rich",
    "reconciler.spec.loading": "YAML and pydantic, only when the spec changed",
}

# Modules that import something else inside a function, and why. Everywhere else imports stand at the top.
LATE: dict[str, str] = {
    "harness.__main__": "one verb per process: a build loads no LoadGen",
    "harness.backends": "only the library of the backend that was asked for",
    "harness.backends.tensorrt.versions": "one of the names under which TensorRT is installed",
    "harness.build": "onnx and onnxruntime, only for a model that is quantized",
    "harness.cuda.nvml": "NVML, where it is installed",
    "harness.benchmarks": "only the benchmark that was asked for, which may be a user's own file",
    "harness.benchmarks.digits": "scikit-learn and onnx, only in the child that makes the dataset or the model",
    "harness.machine": "NVML, where it is installed",
    "harness.probe": "LoadGen, only when its seeds are asked for",
    "reconciler.cli.command_table": "only the command that was called: --help stays fast",
}


def direction(item: Import) -> str | None:
    """Which rule of the layers an import breaks; None when it breaks none."""
    importer, target = item.importer.name, item.target
    if importer.split(".")[0] == "harness":
        return "harness never imports reconciler" if within(target, "reconciler") else None
    if within(target, "harness"):
        return None if target == CONTRACT else f"of harness only {CONTRACT} may be imported"
    if not within(target, "reconciler") or target == "reconciler":
        return None
    return _between_places(_inner(importer), _inner(target))


def _between_places(importer: str, target: str) -> str | None:
    upper, lower = importer.split(".")[0], target.split(".")[0]
    if upper == "reconciler":
        return "reconciler/__init__.py imports nothing"
    if upper == lower:
        return None
    for place in (upper, lower):
        if place not in _ROW:
            return f"{place} has no layer: name it in LAYERS or move it"
    above, below = _ROW[upper], _ROW[lower]
    if below < above:
        return f"{lower} lies above {upper}"
    if below == above and target not in TYPES:
        return f"{upper} and {lower} lie side by side: only types may be imported, {sorted(TYPES)}"
    if below == above and LAYERS[above].index(lower) < LAYERS[above].index(upper):
        return f"{lower} comes after {upper}: not even its types"
    if upper in ONLY_TYPES_OF_STAGES and LAYERS[below] == _STAGES and target not in TYPES:
        return f"{upper} knows only the types of the stages, {sorted(TYPES)}"
    return None


_ROW = {place: row for row, places in enumerate(LAYERS) for place in places}
_STAGES = next(places for places in LAYERS if "plan" in places)


def purity(item: Import) -> str | None:
    importer = _inner(item.importer.name)
    if any(within(importer, place) for place in PURE) and not any(within(importer, place) for place in NOT_PURE):
        touched = [name for name in WORLD if within(item.target, name)]
        return f"pure code may not import {touched[0]}" if touched else None
    return None


def door(item: Import) -> str | None:
    places = DOORS.get(item.target.split(".")[0])
    if places is None or not within(item.importer.name, "reconciler"):
        return None
    if any(within(_inner(item.importer.name), place) for place in places):
        return None
    return f"{item.target.split('.')[0]} may be imported only in {', '.join(places)}"


def heavy(item: Import) -> str | None:
    library = item.target.split(".")[0]
    if library not in HEAVY or any(within(item.importer.name, place) for place in HEAVY[library]):
        return None
    return f"{library} may be imported only in {', '.join(HEAVY[library]) or 'no module'}"


def late(item: Import) -> str | None:
    if item.late and item.importer.name not in LATE and not any(within(item.target, slow) for slow in SLOW):
        return "an import inside a function, and neither is this slow to load (SLOW) nor the module a named door (LATE)"
    return None


def broken(items: Iterable[Import]) -> Iterator[str]:
    """One line for each broken rule: file:line, what imports what, the rule."""
    for item in items:
        for rule in (direction, purity, door, heavy, late):
            if problem := rule(item):
                yield f"{item.where}: {item.importer.name} imports {item.target or 'a computed module'}: {problem}"


def within(name: str, place: str) -> bool:
    return name == place or name.startswith(place + ".")


def _inner(name: str) -> str:
    return name.removeprefix("reconciler.")


def module(name: str, text: str) -> Module:
    """A module from its text, for testing the rules themselves."""
    return Module(name, name.replace(".", "/") + ".py", text)
