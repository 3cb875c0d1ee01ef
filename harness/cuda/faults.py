"""Explain failed CUDA calls and their remedies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.cuda.driver import CudaError, DeviceMemoryError
from harness.errors import HarnessError

# Explanations by CUDA's error name. An error that the program did not cause is worth another try on a healthy device.
_HARDWARE = {
    "CUDA_ERROR_ECC_UNCORRECTABLE": "the device has an uncorrectable memory error (ECC)",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "the device reported a hardware stack error",
    "CUDA_ERROR_DEVICE_UNAVAILABLE": "the device is not available",
    "CUDA_ERROR_SYSTEM_NOT_READY": "the device's system services are not ready (fabric manager)",
    "CUDA_ERROR_NO_DEVICE": "no CUDA device",
    "CUDA_ERROR_EXTERNAL_DEVICE": "the device was lost",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE": "uncorrectable NVLink error",
    "CUDA_ERROR_UNKNOWN": "the device was lost, or the driver failed",
}
_HARDWARE_FIX = "check nvidia-smi -q and the kernel log for an Xid; reset or replace the device, then run again"
_SOFTWARE = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "a kernel accessed illegal memory",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "a kernel ran an illegal instruction",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "a kernel accessed a misaligned address",
    "CUDA_ERROR_LAUNCH_FAILED": "a kernel failed",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "a kernel ran too long",
    "CUDA_ERROR_ASSERT": "an assertion failed in a kernel",
}
_SOFTWARE_FIX = "rebuild the engine; if the error persists, find the kernel with compute-sanitizer"


def explain_cuda_error(error: CudaError, device: str) -> HarnessError:
    """Explain an error. ``device``: the device's name for the message, such as "GPU 0 (NVIDIA H200)"."""
    if isinstance(error, DeviceMemoryError):
        return HarnessError(f"{device} is out of memory: {error}", "resources", "lower batch_size or streams")
    if error.name in _HARDWARE:
        return HarnessError(f"{device}: {_HARDWARE[error.name]} ({error})", "resources", _HARDWARE_FIX)
    if error.name in _SOFTWARE:
        return HarnessError(f"{device}: {_SOFTWARE[error.name]} ({error})", "backend", _SOFTWARE_FIX)
    return HarnessError(f"{device}: {error}", "backend", "see the traceback in the log of this run")


@contextmanager
def explain_errors(device: str) -> Iterator[None]:
    try:
        yield
    except CudaError as error:
        raise explain_cuda_error(error, device) from error


def explain_out_of_memory(device: str, batch_size: int, wanted: int, free: int, detail: str) -> HarnessError:
    """Explain a lack of memory while an engine was prepared: ``wanted`` and ``free`` in bytes, for batches of
    ``batch_size``."""
    fitting = suggest_batch(batch_size, wanted, free)
    advice = f"try batch_size {fitting}" if fitting else "use fewer streams"
    return HarnessError(
        f"{device} is out of memory: batches of {batch_size} need {wanted / 2**30:.2f} GiB and {free / 2**30:.2f} GiB "
        f"are free ({detail})",
        "resources",
        f"{advice}, lower streams, or stop other users of the device",
    )


def explain_too_many_samples(device: str, size: int, error: CudaError) -> HarnessError:
    """Explain a lack of memory for ``size`` bytes of samples, on the device or in memory that it can reach."""
    return HarnessError(
        f"{device} is out of memory for the samples of the run, {size / 2**30:.2f} GiB: {error}",
        "resources",
        "lower performance_sample_count, remove start_from_device, or raise the locked memory limit (ulimit -l)",
    )


def suggest_batch(batch_size: int, wanted: int, free: int) -> int:
    """Suggest the largest multiple of 8 (below 8: any number) that needs at most nine tenths of the free memory; 0 if
    there is none."""
    fitting = min(batch_size - 1, int(batch_size * 0.9 * free / max(wanted, 1)))
    return fitting - fitting % 8 if fitting >= 8 else max(fitting, 0)
