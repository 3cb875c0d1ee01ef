"""All calls of the CUDA driver: devices, memory, streams, events, graphs and a gather kernel.

Every call is checked. Slow calls release the interpreter lock. The device's primary context is used, shared with
TensorRT and ONNX Runtime; a thread must first ``activate()`` the device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

try:
    from cuda.bindings import driver as cu
except ImportError:  # cuda-python before 12.6
    from cuda import cuda as cu

Stream = Any
Event = Any
Graph = Any

_MAPPED = 1 | 2  # flags "portable" and "mapped" of cuMemHostAlloc and cuMemHostRegister
_OUT_OF_MEMORY = cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY


class CudaError(RuntimeError):
    """A call that failed. ``name`` is CUDA's own, such as CUDA_ERROR_ILLEGAL_ADDRESS."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name


class DeviceMemoryError(CudaError, MemoryError):
    """The device, or the host's lockable memory, is exhausted."""


def check_call(result: tuple[Any, ...]) -> Any:
    """Return the result of a call. Raises CudaError."""
    if result[0]:
        raise _make_error(result[0])
    return result[1] if len(result) == 2 else result[1:]


def _make_error(code: Any) -> CudaError:
    name = getattr(code, "name", str(code))
    described = cu.cuGetErrorString(code)[1]
    text = described.decode() if isinstance(described, bytes) else "unknown error"
    return (DeviceMemoryError if code == _OUT_OF_MEMORY else CudaError)(name, text)


def count_devices() -> int:
    """Return the number of devices, 0 without a driver or a device."""
    try:
        check_call(cu.cuInit(0))
        return int(check_call(cu.cuDeviceGetCount()))
    except (CudaError, RuntimeError):
        return 0


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Device memory, or host memory mapped on the device; ``host``: the host's view of pinned memory, in bytes."""

    address: int
    size: int
    host: np.ndarray | None = None

    def view_array(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        """View pinned memory as an array, from its start."""
        assert self.host is not None
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self.host[:count].view(dtype).reshape(shape)


class Device:
    """One GPU and its primary context. ``spin``: a wait for a stream spins on the processor, and so ends sooner."""

    def __init__(self, index: int, *, spin: bool = False) -> None:
        check_call(cu.cuInit(0))
        self.index = index
        self._handle = check_call(cu.cuDeviceGet(index))
        flags = cu.CUctx_flags.CU_CTX_SCHED_SPIN if spin else cu.CUctx_flags.CU_CTX_SCHED_BLOCKING_SYNC
        cu.cuDevicePrimaryCtxSetFlags(self._handle, int(flags))  # refused if the context is already in use
        self._context = check_call(cu.cuDevicePrimaryCtxRetain(self._handle))
        self.activate()
        self._kernels: dict[tuple[int, str], Any] = {}

    def activate(self) -> None:
        """Make this the device of the calling thread."""
        check_call(cu.cuCtxSetCurrent(self._context))

    @property
    def name(self) -> str:
        return str(check_call(cu.cuDeviceGetName(256, self._handle)).split(b"\0")[0].decode())

    @property
    def capability(self) -> tuple[int, int]:
        attribute = cu.CUdevice_attribute
        major = check_call(
            cu.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, self._handle)
        )
        minor = check_call(
            cu.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, self._handle)
        )
        return int(major), int(minor)

    @property
    def bus(self) -> str:
        """PCI address in the format of sysfs, such as 0000:3b:00.0."""
        return str(check_call(cu.cuDeviceGetPCIBusId(32, self._handle)).split(b"\0")[0].decode().lower())

    def get_free_memory(self) -> int:
        free, _ = check_call(cu.cuMemGetInfo())
        return int(free)

    def allocate(self, size: int) -> DeviceMemory:
        """Allocate device memory, zeroed so that the padding of a first batch is valid for any model."""
        address = check_call(cu.cuMemAlloc(max(size, 1)))
        check_call(cu.cuMemsetD8(address, 0, max(size, 1)))
        return DeviceMemory(int(address), size)

    def pin(self, size: int) -> DeviceMemory:
        """Allocate host memory that the device accesses directly, on the NUMA node of the calling thread."""
        host = int(check_call(cu.cuMemHostAlloc(max(size, 1), _MAPPED)))
        view = (ctypes.c_uint8 * max(size, 1)).from_address(host)
        return DeviceMemory(int(check_call(cu.cuMemHostGetDevicePointer(host, 0))), size, np.ctypeslib.as_array(view))

    def lock(self, array: np.ndarray) -> DeviceMemory:
        """Pin an array in place; the array must exist as long as the device uses it. Raises DeviceMemoryError if it
        cannot be pinned."""
        host = int(array.__array_interface__["data"][0])
        check_call(cu.cuMemHostRegister(host, array.nbytes, _MAPPED))
        view = array.reshape(-1).view(np.uint8)
        return DeviceMemory(int(check_call(cu.cuMemHostGetDevicePointer(host, 0))), array.nbytes, view)

    def unlock(self, memory: DeviceMemory) -> None:
        assert memory.host is not None
        check_call(cu.cuMemHostUnregister(int(memory.host.__array_interface__["data"][0])))

    def free(self, memory: DeviceMemory) -> None:
        if memory.host is None:
            check_call(cu.cuMemFree(memory.address))
        else:
            check_call(cu.cuMemFreeHost(int(memory.host.__array_interface__["data"][0])))

    def stream(self, *, urgent: bool = False) -> Stream:
        least, most = check_call(cu.cuCtxGetStreamPriorityRange())
        flags = int(cu.CUstream_flags.CU_STREAM_NON_BLOCKING)
        return check_call(cu.cuStreamCreateWithPriority(flags, int(most if urgent else least)))

    def create_event(self, *, spin: bool = True) -> Event:
        flags = cu.CUevent_flags.CU_EVENT_DISABLE_TIMING
        if not spin:
            return check_call(cu.cuEventCreate(int(flags) | int(cu.CUevent_flags.CU_EVENT_BLOCKING_SYNC)))
        return check_call(cu.cuEventCreate(int(flags)))

    def load_kernel(self, image: bytes, name: str) -> Any:
        """Load a kernel. ``image``: PTX, which the driver compiles once per loaded kernel."""
        found = self._kernels.get((hash(image), name))
        if found is None:
            module = check_call(cu.cuModuleLoadData(image))
            found = self._kernels[hash(image), name] = check_call(cu.cuModuleGetFunction(module, name.encode()))
        return found


