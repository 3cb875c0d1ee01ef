"""The backend "tensorrt-rtx": build and load engines of TensorRT for RTX, by the code shared with ``tensorrt``."""

from __future__ import annotations

from functools import partial

from harness.backends.tensorrt.building import build_engine
from harness.backends.tensorrt.execution import open_engine
from harness.backends.tensorrt.versions import load_flavour

_FLAVOUR = load_flavour("tensorrt-rtx")

facts = _FLAVOUR.facts
build = partial(build_engine, _FLAVOUR)
load = partial(open_engine, _FLAVOUR)
