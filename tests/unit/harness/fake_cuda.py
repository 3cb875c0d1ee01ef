"""A CUDA driver in host memory, as far as the harness uses one: calls act at once, captured ones when replayed.

It checks what a driver would: addresses that were never allocated, copies beyond an end, use after free.
"""

from __future__ import annotations

import ctypes
import enum
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

GIB = 2**30


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_ECC_UNCORRECTABLE = 214
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_UNKNOWN = 999


class _Flags(enum.IntFlag):
    CU_CTX_SCHED_SPIN = 1
    CU_CTX_SCHED_BLOCKING_SYNC = 4
    CU_STREAM_NON_BLOCKING = 1
    CU_EVENT_BLOCKING_SYNC = 1
    CU_EVENT_DISABLE_TIMING = 2
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76


@dataclass
class Fake:
    """What the driver knows. ``fail``: name of a call -> result that it gives from then on."""

    devices: int = 1
    memory: int = 140 * GIB
    capability: tuple[int, int] = (9, 0)
    fail: dict[str, CUresult] = field(default_factory=dict)
    allocations: dict[int, Any] = field(default_factory=dict)
    device_bytes: int = 0
    captured: dict[int, list[Callable[[], None]]] = field(default_factory=dict)
    streams: dict[int, int] = field(default_factory=dict)
    current: threading.local = field(default_factory=threading.local)
    recorded: dict[int, list[Callable[[], None]] | None] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    lockable: bool = True
    next_handle: int = 1

    def handle(self) -> int:
        self.next_handle += 1
        return self.next_handle

    def hold(self, size: int) -> int:
        block = np.full(size + 64, 0xA5, np.uint8)
        address = int(block.__array_interface__["data"][0])
        address += -address % 64
        self.allocations[address] = (size, block)
        return address

    def check(self, address: int, size: int) -> None:
        for start, (length, _) in self.allocations.items():
            if start <= address and address + size <= start + length:
                return
        raise AssertionError(f"{size} bytes at {address:#x} are not allocated")

    def activate(self, device: int) -> None:
        self.current.device = device

    @property
    def active(self) -> int:
        """The device of the calling thread."""
        return int(getattr(self.current, "device", -1))

    def make_stream(self) -> int:
        self.streams[handle := self.handle()] = self.active
        return handle

    def do(self, stream: int, work: Callable[[], None]) -> None:
        assert self.streams.get(int(stream)) == self.active, "work on a stream of another device"
        if int(stream) in self.captured:
            self.captured[int(stream)].append(work)
        else:
            self.enqueue(int(stream), work)

    def enqueue(self, _stream: int, work: Callable[[], None]) -> None:
        work()

    def record(self, event: int, stream: int) -> None:
        self.recorded[event] = self.captured.get(int(stream))

    def follow(self, stream: int, event: int) -> None:
        works = self.recorded.get(event)
        if works is not None and any(works is allocations for allocations in self.captured.values()):
            self.captured[int(stream)] = works  # the stream joins the capture

    def wait_for_event(self, _event: int) -> None:
        """All has happened already."""

    def wait_for_stream(self, _stream: int) -> None:
        """All has happened already."""


def install(fake: Fake) -> ModuleType:
    """A module that represents ``cuda.bindings.driver``."""
    module = ModuleType("cuda.bindings.driver")
    for name in ("CUctx_flags", "CUstream_flags", "CUevent_flags", "CUstreamCaptureMode", "CUdevice_attribute"):
        setattr(module, name, _Flags)
    module.CUresult = CUresult  # type: ignore[attr-defined]
    for name, call in _calls(fake):
        setattr(module, name, _checked(fake, name, call))
    module.cuGetErrorString = lambda code: (CUresult.CUDA_SUCCESS, f"error {int(code)}".encode())  # type: ignore[attr-defined]
    return module


def provide() -> None:
    """Let ``harness.cuda`` be imported where cuda-python is not installed."""
    try:
        import cuda.bindings.driver  # noqa: F401
    except ImportError:
        for name in ("cuda", "cuda.bindings"):
            package = sys.modules.setdefault(name, ModuleType(name))
            package.__path__ = []  # type: ignore[attr-defined]
        driver = install(Fake())
        sys.modules["cuda.bindings.driver"] = driver
        sys.modules["cuda.bindings"].driver = driver  # type: ignore[attr-defined]


def _checked(fake: Fake, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*arguments: Any) -> tuple[Any, ...]:
        fake.calls.append(name)
        if name in fake.fail:
            return (fake.fail[name], None)
        result = call(*arguments)
        if isinstance(result, CUresult):
            return (result, None)
        return (CUresult.CUDA_SUCCESS, *(result if isinstance(result, tuple) else (result,)))

    return checked


def _calls(fake: Fake) -> Iterator[tuple[str, Callable[..., Any]]]:
    yield from _device_calls(fake)
    yield from _memory_calls(fake)
    yield from _work_calls(fake)


