"""GPU faults are reported with a reason and a fix: too little memory, an unsuitable engine, missing evidence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from tests.gpu.cases import Case
from tests.gpu.test_outputs import Answers, fresh, opened

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def case() -> Case:
    pytest.importorskip("tensorrt_bindings")
    return Case("small-fp16")


def test_out_of_memory_is_reported_with_a_batch(case: Case) -> None:
    """The engine is loaded, then another program allocates the rest of the device's memory."""
    session = opened(case, "Server", Answers())
    device = session.workers[0].device
    kept = all_memory(device)
    try:
        with pytest.raises(HarnessError, match="out of memory") as caught:
            session.place(fresh(case))
        assert caught.value.problem_class == "resources"
        print(caught.value.problem, "|", caught.value.fix)
    finally:
        device.activate()
        for memory in kept:
            device.free(memory)


def all_memory(device: Any) -> list[Any]:
    """Allocate device memory until not even a small block is left."""
    from harness.cuda.driver import DeviceMemoryError

    kept, size = [], 2**36
    while size >= 2**16:
        try:
            kept.append(device.allocate(size))
        except DeviceMemoryError:
            size //= 2
    return kept


def changed(case: Case, folder: Path, **changes: Any) -> None:
    shutil.copytree(case.engine, folder, dirs_exist_ok=True)
    document = json.loads((folder / "engine.json").read_text())
    document["settings"]["tensorrt"].update({k: v for k, v in changes.items() if k != "version"})
    document.update({k: v for k, v in changes.items() if k == "version"})
    (folder / "engine.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": "8.5.2"}, "made by TensorRT 8.5.2"),
        ({"compute_capability": [8, 7]}, "compute capability 8.7"),
        ({"flavour": "tensorrt-rtx"}, "made by tensorrt-rtx"),
    ],
)
def test_an_engine_that_does_not_fit_is_refused(
    case: Case, tmp_path: Path, change: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(case, tmp_path, **change)
    monkeypatch.setitem(case.__dict__, "engine", tmp_path)
    with pytest.raises(HarnessError, match=text):
        opened(case, "Offline", Answers())


def test_a_damaged_engine_is_refused(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(case.engine, tmp_path, dirs_exist_ok=True)
    plan = tmp_path / "model.plan"
    plan.write_bytes(plan.read_bytes()[:5000])
    monkeypatch.setitem(case.__dict__, "engine", tmp_path)
    with pytest.raises(HarnessError, match="cannot load"):
        opened(case, "Offline", Answers())
