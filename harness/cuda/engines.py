"""The protocol of an engine in the CUDA pipeline: what a library (TensorRT, ONNX Runtime, PyTorch) must offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from harness.backends import Tensor
from harness.cuda.driver import Device, DeviceMemory, Stream

Enqueue = Callable[[], None]
"""Puts the work of one batch on its stream, between fixed buffers."""


class Compute(Protocol):
    """An engine bound to the buffers of one lane and to one stream."""

    def prepare(self, size: int) -> Enqueue:
        """The work of a batch of exactly ``size`` samples. It is run once before it is used or captured."""


class LoadedEngine(Protocol):
    """An engine on one device."""

    @property
    def batch_size(self) -> int:
        """The largest batch."""

    @property
    def batch_sizes(self) -> Sequence[int]:
        """The only sizes that it computes; empty for any up to ``batch_size``."""

    @property
    def inputs(self) -> Sequence[Tensor]: ...

    @property
    def capturable(self) -> bool:
        """True where its work may be captured in a CUDA graph."""

    @property
    def notes(self) -> Mapping[str, Any]: ...

    def list_outputs(self, inputs: Sequence[tuple[int, ...]]) -> Sequence[Tensor]:
        """The outputs, shaped for samples of these shapes."""

    def estimate_memory(self, inputs: Sequence[tuple[int, ...]]) -> int:
        """Estimate the bytes that computing takes on the device for each stream, without the buffers of the lanes."""

    def open(
        self,
        shapes: Sequence[tuple[int, ...]],
        inputs: Sequence[DeviceMemory],
        outputs: Sequence[DeviceMemory],
        stream: Stream,
    ) -> Compute:
        """Bind to a lane. ``shapes``: of one sample of each input. Lanes on one stream never compute at once."""


Loader = Callable[[Device], LoadedEngine]
