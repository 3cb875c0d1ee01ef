"""Identify the TensorRT installation, and handle all differences between versions and flavours.

- 8.x: a network must request an explicit batch axis, precisions are flags, contexts may share a profile only after a
  preview feature is on, and the memory of a context is set as a property.
- From 10: networks are strongly typed (the ONNX file defines the type of each computation), profiles are shared, and
  builds report their progress. From 11 the old names are gone.
- TensorRT for RTX: like 10 and later, under another module name; it builds on machines without a GPU.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.backends import BackendEngine
from harness.child.digests import hash_files
from harness.contract import Fact, as_evidence
from harness.cuda.nvml import collect_device_evidence
from harness.errors import HarnessError

_MODULES = {"tensorrt": ("tensorrt", "tensorrt_bindings"), "tensorrt-rtx": ("tensorrt_rtx", "tensorrt_rtx_bindings")}
_FIRST_FLAGS = 8601  # the parser's flags for instance normalisation
_FIRST_TYPED = 10
_LIBRARIES = re.compile(r"lib(nvinfer|nvonnxparser|tensorrt)[^/]*\.so[^/]*$")
_TABLES = "builder_resource"  # kernels for all devices: a gigabyte that only builds read


class Flavour:
    """An imported TensorRT. ``name``: the backend's name."""

    def __init__(self, name: str, module: Any) -> None:
        self.name, self.trt = name, module
        self.version = str(module.__version__)
        self.numbers = parse_version_numbers(self.version)

    @property
    def strongly_typed(self) -> bool:
        return self.name != "tensorrt" or self.numbers[0] >= _FIRST_TYPED

    def facts(self) -> dict[str, Fact]:
        used = _list_libraries()
        digest = hash_files(Path("/"), used) if used else ""
        values = {"backend.version": self.version, "backend.flavour": self.name, "backend.digest": digest}
        return as_evidence(values) | collect_device_evidence()

    def create_network(self, builder: Any) -> Any:
        flag = self.trt.NetworkDefinitionCreationFlag
        return builder.create_network(1 << int(flag.STRONGLY_TYPED if self.strongly_typed else flag.EXPLICIT_BATCH))

    def create_parser(self, network: Any, logger: Any) -> Any:
        parser = self.trt.OnnxParser(network, logger)
        flag = self._instance_flag
        if flag is not None and self.normalises_instances:
            parser.set_flag(flag)
        return parser

    @cached_property
    def normalises_instances(self) -> bool:
        """Return True if instance normalisation needs no plug-in. Before 8.6.1 it needs a cuDNN plug-in, from then on
        only by default, and from 10 on never. The library itself is checked as well, because setting a flag that 8.6.0
        does not have ends the process."""
        return self.strongly_typed or (self._instance_flag is not None and find_library_version() >= _FIRST_FLAGS)

    @property
    def _instance_flag(self) -> Any:
        return getattr(getattr(self.trt, "OnnxParserFlag", None), "NATIVE_INSTANCENORM", None)

    def set_precision(self, config: Any, precision: str) -> None:
        """Set the types that the builder may choose, if the network is not strongly typed."""
        if self.strongly_typed:
            return
        flag = self.trt.BuilderFlag
        wanted = {"fp16": ["FP16"], "bf16": ["BF16"], "int8": ["FP16", "INT8"], "fp8": ["FP16", "FP8"]}
        for name in wanted.get(precision, []):
            config.set_flag(getattr(flag, name))

    def builds(self, precision: str) -> bool:
        names = self.trt.BuilderFlag.__members__
        return self.strongly_typed or {"bf16": "BF16" in names, "fp8": False}.get(precision, True)

    def share_profiles(self, config: Any) -> None:
        """Let several contexts use one profile at once; the default from 10 on."""
        feature = getattr(self.trt.PreviewFeature, "PROFILE_SHARING_0806", None)
        if feature is not None and not self.strongly_typed:
            config.set_preview_feature(feature, True)

    def show_progress(self, config: Any, started: Callable[[int], None], step: Callable[[], None]) -> Any:
        """Call back at the start and at each step of the outermost phase. The result must exist during the build; None
        if this version does not report progress."""
        if not hasattr(self.trt, "IProgressMonitor"):
            return None
        config.progress_monitor = monitor = _make_monitor(self.trt, started, step)
        return monitor

    def create_context(self, engine: Any) -> Any:
        """Create a context that uses memory from us; None if the library fails."""
        strategy = getattr(self.trt, "ExecutionContextAllocationStrategy", None)
        if strategy is None:
            return engine.create_execution_context_without_device_memory()
        return engine.create_execution_context(strategy.USER_MANAGED)

    def get_context_bytes(self, engine: Any, profile: int) -> int:
        if hasattr(engine, "get_device_memory_size_for_profile_v2"):
            return int(engine.get_device_memory_size_for_profile_v2(profile))
        return int(engine.device_memory_size)

    def give_memory(self, context: Any, address: int, size: int) -> None:
        if hasattr(context, "set_device_memory"):
            context.set_device_memory(address, size)
        else:
            context.device_memory = address


