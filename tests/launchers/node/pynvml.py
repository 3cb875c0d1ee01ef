# ruff: noqa: N802
"""As much of NVML as reports the GPUs that ``nodes.json`` gives a node: name, power limit, driver, processes."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

NVML_CLOCK_SM = 1
_NODE = json.loads(Path(os.environ["NODES"]).read_text(encoding="utf-8")).get(os.environ["NODE_NAME"], {})


class NVMLError(Exception):
    pass


def nvmlInit():
    if not _NODE.get("gpus"):
        raise NVMLError("no driver")


def nvmlShutdown():
    pass


def nvmlSystemGetDriverVersion():
    return _NODE.get("driver", "580.1")


def nvmlDeviceGetCount():
    return len(_NODE["gpus"])


def nvmlDeviceGetHandleByIndex(index):
    return _NODE["gpus"][index]


def nvmlDeviceGetName(gpu):
    return gpu["name"]


def nvmlDeviceGetEnforcedPowerLimit(gpu):
    return gpu["watts"] * 1000


def nvmlDeviceGetComputeRunningProcesses(gpu):
    return [SimpleNamespace(pid=pid) for pid in gpu.get("pids", ())]
