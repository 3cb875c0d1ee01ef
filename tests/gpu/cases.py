"""The measured shapes, and the child processes and programs that measure them. Artifacts are built once per folder."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.contract import Benchmark
from tests.benchmarks.children import bare, build, read_detail, run, write_conf

HERE = Path(__file__).parent
WORK = Path(os.environ.get("GPU_WORK", tempfile.gettempdir())) / "gpu-work"
PROGRAMS = ("pytorch", "pytorch-cuda")
"""Backends that build engines from programs; $PROGRAM_OPTIONS adds settings of theirs, as JSON."""
RUN_OPTIONS: dict[str, Any] = json.loads(os.environ.get("RUN_OPTIONS", "{}"))
"""$RUN_OPTIONS: settings of every run, as JSON."""
LEVEL = int(os.environ.get("GPU_LEVEL", "3"))
"""TensorRT's optimisation level; lower while developing."""


@dataclass(frozen=True)
class Shape:
    """``samples``: input -> shape of a sample and dtype, as the engine takes it. ``engine``: its settings other than
    the batch. ``bound``: Server's latency limit in ms.

    ``server``: backend -> batch sizes, streams, lanes and queue delays (microseconds) to try. Waiting is shortest if a
    batch is assembled exactly while the previous one is computed; the delays are chosen for this. ``calls``: rows of
    the engine per sample on average, over complete permutations of ``volumes`` samples.
    """

    file: str
    dataset: dict[str, Any]
    model: dict[str, Any]
    engine: dict[str, Any]
    samples: dict[str, tuple[list[int], str]]
    batch: int
    bound: int = 100
    server: dict[str, tuple[tuple[int, int, int, int], ...]] = field(default_factory=dict)
    calls: float = 1.0
    volumes: int = 0


_IMAGE, _WINDOW, _LARGE = [3, 224, 224], [1, 128, 128, 128], [3, 800, 800]
_HALF = {"precision": "fp16", "half_inputs": True}
_INT8 = {"precision": "int8", "input_scale": "0.03125"}
_CALLS = 2761 / 43  # windows of all volumes of tests.gpu.unet3d_volumes
SHAPES = {
    "resnet-fp16": Shape(
        "resnet.py",
        {"dtype": "float16"},
        {},
        _HALF,
        {"image": (_IMAGE, "float16")},
        256,
        15,
        {
            "tensorrt": ((256, 1, 2, 2500), (192, 1, 2, 2500), (256, 1, 2, 0), (128, 2, 2, 0)),
            "onnxruntime-cuda": ((64, 1, 2, 3200), (43, 1, 2, 3000)),  # it pads every batch to the largest
            "pytorch-cuda": ((128, 1, 2, 3000), (192, 1, 2, 5000), (64, 2, 2, 0)),
        },
    ),
    "resnet-int8": Shape(
        "resnet.py",
        {"dtype": "int8"},
        {**_INT8, "compare_count": 8},
        {"precision": "int8"},
        {"image": (_IMAGE, "int8")},
        256,
        15,
        {"tensorrt": ((128, 2, 2, 0), (256, 1, 2, 1000), (192, 1, 2, 1500))},
    ),
    "bert-fp16": Shape(
        "bert.py",
        {"count": 512},
        {},
        {"precision": "fp16", "sequence_lengths": "384"},
        {"input_ids": ([384], "int32"), "attention_mask": ([384], "int32")},
        66,  # 22 * 384 tokens are 33 tiles of 256: batches of 22, 44 and 66 fill the 132 multiprocessors of a Hopper
        130,
        {
            "tensorrt": ((44, 1, 2, 22000), (66, 1, 2, 34000), (44, 1, 2, 0)),
            "pytorch-cuda": ((44, 1, 2, 16000), (66, 1, 2, 26000), (32, 1, 2, 0)),
        },
    ),
    "unet3d-fp16": Shape("unet3d.py", {"dtype": "float16"}, {}, _HALF, {"input": (_WINDOW, "float16")}, 8),
    "unet3d-volumes": Shape(
        "unet3d_volumes.py",
        {"dtype": "float16"},
        {},
        _HALF,
        {"input": (_WINDOW, "float16")},
        8,
        calls=_CALLS,
        volumes=43,
    ),
    "unet3d-int8": Shape(
        "unet3d_volumes.py",
        {"dtype": "int8"},
        {**_INT8, "compare_count": 1},
        {"precision": "int8"},
        {"input": (_WINDOW, "int8")},
        8,
        calls=_CALLS,
        volumes=43,
    ),
    "retinanet-fp16": Shape(
        "retinanet.py",
        {"dtype": "float16"},
        {},
        _HALF,
        {"images": (_LARGE, "float16")},
        32,
        100,
        {"tensorrt": ((16, 1, 2, 0), (24, 1, 2, 8000), (8, 2, 2, 0))},
    ),
    "retinanet-int8": Shape(
        "retinanet.py",
        {"dtype": "int8"},
        {**_INT8, "compare_count": 2},
        {"precision": "int8"},
        {"images": (_LARGE, "int8")},
        32,
        100,
        {"tensorrt": ((16, 1, 2, 0), (24, 1, 2, 4000), (32, 1, 2, 8000))},
    ),
    "small-fp16": Shape(
        "resnet.py",
        {"dtype": "float16", "side": 64},
        {"blocks": "1,1,1,1", "side": 64},
        _HALF,
        {"image": ([3, 64, 64], "float16")},
        64,
    ),
    "small-unet3d": Shape(
        "unet3d.py",
        {"dtype": "float16", "side": 32},
        {"widths": "16,32,64", "side": 32},
        _HALF,
        {"input": ([1, 32, 32, 32], "float16")},
        16,
    ),
    "small-unet3d-int8": Shape(
        "unet3d.py",
        {"dtype": "int8", "side": 32},
        {"widths": "16,32,64", "side": 32, **_INT8},
        {"precision": "int8"},
        {"input": ([1, 32, 32, 32], "int8")},
        16,
    ),
    "small-volumes": Shape(
        "unet3d_volumes.py",
        {"volumes": 2},
        {"widths": "2,4"},
        {"precision": "fp32"},
        {"input": (_WINDOW, "float32")},
        4,
        calls=5.0,
        volumes=2,
    ),
    "small-retinanet": Shape(
        "retinanet.py",
        {"dtype": "float16", "side": 128},
        {"side": 128, "blocks": "1,1,1,1"},
        _HALF,
        {"images": ([3, 128, 128], "float16")},
        16,
    ),
    "small-int8": Shape(
        "resnet.py",
        {"dtype": "int8", "side": 64},
        {"blocks": "1,1,1,1", "side": 64, **_INT8},
        {"precision": "int8"},
        {"image": ([3, 64, 64], "int8")},
        64,
    ),
    "small-bert": Shape(
        "bert.py",
        {"count": 64, "length": 96},
        {"layers": 2, "hidden": 256},
        {"precision": "fp16", "sequence_lengths": "64,128"},
        {"input_ids": ([96], "int32"), "attention_mask": ([96], "int32")},
        16,
    ),
}


