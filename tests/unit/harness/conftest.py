"""A tiny benchmark's artifacts, built once by real children."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.harness.children import Children

ENGINES = ("onnxruntime", "openvino")
BACKENDS = ("null", *ENGINES)


@pytest.fixture
def children(tmp_path: Path) -> Children:
    return Children(tmp_path)


class Artifacts:
    """The tiny benchmark's files; engines are built when first asked for."""

    def __init__(self, folder: Path) -> None:
        self._children = Children(folder)
        self._made: dict[str, Path] = {}

    def dataset(self) -> Path:
        return self._make("Dataset", "Dataset")

    def model(self) -> Path:
        pytest.importorskip("onnx")
        return self._make("Model", "Model", inputs={"dataset": str(self.dataset())})

    def program(self) -> Path:
        return self._make("Program", "Model", settings={"program": True})

    def engine(self, backend: str, **settings: Any) -> Path:
        pytest.importorskip({"pytorch": "torch", "triton": "onnxruntime"}.get(backend, backend))
        settings = {"batch_size": 8, **settings}
        inputs = {"model": str(self.program() if backend == "pytorch" else self.model())}
        return self._make(f"{backend}{settings}", "Engine", backend=backend, settings=settings, inputs=inputs)

    def inputs(self, backend: str) -> dict[str, str]:
        """What a run of a backend is given."""
        inputs = {"dataset": str(self.dataset())}
        return inputs if backend == "null" else {**inputs, "engine": str(self.engine(backend))}

    def _make(self, name: str, kind: str, **request: Any) -> Path:
        if name not in self._made:
            ended = self._children.build(kind, **request)
            assert ended.result.done, ended.output
            self._made[name] = ended.folder / "artifact"
        return self._made[name]


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    pytest.importorskip("mlperf_loadgen")
    return Artifacts(tmp_path_factory.mktemp("tiny"))
