"""Memory of a run's samples: pinned on the host, once per NUMA node, or on each device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.cuda.driver import CudaError, Device, DeviceMemory, copy, synchronize
from harness.machine.numa import list_processors, run_on


@dataclass(frozen=True, slots=True)
class Resident:
    """The samples as one device sees them: where each input's first sample is, and bytes per sample."""

    addresses: tuple[int, ...]
    row_bytes: tuple[int, ...]


class Residence:
    """Holds what ``place`` made until the next ``place``. ``nodes``: of the devices, in their order."""

    def __init__(self, devices: Sequence[Device], nodes: Sequence[int], *, on_device: bool) -> None:
        self._devices, self._nodes, self._on_device = devices, nodes, on_device
        self._arrays: Sequence[np.ndarray] = ()
        self._locked: list[DeviceMemory] = []
        self._owned: list[tuple[Device, DeviceMemory]] = []
        self.in_place = not on_device and len(set(nodes)) == 1

    def place(self, arrays: Sequence[np.ndarray]) -> list[Resident]:
        """One view per device. ``arrays`` are C-contiguous and belong to this run alone."""
        self.release()
        row_bytes = tuple(array.nbytes // len(array) for array in arrays)
        if self._on_device:
            addresses = [self._on(device, arrays) for device in self._devices]
        elif len(set(self._nodes)) == 1:
            addresses = [self._here(arrays)] * len(self._devices)
        else:
            per_node = {node: self._near(node, arrays) for node in set(self._nodes)}
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

    def _here(self, arrays: Sequence[np.ndarray]) -> list[int]:
        """Pinned where they are; copied only where the system will not lock them."""
        device = self._devices[0]
        device.activate()
        try:
            for array in arrays:
                self._locked.append(device.lock(array))
        except CudaError:
            for memory in self._locked:
                device.unlock(memory)
            self._locked, self.in_place = [], False
            return self._copied(device, arrays)
        self._arrays = arrays
        return [memory.address for memory in self._locked]

    def _near(self, node: int, arrays: Sequence[np.ndarray]) -> list[int]:
        device = self._devices[self._nodes.index(node)]
        return run_on(list_processors(node), lambda: self._copied(device, arrays))

    def _copied(self, device: Device, arrays: Sequence[np.ndarray]) -> list[int]:
        device.activate()
        made = []
        for array in arrays:
            memory = device.pin(array.nbytes)
            self._owned.append((device, memory))
            memory.array(array.shape, array.dtype.name)[...] = array
            made.append(memory.address)
        return made

    def _on(self, device: Device, arrays: Sequence[np.ndarray]) -> list[int]:
        device.activate()
        stream, made = device.stream(), []
        for array in arrays:
            memory = device.allocate(array.nbytes)
            self._owned.append((device, memory))
            copy(memory.address, int(array.__array_interface__["data"][0]), array.nbytes, stream)
            made.append(memory.address)
        synchronize(stream)
        return made
