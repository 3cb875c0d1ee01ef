"""The networks of a pipeline, from its folder on disk, on one device."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers

from harness.backends import LoadPlan
from harness.errors import HarnessError

PIPE, SCHEDULER = "checkpoint_pipe", "checkpoint_scheduler"  # folders of MLCommons' checkpoint
INDEX = "model_index.json"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
RANDOM_WEIGHTS = "random_weights"
_CLASSES = {"StableDiffusionXLPipeline": diffusers.StableDiffusionXLPipeline}
_FIX = "name the folder of a checkpoint in diffusers' format (model_index.json), or MLCommons', as model.path"


@dataclass(frozen=True, slots=True)
class PipelineFolder:
    """``pipe``: the folder with model_index.json; ``scheduler``: with the folder scheduler."""

    pipe: Path
    scheduler: Path
    kind: str


@dataclass(frozen=True, slots=True)
class Networks:
    """``pipe``: a pipeline of the library, whose networks its copies share."""

    pipe: Any
    device: torch.device
    dtype: torch.dtype


def find_checkpoint(plan: LoadPlan) -> PipelineFolder:
    """What the spec names; MLCommons' checkpoint is two folders."""
    folders = [folder for folder in (plan.source, plan.model) if folder is not None]
    for folder in folders:
        for pipe, scheduler in ((folder / PIPE, folder / SCHEDULER), (folder, folder)):
            if (pipe / INDEX).is_file():
                return PipelineFolder(pipe, scheduler if scheduler.is_dir() else pipe, _read_kind(pipe / INDEX))
    raise HarnessError(f"{folders[0] if folders else 'the model'} has no {INDEX}", "missing", _FIX)


def _read_kind(path: Path) -> str:
    try:
        kind = str(json.loads(path.read_text(encoding="utf-8"))["_class_name"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HarnessError(f"{path} is cut off or not a pipeline's: {error}", "input", _FIX) from error
    if kind not in _CLASSES:
        raise HarnessError(f"{path} is of a {kind}", "input", f"this backend runs {', '.join(_CLASSES)}")
    return kind


def choose_devices(plan: LoadPlan) -> list[torch.device]:
    """As ``device`` and ``devices`` of the run say: by default GPUs where PyTorch finds any."""
    asked = str(plan.options.get("device", "auto"))
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked == "cpu" or (asked == "auto" and not there):
        return [torch.device("cpu")]
    count = int(plan.options.get("devices") or 1)
    if count > there:
        problem = f"the run takes {count} GPUs, and PyTorch finds {there}"
        raise HarnessError(problem, "missing", "check nvidia-smi, that this is a CUDA build of PyTorch, and devices")
    return [torch.device("cuda", index) for index in range(count)]


def load_networks(checkpoint: PipelineFolder, plan: LoadPlan, device: torch.device) -> Networks:
    """Raises HarnessError where a file is missing or broken."""
    dtype = DTYPES[plan.precision]
    kind = _CLASSES[checkpoint.kind]
    diffusers.utils.logging.disable_progress_bar()
    transformers.utils.logging.disable_progress_bar()
    try:
        scheduler = diffusers.EulerDiscreteScheduler.from_pretrained(
            checkpoint.scheduler, subfolder="scheduler", local_files_only=True
        )
        if plan.options.get(RANDOM_WEIGHTS):
            parts = draw_networks(checkpoint.pipe, dtype, device)
            pipe = kind(**parts, scheduler=scheduler, tokenizer=None, tokenizer_2=None, add_watermarker=False)
        else:
            pipe = kind.from_pretrained(
                checkpoint.pipe,
                scheduler=scheduler,
                tokenizer=None,
                tokenizer_2=None,
                add_watermarker=False,
                torch_dtype=dtype,
                use_safetensors=True,
                variant=choose_variant(checkpoint.pipe),
                local_files_only=True,
            )
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        problem = f"diffusers cannot load {checkpoint.pipe.name}: {error}"
        raise HarnessError(problem, "backend", "bring the whole checkpoint, with its weights as safetensors") from error
    pipe.set_progress_bar_config(disable=True)
    pipe.to(device)
    return Networks(pipe, device, dtype)


def choose_variant(folder: Path) -> str | None:
    """Of a checkpoint whose files are all called .fp16."""
    weights = [path.name for path in (folder / "unet").glob("*.safetensors")]
    return "fp16" if weights and all(".fp16." in name for name in weights) else None


def draw_networks(folder: Path, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
    """Of the declared shapes, with the weights that their classes begin a training with."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            return {
                "unet": diffusers.UNet2DConditionModel.from_config(read_config(folder / "unet")).eval(),
                "vae": diffusers.AutoencoderKL.from_config(read_config(folder / "vae")).eval(),
                **{
                    part: kind(transformers.CLIPTextConfig(**read_config(folder / part))).eval()
                    for part, kind in (
                        ("text_encoder", transformers.CLIPTextModel),
                        ("text_encoder_2", transformers.CLIPTextModelWithProjection),
                    )
                },
            }
    finally:
        torch.set_default_dtype(usual)


def read_config(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return found
