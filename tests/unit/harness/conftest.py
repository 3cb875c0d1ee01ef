"""A tiny benchmark's artifacts, built once by real children."""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.shared import make_once
from tests.unit.harness.children import Children

ENGINES = ("onnxruntime", "openvino")
BACKENDS = ("null", *ENGINES)


@pytest.fixture
def children(tmp_path: Path) -> Children:
    return Children(tmp_path)


@pytest.fixture(scope="module")
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data/ and models/ of a rehearsal: ``REHEARSED`` of a module is its benchmark and its samples."""
    from tests.unit.harness.generated import generate  # needs NumPy

    return generate(tmp_path_factory, *request.module.REHEARSED)


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of ``made`` that a test may change."""
    return Path(shutil.copytree(made, tmp_path / "made"))


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """A copy of the data in ``made`` that a test may change."""
    return Path(shutil.copytree(made / "data", tmp_path / "data"))


class Artifacts:
    """The tiny benchmark's files; each is built once in a session, when it is first asked for."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory

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
        def build(folder: Path) -> Path:
            ended = Children(folder).build(kind, **request)
            assert ended.result.done, ended.output
            return ended.folder / "artifact"

        return make_once(self._factory, f"tiny-{sha256(name.encode()).hexdigest()[:16]}", build)


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    pytest.importorskip("mlperf_loadgen")
    return Artifacts(tmp_path_factory)
