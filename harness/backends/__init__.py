"""Backends, the libraries that compute: the protocol of a session, which takes batches and completes them later. One
module or folder each, with its entry in ``harness.catalog.BACKENDS``.

A backend is a module with three functions (``Backend``); a loaded one is a ``Session``. The session owns streams,
staging memory, devices and its own completion threads. It takes *rows* of the resident samples rather than arrays, so
that it decides where samples live (host, pinned host, one or several devices) and how a batch is gathered. Batches may
complete in any order and on any thread.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from harness.contract import BACKENDS, Counter, Fact, Scenario, installing
from harness.errors import HarnessError
from harness.run.packing import Packing
from harness.run.qsl import Arrays, Rows

DESCRIPTION = "engine.json"

Token = list[int]
"""The LoadGen ids of a batch, one per row. A session hands it back and does not look inside."""

Outputs = Sequence[np.ndarray]
"""One array per output of the engine, on the host, one row per sample. Valid until the completion callback returns."""

Collate = Callable[[Arrays], Arrays]
"""Some samples -> what the engine is given for them, by name, each array as long as it comes out. Output rows are those
of the samples, in their order; more may follow."""

Completed = Callable[[Token, Outputs], None]
Failed = Callable[[Token, BaseException], None]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output: its shape without the batch axis (-1 where it varies) and its numpy dtype name."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendEngine:
    """Description of a built engine, kept as engine.json next to the engine file.

    ``batch_size`` is the largest batch. ``batch_sizes`` lists the only sizes that the engine computes; a session pads
    up to the next one. Empty: any size up to ``batch_size``.
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

    def document(self) -> dict[str, Any]:
        """As JSON: tensors become [name, shape, dtype]."""
        values = {name: getattr(self, name) for name in self.__slots__}
        for name in ("inputs", "outputs"):
            values[name] = [[tensor.name, list(tensor.shape), tensor.dtype] for tensor in values[name]]
        return {**values, "batch_sizes": list(self.batch_sizes), "format": 1}

    def write(self, folder: Path) -> None:
        text = json.dumps(self.document(), indent=1, sort_keys=True) + "\n"
        (folder / DESCRIPTION).write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, folder: Path, backend: str) -> BackendEngine:
        """Raises HarnessError when the folder holds no engine of this backend."""
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


FREE_BATCH = "export the model with a free batch axis, or set batch_size to the model's"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPlan:
    """Build an engine from ``model`` into the folder ``output``: an ONNX file or a torch.export program, as the backend
    takes it, with a free batch axis."""

    model: Path
    output: Path
    batch_size: int
    precision: str
    options: Mapping[str, Any]
    counter: Counter
    caches: Mapping[str, Path] = field(default_factory=dict)

    def refuse_fixed_batch(self, fixed: Collection[int], fix: str = FREE_BATCH) -> None:
        """``fixed``: the batches of inputs that have one. Raises HarnessError where that is another than asked for."""
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
        """Describe what was built. ``settings``: in addition to the options."""
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

    ``engine``: the folder of the Engine artifact, None where the backend builds none. ``threads`` 0 lets the backend
    decide. ``outputs``: the shapes that the benchmark declares, for a backend without an engine. Each submitted token
    is given to exactly one of ``completed`` and ``failed``, once, from any thread. ``folder``: of this attempt alone,
    removed after it.

    For a backend that reads a checkpoint as it runs: ``model``, the folder of the Model artifact; ``source``, what the
    spec names as its path; ``precision``; and of the benchmark ``pipeline``, how its pipeline runs, and ``shared``, the
    arrays that all samples have in common.

    ``collate``: what makes the inputs of a batch as it runs, on the thread of a stream; None where the resident samples
    are the inputs. ``packing``: how samples of different lengths are packed, for engines that take them so.

    ``service_url``, ``service_log``: as of a RunRequest.
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
        """The folder of what ``library`` computes with. Raises HarnessError where there is none."""
        if self.engine is None:
            raise HarnessError(f"{library} needs an engine", "input", "declare an engine for this benchmark")
        return self.engine

    @property
    def depth(self) -> int:
        """Batches that may be submitted and not completed: one per stream, and where no query waits for its answer as
        many again, so that a stream finds its next batch ready. A Server batch rather grows while it waits.
        """
        return self.streams if self.scenario == "Server" else 2 * self.streams


class Session(Protocol):
    """A loaded engine."""

    @property
    def batch_size(self) -> int:
        """The largest batch."""

    @property
    def sizes(self) -> Sequence[int]:
        """The batch sizes that are computed without padding, ascending; empty: all up to ``batch_size``."""

    @property
    def notes(self) -> Mapping[str, Any]:
        """Settings in use: threads, streams, precision, … A session may add to them until it is closed.

        What of it must be the same in all runs of a cell is an attribute ``evidence``, where there is any.
        """

    def place(self, samples: Arrays) -> None:
        """Make these the resident samples (input name -> C-contiguous array). Nothing is in flight during the call.

        A session that reads them anew in each batch, so that its caller may write rows which are not in flight, says so
        by an attribute ``reads_in_place``. If it turns out here that it cannot, the attribute is False afterwards.
        """

    def compute(self, rows: Rows) -> Outputs:
        """One batch on the calling thread, with the least latency. Never while batches are in flight.

        The outputs are valid until the next call. A session that never writes to them again says so by an attribute
        ``makes_new_outputs``.
        """

    def submit(self, rows: Rows, token: Token) -> None:
        """Start a batch of at most ``batch_size`` rows. Waits while ``depth`` are in flight; one thread calls it.

        A session that takes the rows of several batches, computes one after the other and completes them together, says
        so by an attribute ``takes_several``.
        """

    def ready(self) -> None:
        """Wait until a submit would not wait. Called on the thread that submits."""

    def drain(self) -> None:
        """Wait until nothing is in flight."""

    def close(self) -> None:
        """Free threads, memory and devices. Nothing is in flight."""


class Backend(Protocol):
    """A backend module."""

    def facts(self) -> dict[str, Fact]:
        """Which library this is: ``backend.version`` and ``backend.digest``, both evidence."""

    def build(self, plan: BuildPlan) -> BackendEngine:
        """Make the engine file under ``plan.output``; the caller writes the description."""

    def load(self, plan: LoadPlan) -> Session:
        """Load the engine and its streams."""


def load_backend(name: str) -> Backend:
    """Import a backend. Raises HarnessError when it is unknown, or its library is not installed or does not load."""
    known = {backend: facts.module for backend, facts in BACKENDS.items() if facts.module}
    if name not in known:
        raise HarnessError(f"unknown backend {name!r}", "input", f"use one of {', '.join(known)}")
    try:
        return cast(Backend, importlib.import_module(known[name]))
    except (ImportError, OSError, RuntimeError) as error:  # a library that it needs in turn may be what is missing
        extra = BACKENDS[name].extra
        raise HarnessError(f"backend {name} cannot be loaded: {error}", "missing", installing(extra)) from error


def match_samples(samples: Arrays, inputs: Sequence[Tensor]) -> list[np.ndarray]:
    """The arrays in the order of the engine's inputs. Raises HarnessError when name, shape or dtype does not fit.

    A single array fits a single input whatever their names are.
    """
    if len(samples) == len(inputs) == 1:
        arrays = list(samples.values())
    else:
        missing = [tensor.name for tensor in inputs if tensor.name not in samples]
        if missing:
            problem = f"the dataset has no array for input {missing[0]}; it has {', '.join(samples)}"
            raise HarnessError(problem, "input", "name the arrays of load_samples() like the model's inputs")
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
                "make preprocessing and model agree",
            )
    return arrays
