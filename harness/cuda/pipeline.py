"""A session over one or several GPUs. A batch goes to any free lane.

A worker per device has lanes, streams and a completion thread for each compute stream, pinned to the processors near
the device. The submitting thread takes any free lane, so faster devices get more batches.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np

from harness.backends import LoadPlan, Outputs, Session, Token, match_samples
from harness.catalog import CudaRunOptions
from harness.cuda.driver import CudaError, Device, DeviceMemoryError, count_devices
from harness.cuda.faults import explain_cuda_error, explain_errors, explain_out_of_memory, explain_too_many_samples
from harness.cuda.lanes import (
    Lane,
    LoadedEngine,
    Loader,
    Residence,
    Resident,
    Shapes,
    Streams,
    list_batch_shapes,
    list_sizes,
)
from harness.errors import HarnessError
from harness.machine.numa import find_node, list_processors, pin_temporarily, pin_thread
from harness.run.pool import Pool
from harness.run.qsl import Arrays, Rows, count_rows

Work = tuple[Lane, Token, int, int]  # number of rows, which may differ from that of the token, and number of the lane


class GpuWorker:
    """One GPU."""

    def __init__(self, device: Device, loaded: LoadedEngine, plan: LoadPlan, free: Pool[tuple[GpuWorker, int]]) -> None:
        self.device, self.loaded, self._plan, self._free = device, loaded, plan, free
        self.node = find_node(device.bus)
        self.label = f"GPU {device.index} ({device.name})"
        copy_in, copy_out = device.stream(urgent=True), device.stream(urgent=True)
        self._streams = [Streams(copy_in, device.stream(), copy_out) for _ in range(plan.streams)]
        self._queues: list[SimpleQueue[Work | None]] = [SimpleQueue() for _ in self._streams]
        self._threads: list[threading.Thread] = []
        self.lanes: list[Lane] = []
        self.depth = plan.streams * count_lanes(plan)

    def open(self, shapes: Shapes, *, graphs: bool) -> None:
        """Create the lanes. Raises HarnessError, with a batch size that fits, if memory is insufficient."""
        plan = self._plan
        wanted = self.depth * shapes.lane_bytes + plan.streams * self.loaded.estimate_memory(shapes.inputs)
        free = self.device.get_free_memory()
        spin = CudaRunOptions(plan.options).spin
        try:
            for number in range(self.depth):
                streams = self._streams[number % plan.streams]
                self.lanes.append(Lane(self.device, self.loaded, shapes, streams, spin=spin))
                self.lanes[-1].prepare(graphs=graphs)
        except DeviceMemoryError as error:
            raise explain_out_of_memory(self.label, shapes.largest, max(wanted, free), free, str(error)) from error

    def serve(self, resident: Resident, whole: Sequence[int]) -> None:
        self.device.activate()
        for lane in self.lanes:
            lane.serve(resident)
        for count in whole:
            self.lanes[0].prepare_whole(count)

    def start(self, number: int, rows: Rows, token: Token) -> None:
        self.device.activate()
        self.lanes[number].start(rows)
        self._queues[number % self._plan.streams].put((self.lanes[number], token, count_rows(rows), number))

    def run_threads(self) -> None:
        for number in range(len(self._streams)):
            thread = threading.Thread(target=self._complete, args=(number,), name="completion", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        for queue in self._queues:
            queue.put(None)
        for thread in self._threads:
            thread.join()
        for lane in self.lanes:
            lane.close()

    def _complete(self, stream: int) -> None:
        """Complete the batches of one stream in order. A failure is reported for its batch, and the lane is returned:
        otherwise the failure would go unnoticed, and LoadGen would wait forever.
        """
        pin_thread(list_processors(self.node))
        queue = self._queues[stream]
        while (item := queue.get()) is not None:
            lane, token, count, number = item
            try:
                self.device.activate()
                self._plan.completed(token, lane.finish(count))
            except BaseException as error:
                known = explain_cuda_error(error, self.label) if isinstance(error, CudaError) else error
                self._plan.failed(token, known)
            finally:
                self._free.put((self, number))


class CudaSession(Session):
    """The Session of every backend that computes on NVIDIA GPUs."""

    def __init__(self, plan: LoadPlan, load: Loader) -> None:
        self._plan = plan
        waits = plan.scenario in ("SingleStream", "MultiStream")
        options = CudaRunOptions(plan.options)
        self._room: Pool[tuple[GpuWorker, int]] = Pool()
        self.workers = [self._make_worker(index, load, spin=waits) for index in choose_devices(options.devices)]
        devices = [worker.device for worker in self.workers]
        first = self.workers[0].loaded
        self.batch_size = min(plan.batch_size, first.batch_size)
        self.sizes: Sequence[int] = list_sizes(self.batch_size, plan.scenario, first.batch_sizes)
        self._graphs = options.cuda_graphs and first.capturable
        self._whole = [n for n in (1, 8) if n <= self.batch_size] if waits and self._graphs else []
        on_device = starts_from_device(options)
        self._residence = Residence(devices, [worker.node for worker in self.workers], on_device=on_device)
        self.reads_in_place = self._residence.in_place  # whether samples are pinned in place
        self.notes: Mapping[str, Any] = {
            "streams": plan.streams,
            "lanes": self.workers[0].depth,
            "devices": [device.bus for device in devices],
            "numa_nodes": [worker.node for worker in self.workers],
            "samples": "device" if on_device else "host",
            "cuda_graphs": list(self.sizes) if self._graphs else [],
            **first.notes,
        }

    def place(self, samples: Arrays) -> None:
        arrays = match_samples(samples, self.workers[0].loaded.inputs)
        if not self._room.size:
            self._open(arrays)
        label = self.workers[0].label
        with explain_errors(label):
            try:
                residents = self._residence.place(arrays)
            except DeviceMemoryError as error:
                raise explain_too_many_samples(label, sum(array.nbytes for array in arrays), error) from error
        self.reads_in_place = self._residence.in_place
        for worker, resident in zip(self.workers, residents, strict=True):
            with explain_errors(worker.label):
                worker.serve(resident, self._whole)
        self.workers[0].device.activate()

    def compute(self, rows: Rows) -> Outputs:
        try:
            return self.workers[0].lanes[0].run(rows)
        except CudaError as error:
            raise explain_cuda_error(error, self.workers[0].label) from error

    def submit(self, rows: Rows, token: Token) -> None:
        worker, number = self._room.get()
        try:
            worker.start(number, rows, token)
        except BaseException as error:
            self._room.put((worker, number))
            if isinstance(error, CudaError):
                raise explain_cuda_error(error, worker.label) from error
            raise

    def drain(self) -> None:
        super().drain()
        self.workers[0].device.activate()  # for compute() on this thread, since submit() activates its worker's device

    def close(self) -> None:
        with explain_errors(self.workers[0].label):
            for worker in self.workers:
                worker.close()
            self._residence.release()

    def _make_worker(self, index: int, load: Loader, *, spin: bool) -> GpuWorker:
        with explain_errors(f"GPU {index}"):
            device = Device(index, spin=spin)  # this also becomes the current device
            return GpuWorker(device, load(device), self._plan, self._room)

    def _open(self, arrays: Sequence[np.ndarray]) -> None:
        """Create the lanes once, when the shape of a sample is known. Devices take turns, so that they fill evenly."""
        for worker in self.workers:
            worker.device.activate()
            with explain_errors(worker.label), pin_temporarily(worker.node, list_processors(worker.node)):
                worker.open(list_batch_shapes(worker.loaded, arrays, tuple(self.sizes)), graphs=self._graphs)
            worker.run_threads()
        depth = self.workers[0].depth
        self._room.fill((worker, number) for number in range(depth) for worker in self.workers)


def count_lanes(plan: LoadPlan) -> int:
    """Return the batches in flight per stream, enough for the device to find its next one while the host processes the
    last."""
    lanes = CudaRunOptions(plan.options).lanes
    if lanes < 1:
        raise HarnessError(f"lanes {lanes} must be at least 1", "input", "correct run.options.lanes")
    return lanes


def choose_devices(count: int) -> range:
    """Return the first ``count`` devices by CUDA_VISIBLE_DEVICES."""
    here = count_devices()
    if here < max(count, 1):
        have = f"{here} NVIDIA GPUs are" if here != 1 else "one NVIDIA GPU is"
        fix = "check nvidia-smi, CUDA_VISIBLE_DEVICES and hardware.count of the system"
        raise HarnessError(f"{have} usable here, the run needs {max(count, 1)}", "missing", fix)
    return range(max(count, 1))


def starts_from_device(options: CudaRunOptions) -> bool:
    """Return True if samples reside on the device, which the rules allow only if the network can reach its memory at
    the required rate."""
    if not options.start_from_device:
        return False
    if not options.start_from_device_evidence.strip():
        raise HarnessError(
            "start_from_device is set without evidence",
            "input",
            "document the path and rate from network or storage to device memory, and set "
            "run.options.start_from_device_evidence",
        )
    return True
