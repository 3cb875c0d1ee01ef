"""Slices of GPUs (MIG): what NVML reports them, which of them a child takes, and samples that processes share."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.catalog import write_slices
from harness.errors import HarnessError
from harness.machine.facts import list_computing, list_inventory
from harness.mig.slices import choose_slices, list_slices
from harness.run.qsl import Ragged
from harness.run.shared_samples import SharedSamples, map_samples
from tests.unit.harness.test_probe_machine import NoNvmlError, nvml, refuse

A100 = "NVIDIA A100-SXM4-80GB"
TWO = [
    {"uuid": "GPU-a", "slices": [{"uuid": "MIG-a1", "profile": "3g.40gb"}, {"uuid": "MIG-a2", "profile": "1g.10gb"}]},
    {"uuid": "GPU-b", "slices": [{"uuid": "MIG-b1", "profile": "1g.10gb"}, {"uuid": "MIG-b2", "profile": "1g.10gb"}]},
    {"uuid": "GPU-c"},
]


def cut_device(**more: Any) -> Any:
    """A driver of two devices; the first has slices at the numbers 0 and 2, the other cannot be cut."""
    parts = {0: "MIG-one", 2: "MIG-two"}
    names = {"MIG-one": f"{A100} MIG 1g.10gb", "MIG-two": f"{A100} MIG 2g.20gb", 0: A100, 1: "NVIDIA T4"}
    given = {
        "nvmlDeviceGetMaxMigDeviceCount": lambda handle: 7 if handle == 0 else refuse(),
        "nvmlDeviceGetMigDeviceHandleByIndex": lambda _, n: parts[n] if n in parts else refuse(),
        "nvmlDeviceGetUUID": lambda handle: handle if isinstance(handle, str) else f"GPU-{handle}",
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=9728 << 20),
        **more,
    }
    module = nvml(**given)
    module.nvmlDeviceGetCount = lambda: 2
    module.nvmlDeviceGetName = lambda handle: names[handle]
    module.nvmlDeviceGetMigMode = lambda handle: (1, 1) if handle == 0 else refuse()
    return module


def test_slices_are_reported_with_their_device() -> None:
    first, second = list_inventory(cut_device())
    assert first["mig"] is True
    assert first["slices"] == [
        {"uuid": "MIG-one", "profile": "1g.10gb", "memory_bytes": 9728 << 20},
        {"uuid": "MIG-two", "profile": "2g.20gb", "memory_bytes": 9728 << 20},
    ]
    assert "slices" not in second


def test_whatever_computes_on_any_slice_of_the_device_counts_once() -> None:
    """Without privileges a driver shows nothing of a whole device that is cut."""
    pids = {"MIG-one": [7, 8], "MIG-two": [8]}

    def running(handle: Any) -> list[Any]:
        if handle == 0:
            raise NoNvmlError
        return [SimpleNamespace(pid=pid) for pid in pids.get(handle, ())]

    module = cut_device(nvmlDeviceGetComputeRunningProcesses=running)
    assert list(list_computing(module, 1, "MIG-two")) == [(0, 7), (0, 8)]


@pytest.mark.parametrize(
    ("wanted", "chosen", "found"),
    [
        (["1g.10gb"], None, ["MIG-a2"]),
        (["3g.40gb", "1g.10gb", "1g.10gb", "1g.10gb"], None, ["MIG-a1", "MIG-a2", "MIG-b1", "MIG-b2"]),
        (["1g.10gb"], "1", ["MIG-b1"]),
        (["1g.10gb"], "GPU-b", ["MIG-b1"]),
        (["1g.10gb", "1g.10gb"], "MIG-b2,MIG-a2", ["MIG-a2", "MIG-b2"]),
    ],
)
def test_slices_are_chosen_by_profile_if_visible(wanted: list[str], chosen: str | None, found: list[str]) -> None:
    assert [part["uuid"] for part in choose_slices(wanted, list_slices(TWO), chosen)] == found


@pytest.mark.parametrize(
    ("wanted", "chosen", "have"),
    [
        (["3g.40gb", "3g.40gb"], None, "1x 3g.40gb, 3x 1g.10gb"),
        (["1g.10gb"], "GPU-c", "none"),
        (["1g.10gb"], "MIG-GPU-a/1/0", "none"),
        (["1g.10gb", "1g.10gb"], "0", "1x 3g.40gb, 1x 1g.10gb"),
    ],
)
def test_too_few_slices_are_refused_with_what_is_there(wanted: list[str], chosen: str | None, have: str) -> None:
    with pytest.raises(HarnessError) as raised:
        choose_slices(wanted, list_slices(TWO), chosen)
    assert raised.value.problem == f"the run needs {write_slices(wanted)} MIG slices, but {have} can be used here"


def test_samples_are_read_where_they_were_written() -> None:
    whole = np.arange(12, dtype=np.float16).reshape(3, 4)
    some = Ragged([np.arange(5, dtype=np.uint8), np.zeros((0, 2), np.int64), np.ones((2, 2), np.int64)])
    memory = SharedSamples({"whole": whole, "some": some})
    there = map_samples(memory.layout, memory.descriptor)
    memory.close()
    assert there["whole"].dtype == whole.dtype
    assert np.array_equal(there["whole"], whole)
    assert [array.shape for array in there["some"]] == [(5,), (0, 2), (2, 2)]
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(some, there["some"], strict=True))
