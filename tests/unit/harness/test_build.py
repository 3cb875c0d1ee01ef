"""What a build leaves and says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from harness.backends import BackendEngine, Tensor, load_backend
from harness.child.digests import hash_file
from harness.errors import HarnessError
from tests.unit.harness import tiny
from tests.unit.harness.children import Children
from tests.unit.harness.conftest import ENGINES, Artifacts


def test_dataset_has_a_manifest_of_its_files(children: Children) -> None:
    ended = children.build("Dataset")
    folder = ended.folder / "artifact"
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["count"] == ended.result.values["count"] == tiny.COUNT
    assert manifest["arrays"] == {"samples": [[4], "float32"]}
    assert manifest["files"] == {name: hash_file(folder / name) for name in ("samples.npy", "labels.npy")}
    assert ended.result.values["marks"] == ["synthetic"]
    assert np.array_equal(np.load(folder / "samples.npy"), tiny.points())


@pytest.mark.parametrize(("tokens", "problem"), [(True, None), (False, "wrote neither model.onnx nor model.pt2")])
def test_generators_have_formats(tokens: bool, problem: str | None, children: Children, tmp_path: Path) -> None:
    talk = tmp_path / "talk.py"
    source = """
def build_dataset(*_): ...
def build_model(_source, _settings, _inputs, output, _counter): (output / "weights.bin").write_bytes(b"1")
def load_samples(*_): ...
def score(*_): ...
"""
    talk.write_text(f"TOKENS = {tokens}\nOUTPUTS = {{}}\n{source}def preprocess(*_): ...\ndef postprocess(*_): ...\n")
    result = children.build("Model", benchmark=talk).result
    assert result.done is (problem is None)
    assert (problem or "") in (result.problem or "")
    assert problem or list(result.values["files"]) == ["weights.bin"]


@pytest.mark.parametrize("backend", ENGINES)
def test_engine_says_what_it_is(backend: str, artifacts: Artifacts) -> None:
    engine = BackendEngine.read(artifacts.engine(backend), backend)
    assert engine.inputs == (Tensor("point", (4,), "float32"),)
    assert engine.outputs == (Tensor("scores", (5,), "float32"),)
    assert (engine.batch_size, engine.batch_sizes, engine.precision) == (8, (), "fp32")
    assert engine.version
    assert (artifacts.engine(backend) / engine.file).is_file()


@pytest.mark.parametrize("backend", ENGINES)
def test_engine_builds_are_repeatable(backend: str, children: Children, artifacts: Artifacts) -> None:
    pytest.importorskip(backend)
    inputs = {"model": str(artifacts.model())}
    builds = [children.build("Engine", backend=backend, inputs=inputs).result.values["files"] for _ in range(2)]
    assert builds[0] == builds[1]


def test_precision_that_a_backend_does_not_build(children: Children, artifacts: Artifacts) -> None:
    inputs, settings = {"model": str(artifacts.model())}, {"precision": "int4"}
    result = children.build("Engine", backend="onnxruntime", inputs=inputs, settings=settings).result
    assert (result.done, result.problem_class) == (False, "input")
    assert "fp32" in result.fix


def test_source_that_is_not_there(children: Children) -> None:
    result = children.build("Dataset", source="/no/such/folder").result
    assert (result.done, result.problem_class) == (False, "missing")
    assert "/no/such/folder" in result.problem


def test_a_pointer_of_git_lfs_is_no_source(children: Children, tmp_path: Path) -> None:
    pointer = tmp_path / "net.onnx"
    pointer.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 9\n")
    result = children.build("Model", source=str(pointer)).result
    assert not result.done
    assert "git lfs pull" in (result.fix or "")


@pytest.mark.parametrize("name", ["nothing", "external", "command"])
def test_a_backend_that_runs_nothing_here_is_unknown(name: str) -> None:
    with pytest.raises(HarnessError, match="unknown backend"):
        load_backend(name)
