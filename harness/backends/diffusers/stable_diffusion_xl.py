"""What a pipeline of Stable Diffusion XL computes of a batch: as the reference asks the library, token by token.

The words of each caption and those to draw against go through both text encoders, the network takes noise away step by
step, and the decoder makes pixels of what is left. All of it is timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
import transformers
from torch.nn.attention import SDPBackend, sdpa_kernel

from harness.backends import Outputs
from harness.backends.diffusers.loading import (
    Networks,
    PipelineFolder,
    PipelineKind,
    drawing,
    read_config,
    require_shared,
)
from harness.backends.diffusers.lowering import lower_linears
from harness.backends.diffusers.settings import NOT_COMPILED, PaintingSettings
from harness.errors import HarnessError

TOKENS = ("input_ids", "input_ids_2")  # of the two text encoders
LATENTS = "latents"
# The first that takes an input computes it.
ATTENTION = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]
# Tokens come from the dataset, and nobody wants a mark in a picture that is measured.
_WITHOUT = {"tokenizer": None, "tokenizer_2": None, "add_watermarker": False}


def read_pipe(checkpoint: PipelineFolder, dtype: torch.dtype) -> Any:
    return diffusers.StableDiffusionXLPipeline.from_pretrained(
        checkpoint.pipe,
        scheduler=_read_scheduler(checkpoint),
        torch_dtype=dtype,
        use_safetensors=True,
        variant=choose_variant(checkpoint.pipe),
        local_files_only=True,
        **_WITHOUT,
    )


def draw_pipe(checkpoint: PipelineFolder, dtype: torch.dtype, device: torch.device) -> Any:
    scheduler, parts = _read_scheduler(checkpoint), draw_networks(checkpoint.pipe, dtype, device)
    return diffusers.StableDiffusionXLPipeline(**parts, scheduler=scheduler, **_WITHOUT)


def _read_scheduler(checkpoint: PipelineFolder) -> Any:
    return diffusers.EulerDiscreteScheduler.from_pretrained(
        checkpoint.scheduler, subfolder="scheduler", local_files_only=True
    )


def choose_variant(folder: Path) -> str | None:
    """Of a checkpoint whose files are all called .fp16."""
    weights = [path.name for path in (folder / "unet").glob("*.safetensors")]
    return "fp16" if weights and all(".fp16." in name for name in weights) else None


def draw_networks(folder: Path, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
    with drawing(dtype, device):
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


class ImagePainter:
    """A pipeline with a scheduler of its own, which counts steps."""

    def __init__(self, networks: Networks, shared: Mapping[str, np.ndarray], settings: PaintingSettings) -> None:
        self._device, self._dtype, self._settings = networks.device, networks.dtype, settings
        shared_pipe = networks.pipe
        scheduler = type(shared_pipe.scheduler).from_config(shared_pipe.scheduler.config)
        self._pipe = type(shared_pipe)(**{**shared_pipe.components, "scheduler": scheduler}, add_watermarker=False)
        self._pipe.set_progress_bar_config(disable=True)
        check_shapes(self._pipe, shared)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
            torch.backends.cudnn.benchmark = True  # a run has few shapes, and computes each many times
        self._latents = torch.from_numpy(shared[LATENTS]).to(self._device, self._dtype)
        self._against = [torch.from_numpy(shared[f"negative_{name}"]).to(self._device) for name in TOKENS]
        self._decoder = keep_decoder_exact(self._pipe.vae)
        self._make_pixels: Any = self._decode
        if settings.channels_last:
            self._pipe.unet.to(memory_format=torch.channels_last)
            self._decoder.to(memory_format=torch.channels_last)
        if settings.compiled != NOT_COMPILED:
            self._pipe.unet = torch.compile(self._pipe.unet, mode=settings.compile_mode)
            self._make_pixels = torch.compile(self._make_pixels, mode=settings.compile_mode)

    def paint(self, samples: Mapping[str, np.ndarray]) -> Outputs:
        """uint8 [n, height, width, 3]."""
        with torch.no_grad(), sdpa_kernel(ATTENTION, set_priority=True):
            return [self._paint(samples).cpu().numpy()]

    def _paint(self, samples: Mapping[str, np.ndarray]) -> torch.Tensor:
        words, whole = self._encode([torch.from_numpy(np.array(samples[name])).to(self._device) for name in TOKENS])
        against, against_whole = self._encode(self._against)
        count = len(words)
        latents = self._pipe(
            prompt_embeds=words,
            negative_prompt_embeds=against.expand(count, -1, -1),
            pooled_prompt_embeds=whole,
            negative_pooled_prompt_embeds=against_whole.expand(count, -1),
            guidance_scale=self._settings.guidance,
            num_inference_steps=self._settings.steps,
            latents=self._latents.repeat(count, 1, 1, 1),
            output_type="latent",
        ).images
        pixels: torch.Tensor = self._make_pixels(latents)
        return pixels

    def _encode(self, tokens: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """What both encoders say of each token, and the second one of the whole."""
        encoders = (self._pipe.text_encoder, self._pipe.text_encoder_2)
        found = [encode(ids, output_hidden_states=True) for encode, ids in zip(encoders, tokens, strict=True)]
        return torch.cat([one.hidden_states[-2] for one in found], dim=-1), found[-1][0]

    def _decode(self, latents: torch.Tensor) -> torch.Tensor:
        """Pixels, as the pipeline makes them and the reference rounds them."""
        decoder = self._decoder
        scaled = latents.to(decoder.dtype) / decoder.config.scaling_factor
        pictures = decoder.decode(scaled, return_dict=False)[0]
        values = (pictures * 0.5 + 0.5).clamp(0, 1).permute(0, 2, 3, 1).float()
        return (values * 255).round().to(torch.uint8).contiguous()


def keep_decoder_exact(decoder: Any) -> Any:
    """In fp32 where its own file says that fp16 is not enough: the pipeline changes it for each batch, and back."""
    if decoder.dtype == torch.float16 and decoder.config.force_upcast:
        decoder.to(torch.float32)
    return decoder


def check_shapes(pipe: Any, shared: Mapping[str, np.ndarray]) -> None:
    """The pipeline says to the network how large the picture is by its own file, whatever the latents are."""
    require_shared(shared, (LATENTS, *(f"negative_{name}" for name in TOKENS)))
    config = pipe.unet.config
    wanted = (1, config.in_channels, config.sample_size, config.sample_size)
    if shared[LATENTS].shape != wanted:
        problem = f"the latents are {list(shared[LATENTS].shape)}, and the network takes {list(wanted)}"
        raise HarnessError(problem, "input", "take the dataset and the checkpoint of one benchmark")


def lower_network(pipe: Any) -> None:
    lower_linears(pipe.unet)


KIND = PipelineKind(read_pipe, draw_pipe, ImagePainter, lower_network)
