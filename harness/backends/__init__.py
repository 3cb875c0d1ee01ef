"""Backends, which wrap the computing libraries, and the protocol of their sessions, which accept batches and complete
them later. Each backend is a module or folder with an entry in ``harness.catalog.BACKENDS``.

A backend is a module with three functions (``Backend``); a loaded one is a ``Session``. The session owns streams,
staging memory, devices and its own completion threads. It takes *rows* of the resident samples rather than arrays, so
that it decides where samples live (host, pinned host, one or several devices) and how a batch is gathered. Batches may
complete in any order and on any thread.
"""

from __future__ import annotations

import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, cast

import numpy as np

from harness.child.digests import hash_files
from harness.contract import BACKENDS, Counter, Fact, Scenario, as_evidence, show_install
from harness.errors import HarnessError
from harness.run.packing import Packing
from harness.run.pool import BatchRoom, Pool
from harness.run.qsl import Arrays, Rows, count_rows

DESCRIPTION = "engine.json"

Token = list[int]
"""The LoadGen ids of a batch, one per row. A session returns it unchanged and never reads it."""

Outputs = Sequence[np.ndarray]
"""One array per output of the engine, on the host, one row per sample. Valid until the completion callback returns."""

Collate = Callable[[Arrays], Arrays]
"""Maps samples to the engine's inputs by name; each array may have any length. The first output rows belong to the
samples, in their order; more rows may follow."""

