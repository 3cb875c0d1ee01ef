"""What is rendered for a Triton server, and what its answers are taken for: no server, no engine."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.backends import BackendEngine, Tensor
from harness.backends.triton import ServedWork, describe_work
from harness.backends.triton.protocol import (
    SharedInputs,
    find_differences,
    make_request_head,
    read_head,
    read_outputs,
    read_problem,
)
from harness.backends.triton.repository import MODEL, ModelSettings, copy_engine, render_config, write_repository
from harness.backends.triton.server import find_program, list_digested, remove_left_regions, remove_regions
from harness.catalog import BACKENDS, CudaRunOptions
from harness.child.digests import hash_files
from harness.errors import HarnessError
from harness.machine.placement import WorkerPlace

POINT, SCORES = Tensor("point", (4,), "float32"), Tensor("scores", (5,), "float32")
ENGINE = BackendEngine(
    backend="triton",
    version="0.7.0",
    file="made/model.onnx",
    precision="fp32",
    batch_size=8,
    batch_sizes=(),
    inputs=(POINT,),
    outputs=(SCORES,),
    settings={"made_by": "onnxruntime", "made_by_version": "1.20", "served_by": "python"},
)
SETTINGS = ModelSettings(
    instances=2,
    threads=3,
    places=(WorkerPlace(-1, frozenset({0, 1}), 3),) * 2,
    devices=(),
    dynamic_batching=False,
    preferred_batch_sizes=(),
    batch_delay_us=0,
    pinned_memory=True,
    scenario="Offline",
)


def made(made_by: str, served_by: str, file: str = "made/model.onnx", **changed: Any) -> BackendEngine:
    settings = {"made_by": made_by, "made_by_version": "1", "served_by": served_by}
    return replace(ENGINE, settings=settings, file=file, **changed)


def test_python_backend_learns_which_engine_it_loads_and_how() -> None:
    config = render_config(ENGINE, Path('/a "quoted" folder'), SETTINGS)
    assert f'name: "{MODEL}"\nbackend: "python"\nmax_batch_size: 8\n' in config
    assert 'input [ { name: "point" data_type: TYPE_FP32 dims: [ 4 ] } ]' in config
    assert 'output [ { name: "scores" data_type: TYPE_FP32 dims: [ 5 ] } ]' in config
    assert "instance_group [ { count: 2 kind: KIND_CPU } ]" in config
    assert "dynamic_batching" not in config
    found = re.search(r'key: "served" value: \{ string_value: (".*") \}', config)
    assert found is not None
    served = json.loads(json.loads(found[1]))
    assert served["backend"] == "onnxruntime"
    assert served["engine"] == '/a "quoted" folder/made'
    assert (served["batch_size"], served["threads"]) == (8, 3)
    assert served["scenario"] == "Server"  # of two instances: their threads must not spin


def test_repository_holds_the_engine_where_the_server_computes_itself(tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    (folder / "made").mkdir(parents=True)
    for name in ("model.onnx", "weights.bin", "engine.json"):
        (folder / "made" / name).write_text(name)
    write_repository(tmp_path / "own", made("onnxruntime", "own"), folder, SETTINGS)
    write_repository(tmp_path / "python", ENGINE, folder, SETTINGS)
    version = tmp_path / "own" / MODEL / "1"
    assert sorted(path.name for path in version.iterdir()) == ["model.onnx", "weights.bin"]
    assert [path.name for path in (tmp_path / "python" / MODEL / "1").iterdir()] == ["model.py"]


def test_inputs_in_shared_memory_are_named_and_not_sent(tmp_path: Path) -> None:
    samples = [np.arange(40, dtype=np.float32).reshape(10, 4), np.arange(10, dtype=np.int64)]
    shared = SharedInputs("region", samples, 8, tmp_path)
    parts = shared.write([samples[0][2:5], samples[1][2:5]])
    assert [(part.region, part.size) for part in parts] == [("region", 48), ("region", 24)]
    written = (tmp_path / "region").read_bytes()
    assert written[: parts[0].size] == samples[0][2:5].tobytes()
    assert written[parts[1].offset :][: parts[1].size] == samples[1][2:5].tobytes()
    inputs = (POINT, Tensor("label", (), "int64"))
    head = make_request_head("host", "model", inputs, ((3, 4), (3, 1)), (SCORES,), parts)
    lines, _, document = head.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(document)}".encode() in lines
    reported = json.loads(document)["inputs"][1]["parameters"]
    assert reported["shared_memory_offset"] == parts[1].offset
    shared.close()
    assert not list(tmp_path.iterdir())


def place_strange_files(folder: Path, ending: str) -> None:
    """What no copy and no digest can be made of: a pipe, a device, and links that lead nowhere or back."""
    os.mkfifo(folder / f"pipe{ending}")
    for name, target in {"device": "/dev/zero", "nowhere": "none", "circle": f"circle{ending}"}.items():
        (folder / f"{name}{ending}").symlink_to(target)
    (folder / f"folder{ending}").mkdir()


def test_an_installed_server_is_known_by_its_regular_files_alone(tmp_path: Path) -> None:
    for name in ("bin/tritonserver", "backends/one/libtriton_one.so", "lib/libtritonserver.so"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(name.encode())
    place_strange_files(tmp_path / "backends/one", ".so")
    os.mkfifo(tmp_path / "lib/libtritonserver.so.2")
    program = find_program(str(tmp_path / "bin/tritonserver"))
    assert program is not None
    names = {path.relative_to(tmp_path).as_posix() for path in list_digested(program)}
    assert names == {"bin/tritonserver", "backends/one/libtriton_one.so", "lib/libtritonserver.so"}
    assert len(hash_files(program.root, list_digested(program))) == 64


def test_an_engine_is_copied_with_weights_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "model").mkdir()
    for name in ("net.onnx", "weights.bin", "engine.json"):
        (tmp_path / "made" / name).write_bytes(name.encode())
    place_strange_files(tmp_path / "made", ".bin")
    copy_engine(tmp_path / "made/net.onnx", tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["net.onnx", "weights.bin"]
    free = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free._replace(free=18))
    with pytest.raises(HarnessError, match=r"the engine needs 19 bytes, but .* has only 18 free"):
        copy_engine(tmp_path / "made/net.onnx", tmp_path / "model")


def answer(*outputs: tuple[str, np.ndarray]) -> tuple[bytes, memoryview]:
    types = {"float32": "FP32", "int64": "INT64"}
    said = [
        {
            "name": name,
            "datatype": types[array.dtype.name],
            "shape": list(array.shape),
            "parameters": {"binary_data_size": array.nbytes},
        }
        for name, array in outputs
    ]
    return json.dumps({"outputs": said}).encode(), memoryview(b"".join(array.tobytes() for _, array in outputs))


def test_outputs_come_in_the_order_of_the_engine() -> None:
    scores, label = np.arange(10, dtype=np.float32).reshape(2, 5), np.array([[7], [8]])
    document, data = answer(("label", label), ("scores", scores))
    found = read_outputs(document, data, (SCORES, Tensor("label", (), "int64")), 2)
    assert np.array_equal(found[0], scores)
    assert found[1].tolist() == [7, 8]


def test_answer_of_another_protocol_is_refused() -> None:
    for document in (
        b"<html>",
        b"[" * 200_000,
        b'{"outputs": [{"parameters": {"binary_data_size": 1e400}, "shape": [1]}]}',
    ):
        with pytest.raises(HarnessError, match="KServe"):
            read_outputs(document, memoryview(b""), (SCORES,), 1)
    with pytest.raises(ValueError, match="not an HTTP response"):
        read_head(b"SSH-2.0-OpenSSH\r\n\r\n")
    assert read_problem(b'{"error": "no memory"}') == "no memory"
    assert read_problem(b"Bad gateway") == "Bad gateway"


def test_differences_name_what_differs() -> None:
    fits = {
        "inputs": [{"name": "point", "datatype": "FP32", "shape": [-1, -1]}],
        "outputs": [{"name": "scores", "datatype": "FP32", "shape": [-1, 5]}],
    }
    assert find_differences(fits, (POINT,), (SCORES,)) == ""
    assert "no output scores" in find_differences({**fits, "outputs": []}, (POINT,), (SCORES,))
    assert "FP32 [3] per sample" in find_differences(
        {**fits, "inputs": [{"name": "point", "datatype": "FP32", "shape": [-1, 3]}]}, (POINT,), (SCORES,)
    )


def test_work_is_counted_between_two_readings() -> None:
    before = ServedWork({"request_success": 10, "count": 30}, {1: 2, 8: 3})
    found = describe_work(before, ServedWork({"request_success": 12, "count": 40}, {1: 2, 4: 1, 8: 6}))
    assert (found["server.request_success"], found["server.count"]) == (2, 10)
    assert found["server.batches"] == {"4": 1, "8": 3}


def test_shared_memory_of_runs_that_are_gone_is_removed(tmp_path: Path) -> None:
    mine, gone, others = f"mlperf_triton_{os.getpid()}_a_1", "mlperf_triton_999999999_b_1", "psm_123"
    for name in (mine, gone, others):
        (tmp_path / name).touch()
    remove_left_regions(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([mine, others])
    remove_regions(mine[:-1], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [others]


def test_devices_are_an_option_as_for_other_backends() -> None:
    assert BACKENDS["triton"].run["devices"] is CudaRunOptions.devices
