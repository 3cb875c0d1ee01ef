"""model.py of a model repository, loaded by Triton's Python backend. It runs inside the server, the only place with the
module that it imports."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as triton

from harness.backends import Tensor
from harness.backends.triton.repository import SERVED
from harness.backends.triton.serving import ServedEngine
from harness.machine.numa import pin_thread_near
from harness.machine.placement import place_workers


class TritonPythonModel:
    """One instance of the model, in its own process.

    Arrays are exchanged by DLPack, since the server's ``as_numpy`` and ``Tensor``, built for NumPy 1, read the strides
    and size of a NumPy 2 array as 0.
    """

    def initialize(self, arguments: Mapping[str, str]) -> None:
        parameters = json.loads(arguments["model_config"])["parameters"]
        served = json.loads(parameters[SERVED]["string_value"])
        if arguments["model_instance_kind"] == "GPU":
            choose_device(int(arguments["model_instance_device_id"]))
        else:
            # The name of an instance consists of its group and its number in that group.
            number = int(arguments["model_instance_name"].rpartition("_")[2])
            place = place_workers(served["instances"], served["threads"])[number]
            pin_thread_near(place.node, place.processors)
            served["threads"] = place.threads
        self._engine = ServedEngine(served)
        self._engine.warm_up()

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        try:
            tensors = self._engine.engine.inputs
            answers = self._engine.compute([[_read(request, tensor) for tensor in tensors] for request in requests])
        except Exception as error:  # any error of the library fails these requests
            failure = triton.TritonError(f"{type(error).__name__}: {error}")
            return [triton.InferenceResponse(output_tensors=[], error=failure) for _ in requests]
        return [self._answer(outputs) for outputs in answers]

    def finalize(self) -> None:
        self._engine.close()

    def _answer(self, outputs: Sequence[np.ndarray]) -> Any:
        tensors = self._engine.engine.outputs
        made = [
            triton.Tensor.from_dlpack(tensor.name, _write(output, tensor))
            for tensor, output in zip(tensors, outputs, strict=True)
        ]
        return triton.InferenceResponse(output_tensors=made)


def choose_device(number: int) -> None:
    """Choose this instance's GPU, the only one visible to its process. The session itself stays near it."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    os.environ["CUDA_VISIBLE_DEVICES"] = seen.split(",")[number].strip() if seen else str(number)


def _read(request: Any, tensor: Tensor) -> np.ndarray:
    array = np.from_dlpack(triton.get_input_tensor_by_name(request, tensor.name))
    return array if tensor.shape else array.reshape(len(array))


def _write(output: np.ndarray, tensor: Tensor) -> np.ndarray:
    return output if tensor.shape else output.reshape(len(output), 1)