Completed = Callable[[Token, Outputs], None]
Failed = Callable[[Token, BaseException], None]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output, with its shape without the batch axis (-1 for varying axes) and its numpy dtype name."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendEngine:
    """Description of a built engine, stored as engine.json next to the engine file.

    ``batch_size``: the largest batch. ``batch_sizes``: the only sizes that the engine computes, to which sessions pad;
    empty if it computes any size up to ``batch_size``.
    """

    backend: str
    version: str
    file: str
    precision: str
    batch_size: int
    batch_sizes: tuple[int, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    settings: dict[str, Any] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """Convert to JSON: tensors become [name, shape, dtype]."""
        values = {name: getattr(self, name) for name in self.__slots__}
        for name in ("inputs", "outputs"):
            values[name] = [[tensor.name, list(tensor.shape), tensor.dtype] for tensor in values[name]]
        return {**values, "batch_sizes": list(self.batch_sizes), "format": 1}

    def write(self, folder: Path) -> None:
        text = json.dumps(self.describe(), indent=1, sort_keys=True) + "\n"
        (folder / DESCRIPTION).write_text(text, encoding="utf-8")

    def require_batch(self, size: int) -> None:
        """Raise HarnessError if the engine does not support batches of this size."""
        if size > self.batch_size:
            problem = f"the run needs batches of {size}, but the engine supports {self.batch_size}"
            raise HarnessError(problem, "input", "lower run.batch_size, or build with a larger engine.batch_size")

    @classmethod
    def read(cls, folder: Path, backend: str) -> BackendEngine:
        """Read the description. Raises HarnessError if the folder has no engine of this backend."""
        try:
            document = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
            if document.pop("format") != 1 or document["backend"] != backend:
                raise ValueError(f"made for backend {document.get('backend')!r}")
            for name in ("inputs", "outputs"):
                document[name] = tuple(Tensor(item[0], tuple(item[1]), item[2]) for item in document[name])
            document["batch_sizes"] = tuple(document["batch_sizes"])
            return cls(**document)
        except (OSError, ValueError, KeyError, TypeError) as error:
            problem = f"{folder} has no engine for {backend}: {error}"
            raise HarnessError(problem, "input", "build the engine again") from error


FREE_BATCH = "export the model with a dynamic batch axis, or set batch_size to the model's"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPlan:
    """Build an engine into the folder ``output`` from ``model``: an ONNX file or a torch.export program, depending on
    the backend, with a free batch axis."""

    model: Path
    output: Path
    batch_size: int
    precision: str
    options: Mapping[str, Any]
    counter: Counter
    caches: Mapping[str, Path] = field(default_factory=dict)

    def refuse_fixed_batch(self, fixed: Collection[int], fix: str = FREE_BATCH) -> None:
        """Raise HarnessError if a fixed batch size of an input, in ``fixed``, differs from the requested size."""
        if fixed and set(fixed) != {self.batch_size}:
            problem = f"{self.model.name} has a fixed batch of {sorted(fixed)}, not {self.batch_size}"
            raise HarnessError(problem, "input", fix)

    def describe_engine(
        self,
        backend: str,
        version: str,
        file: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        batch_sizes: Collection[int] = (),
        **settings: Any,
    ) -> BackendEngine:
        """Describe the built engine. ``settings``: those to add to the options."""
        return BackendEngine(
            backend=backend,
            version=version,
            file=file,
            precision=self.precision,
            batch_size=self.batch_size,
            batch_sizes=tuple(batch_sizes),
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            settings={**self.options, **settings},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Load an engine for one run.

    ``engine``: the folder of the Engine artifact, None if the backend builds none. ``threads``: 0 lets the backend
    decide. ``outputs``: the shapes that the benchmark declares, for a backend without an engine. Each submitted token
    is passed to exactly one of ``completed`` and ``failed``, once, from any thread. ``folder``: used only by this
    attempt, and removed after it.

    For a backend that reads a checkpoint during the run: ``model``, the folder of the Model artifact; ``source``, its
    path from the spec; ``precision``; and from the benchmark ``pipeline``, the settings of its pipeline, and
    ``shared``, the arrays shared by all samples.

    ``collate``: creates the inputs of a batch during the run, on a stream's thread; None if the resident samples are
    the inputs. ``packing``: how samples of different lengths are packed, for engines that support it.

    ``service_url``, ``service_log``: as in a RunRequest.
    """

    engine: Path | None
    scenario: Scenario
    batch_size: int
    streams: int
    threads: int
    outputs: Sequence[Tensor]
    options: Mapping[str, Any]
    completed: Completed
    failed: Failed
    folder: Path = field(default_factory=Path.cwd)
    model: Path | None = None
    source: Path | None = None
    precision: str = "fp32"
    pipeline: Mapping[str, Any] = field(default_factory=dict)
    shared: Mapping[str, np.ndarray] = field(default_factory=dict)
    collate: Collate | None = None
    packing: Packing | None = None
    service_url: str = ""
    service_log: str = ""

    def require_engine(self, library: str) -> Path:
        """Return the folder of the engine for ``library``. Raises HarnessError if there is none."""
        if self.engine is None:
            raise HarnessError(f"{library} needs an engine", "input", "declare an engine for this benchmark")
        return self.engine

    @property
    def depth(self) -> int:
        """Return the maximum number of incomplete batches: one per stream, or twice as many if no query waits for its
        answer, so that a stream finds its next batch ready. A Server batch grows instead while it waits.
        """
        return self.streams if self.scenario == "Server" else 2 * self.streams


class Session(ABC):
    """A loaded engine.

    ``batch_size``: the largest batch. ``sizes``: the batch sizes computed without padding, ascending; empty: all up to
    ``batch_size``. ``notes``: settings in use (threads, streams, precision, …), to which a session may add until it is
    closed. ``evidence``: facts that must be the same in all runs of a cell.

    ``reads_in_place``: samples are read again for each batch, so that the caller may write rows that are not in flight;
    this is certain only once samples are placed. ``makes_new_outputs``: outputs are never overwritten.
    ``takes_several``: ``submit`` accepts the rows of several batches, which are computed one after the other and
    completed together. ``fits_by_size``: samples differ in size, and ``fit`` limits a batch. ``surely_fit``: how many
    samples fit in a batch, whatever their sizes. ``warm_up_batches``: the maximum for slow batches; 0 for the usual
    number.
    """

    batch_size: int
    sizes: Sequence[int] = ()
    notes: Mapping[str, Any]
    evidence: Mapping[str, Any] = MappingProxyType({})
    reads_in_place: bool = False
    makes_new_outputs: bool = False
    takes_several: bool = False
    fits_by_size: bool = False
    surely_fit: int = 0
    warm_up_batches: int = 0
    _room: BatchRoom | Pool[Any]  # limits the batches in flight; each session sets it, or replaces ready and drain

    @abstractmethod
    def place(self, samples: Arrays) -> None:
        """Make these the resident samples (input name -> C-contiguous array). Nothing is in flight during the call."""

    @abstractmethod
    def compute(self, rows: Rows) -> Outputs:
        """Compute one batch on the calling thread with the least latency, never while batches are in flight. The
        outputs are valid until the next call."""

    def warm_up(self, rows: Rows) -> Outputs:
        """Compute one batch before the run."""
        return self.compute(rows)

    def fit(self, rows: Rows) -> int:
        """Return how many of these samples, counted from the first, fit in a batch."""
        return min(count_rows(rows), self.batch_size)

    @abstractmethod
    def submit(self, rows: Rows, token: Token) -> None:
        """Start a batch of at most ``batch_size`` rows. Waits while ``depth`` are in flight; one thread calls it."""

    def ready(self) -> None:
        """Wait until a submit would not wait. Called on the thread that submits."""
        self._room.wait()

    def drain(self) -> None:
        """Wait until nothing is in flight."""
        self._room.drain()

    @abstractmethod
    def close(self) -> None:
        """Free threads, memory and devices. Nothing is in flight."""


class Backend(Protocol):
    """A backend module."""

    def facts(self) -> dict[str, Fact]:
        """Identify the library by ``backend.version`` and ``backend.digest``, both evidence."""

    def build(self, plan: BuildPlan) -> BackendEngine:
        """Create the engine file under ``plan.output``; the caller writes the description."""

    def load(self, plan: LoadPlan) -> Session:
        """Load the engine and its streams."""


def find_backend_version(name: str) -> str:
    """Return the version of the installed package of a backend; "" if there is none."""
    from harness.machine.facts import find_distribution_version  # imports psutil, which scoring does not need

    return find_distribution_version(*BACKENDS[name].distributions)


def collect_library_facts(version: str, folder: Path, files: Iterable[Path], **more: str) -> dict[str, Fact]:
    """Identify a library by its version and the content of its ``files`` in ``folder``."""
    return as_evidence({"backend.version": version, "backend.digest": hash_files(folder, files), **more})


def load_backend(name: str) -> Backend:
    """Import a backend. Raises HarnessError if it is unknown, or its library is not installed or cannot be loaded."""
    known = {backend: facts.module for backend, facts in BACKENDS.items() if facts.module}
    if name not in known:
        raise HarnessError(f"unknown backend {name!r}", "input", f"use one of {', '.join(known)}")
    try:
        return cast(Backend, importlib.import_module(known[name]))
    except (ImportError, OSError, RuntimeError) as error:  # a dependency of the library may be missing
        extra = BACKENDS[name].extra
        raise HarnessError(f"backend {name} cannot be loaded: {error}", "missing", show_install(extra)) from error


def match_samples(samples: Arrays, inputs: Sequence[Tensor]) -> list[np.ndarray]:
    """Return the arrays in the order of the engine's inputs. Raises HarnessError if name, shape or dtype does not
    match.

    A single array matches a single input regardless of their names.
    """
    if len(samples) == len(inputs) == 1:
        arrays = list(samples.values())
    else:
        missing = [tensor.name for tensor in inputs if tensor.name not in samples]
        if missing:
            problem = f"the dataset has no array for input {missing[0]}; it has {', '.join(samples)}"
            raise HarnessError(problem, "input", "give the arrays of load_samples() the names of the model's inputs")
        arrays = [samples[tensor.name] for tensor in inputs]
    for array, tensor in zip(arrays, inputs, strict=True):
        shape = array.shape[1:]
        fits = len(shape) == len(tensor.shape) and all(
            want in (-1, have) for want, have in zip(tensor.shape, shape, strict=True)
        )
        if not fits or array.dtype.name != tensor.dtype:
            raise HarnessError(
                f"input {tensor.name} of the engine takes {tensor.dtype} {list(tensor.shape)} per sample, "
                f"the dataset has {array.dtype.name} {list(shape)}",
                "input",
                "match preprocessing to the model",
            )
    return arrays
