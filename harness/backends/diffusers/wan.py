"""Wan 2.2, computed for batches of prompts with the same library calls and tokens as the reference.

A prompt and the negative prompt pass through the text encoder; two networks remove noise, the first while there is much
noise; the decoder turns the result into frames. All of it is timed.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import diffusers
import numpy as np
import torch
import transformers
from torch.nn.attention import sdpa_kernel

from harness.backends import Outputs
from harness.backends.diffusers.loading import (
    ATTENTION,
    NOT_COMPILED,
    ImageSettings,
    Networks,
    PipelineFolder,
    PipelineKind,
    read_config,
    require_shared,
    use_dtype_and_device,
)
from harness.errors import HarnessError

TOKENS = ("input_ids", "attention_mask")
LATENTS = "latents"
NETWORKS = ("transformer", "transformer_2")  # for high noise, and for low noise


def read_pipe(checkpoint: PipelineFolder, dtype: torch.dtype) -> Any:
    """Read the pipeline with its decoder in fp32, regardless of the other networks' type, as in the reference."""
    given: dict[str, Any] = {"use_safetensors": True, "local_files_only": True}
    decoder = diffusers.AutoencoderKLWan.from_pretrained(
        checkpoint.pipe, subfolder="vae", torch_dtype=torch.float32, **given
    )
    return diffusers.WanPipeline.from_pretrained(
        checkpoint.pipe, vae=decoder, tokenizer=None, torch_dtype=dtype, **given
    )


def draw_pipe(checkpoint: PipelineFolder, dtype: torch.dtype, device: torch.device) -> Any:
    folder = checkpoint.pipe
    scheduler = diffusers.UniPCMultistepScheduler.from_pretrained(
        checkpoint.scheduler, subfolder="scheduler", local_files_only=True
    )
    with use_dtype_and_device(torch.float32, device):
        decoder = diffusers.AutoencoderKLWan.from_config(read_config(folder / "vae")).eval()
    with use_dtype_and_device(dtype, device):
        encoder = transformers.UMT5EncoderModel(transformers.UMT5Config(**read_config(folder / "text_encoder"))).eval()
        networks = {
            name: keep_exact_parts(diffusers.WanTransformer3DModel.from_config(read_config(folder / name)).eval())
            for name in NETWORKS
        }
    return diffusers.WanPipeline(tokenizer=None, text_encoder=encoder, vae=decoder, scheduler=scheduler, **networks)


def keep_exact_parts(network: Any) -> Any:
    """Keep the parts in fp32 that the library keeps in fp32 when it reads a checkpoint."""
    exact = set(network._keep_in_fp32_modules or ())
    for name, weights in network.named_parameters():
        if exact.intersection(name.split(".")):
            weights.data = weights.data.float()
    return network


class VideoPipeline:
    """A pipeline with its own scheduler, which counts steps, and its own decoder, which stores frames."""

    def __init__(self, networks: Networks, shared: Mapping[str, np.ndarray], settings: ImageSettings) -> None:
        self._device, self._settings = networks.device, settings
        if settings.channels_last:
            raise HarnessError("channels_last supports only images", "input", "remove it from run.options")
        parts = networks.pipe.components
        own = {
            "scheduler": type(parts["scheduler"]).from_config(parts["scheduler"].config),
            "vae": copy.copy(parts["vae"]),  # shares the weights, but not the cache of earlier frames
        }
        self._pipe = type(networks.pipe)(**{**parts, **own}, boundary_ratio=settings.boundary)
        self._pipe.set_progress_bar_config(disable=True)
        check_shapes(self._pipe, shared)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
        self._latents = torch.from_numpy(shared[LATENTS]).to(self._device)
        self._against = [torch.from_numpy(shared[f"negative_{name}"]).to(self._device) for name in TOKENS]
        if settings.compiled != NOT_COMPILED:
            for name in NETWORKS:
                setattr(self._pipe, name, torch.compile(getattr(self._pipe, name), mode=settings.compile_mode))

    def paint(self, samples: Mapping[str, np.ndarray], steps: int | None = None) -> Outputs:
        """Return videos, uint8 [n, frames, height, width, 3]."""
        with torch.no_grad(), sdpa_kernel(ATTENTION, set_priority=True):
            return [self._film(samples, self._settings.limit_steps(steps)).cpu().numpy()]

    def _film(self, samples: Mapping[str, np.ndarray], steps: int) -> torch.Tensor:
        words = self._encode([torch.from_numpy(np.array(samples[name])).to(self._device) for name in TOKENS])
        against = self._encode(self._against)
        count = len(words)
        latents = self._latents.repeat(count, 1, 1, 1, 1)
        frames, height, width = latents.shape[2:]
        found = self._pipe(
            prompt_embeds=words,
            negative_prompt_embeds=against.expand(count, -1, -1),
            height=height * self._pipe.vae_scale_factor_spatial,
            width=width * self._pipe.vae_scale_factor_spatial,
            num_frames=(frames - 1) * self._pipe.vae_scale_factor_temporal + 1,
            guidance_scale=self._settings.guidance,
            guidance_scale_2=self._settings.guidance_2,
            num_inference_steps=steps,
            latents=latents,
            output_type="pt",
        ).frames
        # When the library writes a video, it truncates values instead of rounding them.
        return (found * 255).to(torch.uint8).permute(0, 1, 3, 4, 2).contiguous()

    def _encode(self, tokens: list[torch.Tensor]) -> torch.Tensor:
        """Encode each token; padding tokens become zero."""
        ids, mask = tokens
        said = self._pipe.text_encoder(ids, mask).last_hidden_state
        return said.masked_fill(mask[..., None] == 0, 0)


def check_shapes(pipe: Any, shared: Mapping[str, np.ndarray]) -> None:
    """Check shapes, since latents determine the length and size of a video, and the network processes them in
    patches."""
    require_shared(shared, (LATENTS, *(f"negative_{name}" for name in TOKENS)))
    config, found = pipe.transformer.config, shared[LATENTS].shape
    patch = (1, 1, *config.patch_size)
    fits = len(found) == len(patch) and found[:2] == (1, config.in_channels)
    if not fits or any(size % part for size, part in zip(found, patch, strict=True)):
        sizes = ", ".join(f"times {part}" for part in config.patch_size)
        problem = f"the latents are {list(found)}, but the network takes [1, {config.in_channels}, {sizes}]"
        raise HarnessError(problem, "input", "use the dataset and the checkpoint of the same benchmark")


KIND = PipelineKind(read_pipe, draw_pipe, VideoPipeline)