class Case:
    """A shape on a backend; ``batch`` replaces the shape's."""

    def __init__(self, name: str, backend: str = "tensorrt", batch: int = 0) -> None:
        self.name, self.backend, self.shape = name, backend, SHAPES[name]
        self._engine_name = f"engine-{backend}"
        if batch:
            self._engine_name += f"-{batch}"
            self.shape = replace(self.shape, batch=batch)
        path = HERE / self.shape.file
        self.benchmark = Benchmark(name=path.stem, path=str(path))
        WORK.mkdir(parents=True, exist_ok=True)

    @cached_property
    def dataset(self) -> Path:
        return self._made("Dataset", "dataset", settings=self.shape.dataset)

    @cached_property
    def model(self) -> Path:
        settings, name = self.shape.model, "model"
        if self.backend in PROGRAMS:
            length = next(iter(self.shape.samples.values()))[0][0]
            settings, name = {**settings, "program": length}, "program"
        return self._made("Model", name, settings=settings, inputs={"dataset": str(self.dataset)})

    @cached_property
    def engine(self) -> Path:
        settings = {**self.shape.engine, "batch_size": self.shape.batch}
        if self.backend == "tensorrt":
            settings["optimization_level"] = LEVEL
        else:
            settings.pop("sequence_lengths", None)
        if self.backend in PROGRAMS:
            settings |= json.loads(os.environ.get("PROGRAM_OPTIONS", "{}"))
        return self._made(
            "Engine",
            self._engine_name,
            backend=self.backend,
            settings=settings,
            inputs={"model": str(self.model)},
            caches={"timing": str(WORK / "timing.cache")},
        )

    def _made(self, kind: str, name: str, **request: Any) -> Path:
        folder = WORK / f"{self.name}-{name}"
        if not (folder / ".whole").exists():
            shutil.rmtree(folder, ignore_errors=True)
            made = build(WORK, kind, self.benchmark, **request)
            (made / ".whole").touch()
            made.rename(folder)
        return folder

    def bare(self, program: str, **settings: Any) -> dict[str, Any]:
        names = self.shape.samples
        files = {name: name if len(names) > 1 else "samples" for name in names}
        given = {
            "engine": str(self.engine),
            "backend": self.backend,
            "samples": {name: str(self.dataset / f"{file}.npy") for name, file in files.items()},
            "batch": self.shape.batch,
            "seconds": 4,
            "run_options": RUN_OPTIONS,
            **settings,
        }
        return bare(program, given, WORK, "tests.gpu.bare")

    def run(self, scenario: Any, conf: dict[str, Any], **settings: Any) -> dict[str, Any]:
        return run(
            WORK,
            scenario,
            benchmark=self.benchmark,
            backend=self.backend,
            dataset=self.dataset,
            engine=self.engine,
            conf=conf,
            settings={"batch_size": self.shape.batch, **RUN_OPTIONS, **settings},
        )

    def plain(self, scenario: str, count: int) -> dict[str, Any]:
        place = Path(tempfile.mkdtemp(dir=WORK))
        conf = {"min_duration": 0, "min_query_count": count, "target_qps": 1, "target_latency": 1}
        write_conf(place / "user.conf", scenario, conf)
        batch = self.shape.batch if scenario == "Offline" else 1
        self.bare("plain", batch=batch, conf=str(place / "user.conf"), log_dir=str(place), scenario=scenario)
        return read_detail(place)
