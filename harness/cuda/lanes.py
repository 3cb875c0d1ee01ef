"""One batch in flight: its buffers, and its path through copy-in, compute and copy-out."""

from __future__ import annotations

import ctypes
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from harness.backends import Outputs, Tensor
from harness.contract import Scenario
from harness.cuda import driver
from harness.cuda.driver import CudaError, Device, DeviceMemory, DeviceMemoryError, Stream, copy, launch, synchronize
from harness.errors import HarnessError
from harness.machine.numa import list_processors, run_on
from harness.run.qsl import Rows, count_rows, find_runs

_MANY_ROWS, _LONG_RUN = 1024, 32
"""Batches of at least so many rows are searched for runs of neighbours. Each run is copied at once if their mean length
is at least the second number."""
_SMALL = 1 << 18  # bytes of outputs up to which a kernel is faster than a copy


@dataclass(frozen=True, slots=True)
class Streams:
    """Streams of a lane. Copies in and out have separate streams, so that they overlap with the computation of another
    batch."""

    copy_in: Stream
    compute: Stream
    copy_out: Stream


@dataclass(frozen=True, slots=True)
class Shapes:
    """Shapes of one sample. ``allowed``: the batch sizes that are computed."""

    inputs: tuple[tuple[int, ...], ...]
    input_bytes: tuple[int, ...]
    outputs: tuple[Tensor, ...]
    allowed: tuple[int, ...]

    @property
    def largest(self) -> int:
        return self.allowed[-1]

    @property
    def output_bytes(self) -> tuple[int, ...]:
        return tuple(prod(tensor.shape) * np.dtype(tensor.dtype).itemsize for tensor in self.outputs)

    @property
    def lane_bytes(self) -> int:
        """Device bytes of one lane's buffers."""
        return self.largest * (sum(self.input_bytes) + sum(self.output_bytes))


