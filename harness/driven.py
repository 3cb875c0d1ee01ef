"""What a run hands to LoadGen, whatever computes: batches of tensors, or streams of tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.loadgen import Sut
from harness.qsl import SampleLibrary


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """Loaded and warmed up. ``values``: what the result tells of it afterwards; ``samples``: completed so far;
    ``close`` ends threads and frees devices."""

    sut: Sut
    library: SampleLibrary
    notes: Mapping[str, Any]
    values: Callable[[], dict[str, Any]]
    samples: Callable[[], int]
    close: Callable[[], None]