def _device_calls(fake: Fake) -> Iterator[tuple[str, Callable[..., Any]]]:
    yield "cuInit", lambda _: None
    yield "cuDeviceGetCount", lambda: fake.devices
    yield "cuDeviceGet", lambda index: index
    yield "cuDevicePrimaryCtxSetFlags", lambda _device, _flags: None
    yield "cuDevicePrimaryCtxRetain", lambda device: device
    yield "cuCtxSetCurrent", fake.activate
    yield "cuDeviceGetName", lambda _size, index: b"Fake GPU " + str(index).encode() + b"\0\0"
    yield "cuDeviceGetPCIBusId", lambda _size, index: f"0000:{index:02X}:00.0".encode() + b"\0\0"
    yield "cuDeviceGetAttribute", lambda attribute, _: fake.capability[int(attribute) - 75]
    yield "cuCtxGetStreamPriorityRange", lambda: (0, -5)
    yield "cuStreamCreateWithPriority", lambda _flags, _priority: fake.make_stream()
    yield "cuEventCreate", lambda _flags: fake.handle()
    yield "cuModuleLoadData", lambda image: image
    yield "cuModuleGetFunction", lambda _module, name: name.decode()


def _memory_calls(fake: Fake) -> Iterator[tuple[str, Callable[..., Any]]]:
    def allocate(size: int) -> int | CUresult:
        if fake.device_bytes + size > fake.memory:
            return CUresult.CUDA_ERROR_OUT_OF_MEMORY
        fake.device_bytes += size
        return fake.hold(size)

    def free(address: int) -> None:
        fake.device_bytes -= fake.allocations.pop(address)[0]

    def lock(address: int, size: int, _flags: int) -> CUresult | None:
        if not fake.lockable:
            return CUresult.CUDA_ERROR_INVALID_VALUE
        fake.allocations[address] = (size, None)
        return None

    yield "cuMemAlloc", allocate
    yield "cuMemFree", free
    yield "cuMemHostAlloc", lambda size, _flags: fake.hold(size)
    yield "cuMemHostGetDevicePointer", lambda address, _flags: address
    yield "cuMemHostRegister", lock
    yield "cuMemHostUnregister", lambda address: fake.allocations.pop(address) and None
    yield "cuMemFreeHost", lambda address: fake.allocations.pop(address) and None
    yield "cuMemGetInfo", lambda: (fake.memory - fake.device_bytes, fake.memory)
    yield "cuMemsetD8", lambda address, byte, size: ctypes.memset(address, byte, size) and None


def _work_calls(fake: Fake) -> Iterator[tuple[str, Callable[..., Any]]]:
    def copy(to: int, source: int, size: int, stream: int) -> None:
        def work() -> None:
            fake.check(to, size)
            if any(start <= source < start + length for start, (length, _) in fake.allocations.items()):
                fake.check(source, size)
            ctypes.memmove(to, source, size)

        fake.do(stream, work)

    def launch(name: str, *rest: Any) -> None:
        grid, stream = rest[:2], rest[7]
        assert min(grid) > 0
        pointers = (ctypes.c_void_p * 5).from_address(rest[8])  # a launch takes its arguments along
        values = [ctypes.c_int64.from_address(pointers[number]).value for number in range(4)]
        count = ctypes.c_int.from_address(pointers[4]).value
        fake.do(stream, lambda: _gather(fake, int(name.removeprefix("gather")), *values, count))

    def begin(stream: int, _mode: int) -> None:
        fake.captured[int(stream)] = []

    def end(stream: int) -> list[Callable[[], None]]:
        works = fake.captured[int(stream)]
        fake.captured = {other: allocations for other, allocations in fake.captured.items() if allocations is not works}
        return works

    yield "cuMemcpyAsync", copy
    yield (
        "cuMemsetD8Async",
        lambda to, byte, size, stream: fake.do(stream, lambda: ctypes.memset(to, byte, size) and None),
    )
    yield "cuLaunchKernel", launch
    yield "cuEventRecord", fake.record
    yield "cuStreamWaitEvent", lambda stream, event, _flags: fake.follow(stream, event)
    yield "cuEventSynchronize", fake.wait_for_event
    yield "cuStreamSynchronize", fake.wait_for_stream
    yield "cuStreamBeginCapture", begin
    yield "cuStreamEndCapture", end
    yield "cuGraphInstantiate", lambda works, _flags: [works]
    yield "cuGraphLaunch", lambda graph, stream: fake.do(stream, lambda: [work() for work in graph[0]] and None)


def _gather(fake: Fake, width: int, to: int, source: int, rows: int, units: int, count: int) -> None:
    size = width * units
    fake.check(to, size * count)
    for number, row in enumerate((ctypes.c_int64 * count).from_address(rows)):
        fake.check(source + row * size, size)
        ctypes.memmove(to + number * size, source + row * size, size)