class Lane:
    """Buffers for one batch, and all operations on them. Not thread-safe."""

    def __init__(self, device: Device, loaded: LoadedEngine, shapes: Shapes, streams: Streams, *, spin: bool) -> None:
        self._streams, self._shapes = streams, shapes
        self._inputs = [device.allocate(shapes.largest * size) for size in shapes.input_bytes]
        self._outputs = [device.allocate(shapes.largest * size) for size in shapes.output_bytes]
        self._answers = [device.pin(shapes.largest * size) for size in shapes.output_bytes]
        self._arrays = [
            memory.view_array((shapes.largest, *tensor.shape), tensor.dtype)
            for memory, tensor in zip(self._answers, shapes.outputs, strict=True)
        ]
        self._row_memory, self._near_rows = device.pin(8 * shapes.largest), device.allocate(8 * shapes.largest)
        self._rows = self._row_memory.view_array((shapes.largest,), "int64")
        self._first_row = device.allocate(8)  # zero, for a gather of one row
        self._there, self._computed, self._done = (
            device.create_event(),
            device.create_event(),
            device.create_event(spin=spin),
        )
        self._compute = loaded.open(shapes.inputs, self._inputs, self._outputs, streams.compute)
        self._device = device
        self._direct: dict[int, Enqueue] = {}
        self._work: dict[int, Enqueue] = {}
        self._whole: dict[int, Enqueue] = {}
        self._resident = Resident((), ())
        self._near: list[Gather] = []

    @property
    def buffers(self) -> Sequence[DeviceMemory]:
        """Device memory that a test may poison: inputs, then outputs."""
        return [*self._inputs, *self._outputs]

    @property
    def answers(self) -> Sequence[np.ndarray]:
        """Pinned memory that receives the outputs."""
        return self._arrays

    def prepare(self, *, graphs: bool) -> None:
        for size in self._shapes.allowed:
            enqueue = self._direct[size] = self._compute.prepare(size)
            enqueue()
            driver.synchronize(self._streams.compute)
            self._work[size] = self._capture(enqueue) if graphs else enqueue

    def serve(self, resident: Resident) -> None:
        """Use these samples for the rows of later batches."""
        self._resident = resident
        self._whole.clear()
        self._near = self._make_gathers(self._near_rows.address)

    def prepare_whole(self, count: int) -> None:
        """Prepare one graph for copy-in, compute and copy-out of ``count`` samples, for the least latency of a small
        batch."""
        enqueue = self._direct[find_padded_size(count, self._shapes.allowed)]
        # The few rows are read from host memory, which is faster than copying them first.
        gathers = self._make_gathers(self._row_memory.address)
        answers = self._answer_kernels(count)
        self._whole[count] = self._capture(partial(self._pass_through, gathers, enqueue, answers, count))

    def start(self, rows: Rows) -> None:
        """Enqueue a batch on the streams; ``finish`` waits for it."""
        streams, count = self._streams, count_rows(rows)
        self._bring(rows, count, streams.copy_in)
        driver.record(self._there, streams.copy_in)
        driver.follow(streams.compute, self._there)
        self._work[find_padded_size(count, self._shapes.allowed)]()
        driver.record(self._computed, streams.compute)
        driver.follow(streams.copy_out, self._computed)
        self._take(count, streams.copy_out)
        driver.record(self._done, streams.copy_out)

    def finish(self, count: int) -> Outputs:
        driver.wait(self._done)
        return [array[:count] for array in self._arrays]

    def run(self, rows: Rows) -> Outputs:
        """Run a batch from start to end on the calling thread."""
        count, stream = count_rows(rows), self._streams.compute
        whole = self._whole.get(count)
        if whole is not None:
            if count == 1:
                self._rows[0] = rows.start if isinstance(rows, slice) else rows[0]
            else:
                self._rows[:count] = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
            whole()
        else:
            self._bring(rows, count, stream)
            self._work[find_padded_size(count, self._shapes.allowed)]()
            self._take(count, stream)
        driver.synchronize(stream)
        return [array[:count] for array in self._arrays]

    def _make_gathers(self, rows: int) -> list[Gather]:
        resident = self._resident
        placed = zip(self._inputs, resident.addresses, resident.row_bytes, strict=True)
        return [Gather(self._device, to.address, source, rows, size) for to, source, size in placed]

    def _bring(self, rows: Rows, count: int, stream: Stream) -> None:
        if isinstance(rows, slice):
            placed = zip(self._inputs, self._resident.addresses, self._resident.row_bytes, strict=True)
            for to, source, size in placed:
                driver.copy(to.address, source + rows.start * size, count * size, stream)
            return
        if count >= _MANY_ROWS:
            firsts, lengths = find_runs(rows)
            if count >= _LONG_RUN * len(firsts):
                self._bring_runs(firsts, rows[firsts], lengths, stream)
                return
        self._rows[:count] = rows
        driver.copy(self._near_rows.address, self._row_memory.address, 8 * count, stream)
        for gather in self._near:
            gather.start(count, stream, FEW)

    def _bring_runs(self, firsts: Any, rows: Any, lengths: Any, stream: Stream) -> None:
        """Copy runs of neighbouring rows, starting at ``rows``, to ``firsts``: the copy engine takes each at once,
        without delaying kernels that compute at the same time."""
        placed = zip(self._inputs, self._resident.addresses, self._resident.row_bytes, strict=True)
        parts = [(near.address + firsts * size, far + rows * size, lengths * size) for near, far, size in placed]
        to, source, sizes = (np.concatenate(items).astype(np.uint64) for items in zip(*parts, strict=True))
        driver.copy_parts(to, source, sizes, stream)

    def _take(self, count: int, stream: Stream) -> None:
        for to, source, size in zip(self._answers, self._outputs, self._shapes.output_bytes, strict=True):
            driver.copy(to.address, source.address, count * size, stream)

    def _pass_through(self, gathers: Sequence[Gather], enqueue: Enqueue, answers: Sequence[Gather], count: int) -> None:
        """Enqueue a complete batch. Inputs are gathered in parallel. Kernels copy the outputs, since they end before a
        copy engine would start."""
        compute, copying = self._streams.compute, self._streams.copy_in
        first, *others = gathers
        driver.record(self._there, compute)
        driver.follow(copying, self._there)
        first.start(count, compute, MANY)
        for gather in others:
            gather.start(count, copying, MANY)
        driver.record(self._computed, copying)
        driver.follow(compute, self._computed)
        enqueue()
        for answer in answers:
            answer.start(1, compute, MANY)
        if not answers:
            self._take(count, compute)

    def _answer_kernels(self, count: int) -> list[Gather]:
        """Return kernels that copy each output of ``count`` samples to the host as one row; none if copies are
        faster."""
        sizes = [count * size for size in self._shapes.output_bytes]
        if sum(sizes) > _SMALL:
            return []
        placed = zip(self._answers, self._outputs, sizes, strict=True)
        return [
            Gather(self._device, to.address, source.address, self._first_row.address, n) for to, source, n in placed
        ]

    def _capture(self, work: Enqueue) -> Enqueue:
        try:
            graph = driver.capture(work, self._streams.compute)
        except DeviceMemoryError:
            raise
        except CudaError as error:
            problem = f"the engine's work cannot be captured in a CUDA graph: {error}"
            raise HarnessError(problem, "backend", "set cuda_graphs: false") from error
        return partial(driver.replay, graph, self._streams.compute)

    def close(self) -> None:
        self._device.activate()
        rows = (self._row_memory, self._near_rows, self._first_row)
        for memory in (*self._inputs, *self._outputs, *self._answers, *rows):
            self._device.free(memory)


