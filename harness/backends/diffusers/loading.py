"""Load a pipeline's networks from its folder to one device."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
import transformers
from torch.nn.attention import SDPBackend

from harness.backends import LoadPlan
from harness.backends.image_workers import ImageWorker
from harness.catalog import DiffusersEngineOptions, DiffusersRunOptions, WeightOptions
from harness.errors import HarnessError

PIPE, SCHEDULER = "checkpoint_pipe", "checkpoint_scheduler"  # folders of MLCommons' checkpoint
INDEX = "model_index.json"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.bfloat16}
"""The type of values that are not in fp8, by precision."""
# In order of preference: the first kernel that accepts an input is used.
ATTENTION = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_FIX = "set model.path to the folder of a checkpoint in diffusers' (model_index.json) or MLCommons' format"


@dataclass(frozen=True, slots=True)
class PipelineFolder:
    """``pipe``: the folder with model_index.json; ``scheduler``: the folder that contains scheduler; ``kind``: the
    library's class."""

    pipe: Path
    scheduler: Path
    kind: str


@dataclass(frozen=True, slots=True)
class Networks:
    """``pipe``: a pipeline of the library; its copies share its networks."""

    pipe: Any
    device: torch.device
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class PipelineKind:
    """A supported class of pipelines. ``read``: creates the pipeline with the checkpoint's weights; ``draw``: with
    initial random weights; ``open_worker``: called on the thread that will compute; ``lower``: converts layers of the
    pipeline to fp8, in place."""

    read: Callable[[PipelineFolder, torch.dtype], Any]
    draw: Callable[[PipelineFolder, torch.dtype, torch.device], Any]
    open_worker: Callable[[Networks, Mapping[str, np.ndarray], ImageSettings], ImageWorker]
    lower: Callable[[Any], None] | None = None


def find_checkpoint(plan: LoadPlan, known: Mapping[str, PipelineKind]) -> PipelineFolder:
    """Find the spec's checkpoint; MLCommons' may be two folders. Raises HarnessError if its class is not ``known``."""
    folders = [folder for folder in (plan.source, plan.model) if folder is not None]
    for folder in folders:
        for pipe, scheduler in ((folder / PIPE, folder / SCHEDULER), (folder, folder)):
            if (pipe / INDEX).is_file():
                kind = _read_kind(pipe / INDEX, known)
                return PipelineFolder(pipe, scheduler if scheduler.is_dir() else pipe, kind)
    raise HarnessError(f"{folders[0] if folders else 'the model'} has no {INDEX}", "missing", _FIX)


def _read_kind(path: Path, known: Mapping[str, PipelineKind]) -> str:
    try:
        kind = str(json.loads(path.read_text(encoding="utf-8"))["_class_name"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HarnessError(f"{path} is truncated or not a pipeline's: {error}", "input", _FIX) from error
    if kind not in known:
        raise HarnessError(f"{path} is of a {kind}", "input", f"this backend runs {', '.join(known)}")
    return kind


def choose_devices(plan: LoadPlan) -> list[torch.device]:
    """Choose devices by the run's ``device`` and ``devices``; by default GPUs if PyTorch finds any."""
    options = DiffusersRunOptions(plan.options)
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if options.device == "cpu" or (options.device == "auto" and not there):
        return [torch.device("cpu")]
    if options.devices > there:
        problem = f"the run needs {options.devices} GPUs, but PyTorch finds {there}"
        raise HarnessError(problem, "missing", "check nvidia-smi, that this is a CUDA build of PyTorch, and devices")
    return [torch.device("cuda", index) for index in range(options.devices)]


def load_networks(kind: PipelineKind, checkpoint: PipelineFolder, plan: LoadPlan, device: torch.device) -> Networks:
    """Load the networks. Raises HarnessError if a file is missing or damaged."""
    dtype = DTYPES[plan.precision]
    if plan.precision == "fp8" and kind.lower is None:
        raise HarnessError(f"a {checkpoint.kind} cannot run in fp8", "input", "set engine.precision to bf16")
    diffusers.utils.logging.disable_progress_bar()
    transformers.utils.logging.disable_progress_bar()
    try:
        if WeightOptions(plan.options).random_weights:
            pipe = kind.draw(checkpoint, dtype, device)
        else:
            pipe = kind.read(checkpoint, dtype)
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        problem = f"diffusers cannot load {checkpoint.pipe.name}: {error}"
        raise HarnessError(
            problem, "backend", "download the complete checkpoint, with weights as safetensors"
        ) from error
    pipe.set_progress_bar_config(disable=True)
    pipe.to(device)
    if plan.precision == "fp8" and kind.lower is not None:
        kind.lower(pipe)
    return Networks(pipe, device, dtype)


@contextmanager
def use_dtype_and_device(dtype: torch.dtype, device: torch.device) -> Iterator[None]:
    """Give networks created within this context weights of this type on this device."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:
            yield
    finally:
        torch.set_default_dtype(usual)


def read_config(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return found


def require_shared(shared: Mapping[str, np.ndarray], names: tuple[str, ...]) -> None:
    """Raise HarnessError if the samples do not share the inputs that start their pipeline."""
    missing = [name for name in names if name not in shared]
    if missing:
        problem = f"the dataset has no {missing[0]} that all samples share"
        raise HarnessError(problem, "input", "write load_shared() in the benchmark's file")


# Settings of a pipeline: the benchmark's, overridden by the spec's.

NOT_COMPILED = "none"  # a value of the run option compile; the others are modes of torch.compile


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """``steps``: number of denoising steps; ``guidance``: weight of the distance from the negative prompt.
    ``channels_last``: memory layout of convolutions. For a pipeline with two alternating networks, ``boundary`` is the
    share of noise down to which the first one computes, and ``guidance_2`` is the guidance of the second one."""

    steps: int
    guidance: float
    compiled: str
    channels_last: bool
    guidance_2: float | None = None
    boundary: float | None = None

    @property
    def compile_mode(self) -> str | None:
        return None if self.compiled == "default" else self.compiled

    def limit_steps(self, most: int | None) -> int:
        return self.steps if most is None else min(self.steps, most)


def read_settings(plan: LoadPlan) -> ImageSettings:
    """Read the settings. Raises HarnessError if the benchmark is not one for pipelines."""
    if "steps" not in plan.pipeline:
        problem = "the benchmark defines no pipeline"
        raise HarnessError(problem, "input", "use another backend, or set PIPELINE in its file")
    run = DiffusersRunOptions(plan.options)
    guidance_2, boundary = plan.pipeline.get("guidance_2"), plan.pipeline.get("boundary")
    return ImageSettings(
        DiffusersEngineOptions(plan.options).steps or int(plan.pipeline["steps"]),
        float(plan.pipeline["guidance"]),
        run.compile,
        run.channels_last,
        None if guidance_2 is None else float(guidance_2),
        None if boundary is None else float(boundary),
    )