def load_flavour(name: str) -> Flavour:
    """Import a flavour. Raises ImportError if none of its modules is installed."""
    *others, last = _MODULES[name]
    for module in others:
        try:
            return Flavour(name, importlib.import_module(module))
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
    return Flavour(name, importlib.import_module(last))


def parse_version_numbers(version: str) -> tuple[int, ...]:
    """Parse the leading number of each part: "10.16.1.11" is (10, 16, 1, 11)."""
    return tuple(int(found[0]) for found in (re.match(r"\d+", part) for part in version.split(".")) if found)


def find_library_version() -> int:
    """Return the library's own version, 8601 for 8.6.1 and 101300 for 10.13.0; 0 if none is loaded."""
    for path in _list_libraries():
        ask = getattr(ctypes.CDLL(str(path)), "getInferLibVersion", None)
        if ask is not None:
            return int(ask())
    return 0


def _list_libraries() -> list[Path]:
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    paths = {Path(line.split(maxsplit=5)[5]) for line in lines if line.count("/")}
    return sorted(path for path in paths if _LIBRARIES.search(path.name) and _TABLES not in path.name)


def _make_monitor(trt: Any, started: Callable[[int], None], step: Callable[[], None]) -> Any:
    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)
            self._outermost = ""

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            if not parent_phase:
                self._outermost = phase_name
                started(num_steps)

        def phase_finish(self, phase_name: str) -> None:
            """Do nothing, since the next phase starts again."""

        def step_complete(self, phase_name: str, step_number: int) -> bool:  # noqa: ARG002
            if phase_name == self._outermost:
                step()
            return True

    return Monitor()


_AMPERE = (8, 0)


@dataclass(frozen=True, slots=True)
class Here:
    """Versions and device of this machine."""

    flavour: str
    version: str
    capability: tuple[int, int]
    device: str


def refuse_misfit(engine: BackendEngine, here: Here, batch_size: int) -> None:
    """Raise HarnessError describing the first mismatch."""
    made = engine.settings.get("tensorrt", {})
    reason = _refuse_version(engine, made, here) or _refuse_capability(made, here)
    if reason:
        raise HarnessError(f"the engine does not fit: {reason[0]}", "input", reason[1])
    engine.require_batch(batch_size)


Reason = tuple[str, str] | None


def _refuse_version(engine: BackendEngine, made: Mapping[str, Any], here: Here) -> Reason:
    if made.get("flavour", here.flavour) != here.flavour:
        return f"it was built by {made['flavour']}, but this is {here.flavour}", "rebuild it here"
    if engine.version == here.version:
        return None
    wanted, have = parse_version_numbers(engine.version), parse_version_numbers(here.version)
    if made.get("version_compatible") and wanted[0] == have[0] and have >= wanted:
        return None
    return (
        f"it was built by TensorRT {engine.version}, but this is {here.version}",
        "rebuild it here, or build with version_compatible: true for later versions of one major version",
    )


def _refuse_capability(made: Mapping[str, Any], here: Here) -> Reason:
    wanted = tuple(made.get("compute_capability") or ())
    if not wanted:  # built without a device, for any that the library supports
        return None
    level = made.get("hardware_compatibility", "none")
    if wanted == here.capability or (level == "ampere_plus" and here.capability >= _AMPERE):
        return None
    return (
        f"it was built for compute capability {wanted[0]}.{wanted[1]}, {here.device} has "
        f"{here.capability[0]}.{here.capability[1]}",
        "rebuild it on such a device, or with hardware_compatibility: ampere_plus",
    )


# Forward TensorRT's messages to the child's log, and the errors to its result.


def empty_log(trt: Any, *, quiet: bool = False) -> Log:
    """Return this process's only log, emptied, since the library always uses the first logger it received."""
    name = str(trt.__name__)
    if name not in _LOGS:
        _LOGS[name] = Log(trt)
    log = _LOGS[name]
    log.errors.clear()
    log.quiet = quiet
    return log


class Log:
    """``logger``: the object that the library requires; ``errors``: its error messages, oldest first.

    ``quiet``: log only warnings and errors, since the library reports each of a run's many contexts.
    """

    def __init__(self, trt: Any) -> None:
        self.errors: list[str] = []
        self.quiet = False
        self.logger = _make_logger(trt, self)

    @property
    def last_error(self) -> str:
        return self.errors[-1] if self.errors else "no reason given"

    def take(self, severity: str, message: str) -> None:
        if severity in ("ERROR", "INTERNAL_ERROR"):
            self.errors.append(message)
        if severity != "VERBOSE" and not (self.quiet and severity == "INFO"):
            sys.stdout.write(f"TensorRT {severity.lower()}: {message}\n")


def _make_logger(trt: Any, log: Log) -> Any:
    class Logger(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, msg: str) -> None:
            log.take(severity.name, msg)

    return Logger()


_LOGS: dict[str, Log] = {}