def list_batch_shapes(loaded: LoadedEngine, samples: Sequence[np.ndarray], allowed: tuple[int, ...]) -> Shapes:
    """List the shapes of batches. ``samples``: arrays in the order of the engine's inputs."""
    inputs = tuple(tuple(array.shape[1:]) for array in samples)
    return Shapes(
        inputs=inputs,
        input_bytes=tuple(array.nbytes // len(array) for array in samples),
        outputs=tuple(loaded.list_outputs(inputs)),
        allowed=allowed,
    )


_IMAGE = Path(__file__).with_name("gather.ptx")
_WIDTHS = (16, 4, 1)
_IN_FLIGHT = 4  # loads per thread, as in gather.cu
_MOST_THREADS = 1024
FEW, MANY = 4, 128
"""How many full blocks run at once. A few saturate PCIe and leave the device to the engine; many end a small batch
soonest."""


@cache
def _read_image() -> bytes:
    return _IMAGE.read_bytes() + b"\0"


class Gather:
    """Copies rows of one input to one place; the addresses are fixed, the rows and their number vary."""

    def __init__(self, device: Device, to: int, source: int, rows: int, row_bytes: int) -> None:
        width = next(width for width in _WIDTHS if not (row_bytes % width or to % width or source % width))
        self._kernel = device.load_kernel(_read_image(), f"gather{width}")  # moves words of ``width`` bytes
        self._units = row_bytes // width
        self._count = ctypes.c_int(0)
        values: list[Any] = [
            *(ctypes.c_uint64(address) for address in (to, source, rows)),
            ctypes.c_int64(self._units),
            self._count,
        ]
        self._values = values  # keeps the values alive, since the launch reads them by address
        self._arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))

    def start(self, count: int, stream: Stream, blocks: int = FEW) -> None:
        self._count.value = count
        threads, grid = choose_grid(self._units, count, blocks)
        launch(self._kernel, grid, threads, ctypes.addressof(self._arguments), stream)


