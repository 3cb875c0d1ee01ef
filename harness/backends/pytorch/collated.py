"""Compiled programs on GPUs whose batches are made as they run: no two have the same shapes, so that there are neither
lasting buffers nor graphs. A thread for each stream makes a batch, copies it and waits for its answers; while one makes
a batch, what another has made is computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from harness.backends import LoadPlan, Outputs
from harness.backends.pytorch.cpu import read_engine
from harness.backends.pytorch.packages import CompiledModel, name_package
from harness.backends.streams import StreamSession
from harness.cuda.driver import Device, copy
from harness.cuda.pipeline import chosen
from harness.run.qsl import Rows, count_rows


class CollatedCudaSession(StreamSession):
    """Each device has one copy of the weights, and ``streams`` streams."""

    def __init__(self, plan: LoadPlan, folder: Path, name: str) -> None:
        engine = read_engine(folder, name)
        devices = chosen(int(plan.options.get("devices", 1)))
        super().__init__(plan, engine, workers=plan.streams * len(devices))
        tf32 = bool(engine.settings.get("tf32", False))
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        self._models = [
            CompiledModel(folder / name_package(0), "cuda", index=device, at_once=plan.streams) for device in devices
        ]
        self._queues = [torch.cuda.Stream(device) for device in devices for _ in range(plan.streams)]
        self.notes = {**self.notes, "devices": [Device(device).bus for device in devices]}

    def close(self) -> None:
        super().close()
        for model in self._models:
            model.close()

    def _run(self, stream: int, rows: Rows) -> Outputs:
        arrays = self._staging[stream].batch(rows)
        queue = self._queues[stream]
        with torch.cuda.stream(queue):  # and on its device
            given = [torch.from_numpy(array).to(queue.device) for array in arrays]
            blobs = [(g.data_ptr(), array.shape, array.dtype.name) for g, array in zip(given, arrays, strict=True)]
            answers = self._models[queue.device.index].run(blobs, queue.cuda_stream)
            try:
                outputs = []
                for (address, elements), tensor in zip(answers.list_addresses(), self._engine.outputs, strict=True):
                    found = np.empty(elements, tensor.dtype)
                    copy(found.ctypes.data, address, found.nbytes, queue.cuda_stream)
                    outputs.append(found.reshape(-1, *tensor.shape))
                queue.synchronize()
            finally:
                answers.release()
        return [found[: count_rows(rows)] for found in outputs]