def copy(to: int, source: int, size: int, stream: Stream) -> None:
    """Copy between any two addresses."""
    check_call(cu.cuMemcpyAsync(to, source, size, stream))


@cache
def _load_library() -> ctypes.PyDLL:
    """Load the driver itself, for calls with arrays, which do not block and keep the interpreter lock."""
    return ctypes.PyDLL("libcuda.so.1")


class _CopyAttributes(ctypes.Structure):
    """CUmemcpyAttributes: memory is read in stream order, and located by its address."""

    _fields_ = (("order", ctypes.c_int), ("places", ctypes.c_int * 4), ("flags", ctypes.c_uint))


def copy_parts(to: np.ndarray, source: np.ndarray, sizes: np.ndarray, stream: Stream) -> None:
    """Enqueue many copies with one call. All three arrays are uint64 and C-contiguous."""
    count, order = len(sizes), _CopyAttributes(order=1)
    places = [ctypes.c_void_p(int(array.__array_interface__["data"][0])) for array in (to, source, sizes)]
    if hasattr(_load_library(), "cuMemcpyBatchAsync_v2"):  # exists since CUDA 13
        first = ctypes.c_size_t(0)
        settings = (ctypes.byref(order), ctypes.byref(first), ctypes.c_size_t(1), ctypes.c_void_p(int(stream)))
        code = _load_library().cuMemcpyBatchAsync_v2(*places, ctypes.c_size_t(count), *settings)
        check_call((cu.CUresult(code),))
        return
    for one, other, size in zip(to.tolist(), source.tolist(), sizes.tolist(), strict=True):
        copy(one, other, size, stream)


def fill(memory: DeviceMemory, byte: int, stream: Stream) -> None:
    check_call(cu.cuMemsetD8Async(memory.address, byte, memory.size, stream))


def launch(kernel: Any, grid: tuple[int, int], threads: int, arguments: int, stream: Stream) -> None:
    """Launch a kernel. ``arguments``: the address of an array of pointers to the arguments."""
    check_call(cu.cuLaunchKernel(kernel, grid[0], grid[1], 1, threads, 1, 1, 0, stream, arguments, 0))


def record(event: Event, stream: Stream) -> None:
    check_call(cu.cuEventRecord(event, stream))


def follow(stream: Stream, event: Event) -> None:
    """Make the stream wait for the event, without blocking the host."""
    check_call(cu.cuStreamWaitEvent(stream, event, 0))


def wait(event: Event) -> None:
    check_call(cu.cuEventSynchronize(event))


def synchronize(stream: Stream) -> None:
    check_call(cu.cuStreamSynchronize(stream))


def capture(work: Callable[[], None], stream: Stream) -> Graph:
    """Capture the work that ``work`` enqueues on the stream, as a graph that can be launched repeatedly."""
    check_call(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    try:
        work()
    except BaseException:
        cu.cuStreamEndCapture(stream)
        raise
    return check_call(cu.cuGraphInstantiate(check_call(cu.cuStreamEndCapture(stream)), 0))


def replay(graph: Graph, stream: Stream) -> None:
    check_call(cu.cuGraphLaunch(graph, stream))