def choose_grid(units: int, count: int, blocks: int) -> tuple[int, tuple[int, int]]:
    """Return the threads per block, and blocks along and across a row, for ``blocks`` full blocks' worth of threads."""
    threads = min(_MOST_THREADS, -(-units // 32) * 32)
    room = max(1, blocks * _MOST_THREADS // threads)
    rows = min(count, room)
    per_row = max(1, min(room // rows, -(-units // (threads * _IN_FLIGHT))))
    return threads, (per_row, rows)


# The computed batch sizes, to which batches are padded.

_STEPS = 16  # number of sizes for Server batches, so that padding is at most a sixteenth of the largest batch
_PER_QUERY = 8  # samples of a MultiStream query


def list_sizes(largest: int, scenario: Scenario, only: Sequence[int] = ()) -> tuple[int, ...]:
    """List sizes, ascending to ``largest``. ``only``: the sizes that the engine computes; empty for any."""
    if only:
        allowed = tuple(size for size in sorted(only) if size <= largest)
        return allowed or (min(only),)
    powers = [2**power for power in range(largest.bit_length()) if 2**power <= largest]
    if scenario == "Server":
        step = -(-largest // _STEPS)
        return tuple(sorted({*(size for size in powers if size < step), *range(step, largest, step), largest}))
    if scenario == "Offline":  # here only the last batch is smaller
        return tuple(sorted({*powers, largest}))
    return tuple(sorted({1, min(_PER_QUERY, largest), largest}))


def find_padded_size(count: int, allowed: Sequence[int]) -> int:
    """Return the smallest size that fits ``count``."""
    return allowed[bisect_left(allowed, count)]


# Memory of a run's samples: pinned on the host, once per NUMA node, or on each device.


@dataclass(frozen=True, slots=True)
class Resident:
    """The samples in one device's view: address of each input's first sample, and bytes per sample."""

    addresses: tuple[int, ...]
    row_bytes: tuple[int, ...]


class Residence:
    """Owns the memory of the last ``place``. ``nodes``: NUMA nodes of the devices, in order."""

    def __init__(self, devices: Sequence[Device], nodes: Sequence[int], *, on_device: bool) -> None:
        self._devices, self._nodes, self._on_device = devices, nodes, on_device
        self._arrays: Sequence[np.ndarray] = ()
        self._locked: list[DeviceMemory] = []
        self._owned: list[tuple[Device, DeviceMemory]] = []
        self.in_place = not on_device and len(set(nodes)) == 1

    def place(self, arrays: Sequence[np.ndarray]) -> list[Resident]:
        """Place the samples; return one view per device. ``arrays`` are C-contiguous and used only by this run."""
        self.release()
        row_bytes = tuple(array.nbytes // len(array) for array in arrays)
        if self._on_device:
            addresses = [self._copy_to_device(device, arrays) for device in self._devices]
        elif len(set(self._nodes)) == 1:
            addresses = [self._pin_in_place(arrays)] * len(self._devices)
        else:
            per_node = {node: self._copy_near(node, arrays) for node in set(self._nodes)}
            addresses = [per_node[node] for node in self._nodes]
        return [Resident(tuple(found), row_bytes) for found in addresses]

    def release(self) -> None:
        self._devices[0].activate()
        for memory in self._locked:
            self._devices[0].unlock(memory)
        for device, memory in self._owned:
            device.activate()
            device.free(memory)
        self._locked, self._owned, self._arrays = [], [], ()

    def _pin_in_place(self, arrays: Sequence[np.ndarray]) -> list[int]:
        """Pin the arrays in place; copy them only if the system cannot lock them."""
        device = self._devices[0]
        device.activate()
        try:
            for array in arrays:
                self._locked.append(device.lock(array))
        except CudaError:
            for memory in self._locked:
                device.unlock(memory)
            self._locked, self.in_place = [], False
            return self._copy_to_host(device, arrays)
        self._arrays = arrays
        return [memory.address for memory in self._locked]

    def _copy_near(self, node: int, arrays: Sequence[np.ndarray]) -> list[int]:
        device = self._devices[self._nodes.index(node)]
        return run_on(list_processors(node), lambda: self._copy_to_host(device, arrays))

    def _copy_to_host(self, device: Device, arrays: Sequence[np.ndarray]) -> list[int]:
        device.activate()
        made = []
        for array in arrays:
            memory = device.pin(array.nbytes)
            self._owned.append((device, memory))
            memory.view_array(array.shape, array.dtype.name)[...] = array
            made.append(memory.address)
        return made

    def _copy_to_device(self, device: Device, arrays: Sequence[np.ndarray]) -> list[int]:
        device.activate()
        stream, made = device.stream(), []
        for array in arrays:
            memory = device.allocate(array.nbytes)
            self._owned.append((device, memory))
            copy(memory.address, int(array.__array_interface__["data"][0]), array.nbytes, stream)
            made.append(memory.address)
        synchronize(stream)
        return made


# The protocol of an engine in the CUDA pipeline, implemented for each library (TensorRT, ONNX Runtime, PyTorch).

Enqueue = Callable[[], None]
"""Puts the work of one batch on its stream, between fixed buffers."""


class Compute(Protocol):
    """An engine bound to the buffers of one lane and to one stream."""

    def prepare(self, size: int) -> Enqueue:
        """Prepare the work of a batch of exactly ``size`` samples, which runs once before it is used or captured."""


class LoadedEngine(Protocol):
    """An engine on one device."""

    @property
    def batch_size(self) -> int:
        """The largest batch."""

    @property
    def batch_sizes(self) -> Sequence[int]:
        """The only sizes that it computes; empty for any size up to ``batch_size``."""

    @property
    def inputs(self) -> Sequence[Tensor]: ...

    @property
    def capturable(self) -> bool:
        """Return True if its work may be captured in a CUDA graph."""

    @property
    def notes(self) -> Mapping[str, Any]: ...

    def list_outputs(self, inputs: Sequence[tuple[int, ...]]) -> Sequence[Tensor]:
        """List the outputs for samples of these shapes."""

    def estimate_memory(self, inputs: Sequence[tuple[int, ...]]) -> int:
        """Estimate the device bytes needed per stream, without the lanes' buffers."""

    def open(
        self,
        shapes: Sequence[tuple[int, ...]],
        inputs: Sequence[DeviceMemory],
        outputs: Sequence[DeviceMemory],
        stream: Stream,
    ) -> Compute:
        """Bind to a lane. ``shapes``: the shape of one sample of each input. Lanes on one stream never compute at the
        same time."""


Loader = Callable[[Device], LoadedEngine]
