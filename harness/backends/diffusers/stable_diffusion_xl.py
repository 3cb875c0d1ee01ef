"""Stable Diffusion XL, computed in batches with the same library calls and tokens as the reference.

Each caption and the negative prompt pass through both text encoders, the network removes noise step by step, and the
decoder turns the result into pixels. All of it is timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
import transformers
from torch.nn import functional
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
from harness.backends.pytorch.packed_operators import ALIGNED, FP8, LARGEST
from harness.errors import HarnessError

TOKENS = ("input_ids", "input_ids_2")  # tokens for each of the two text encoders
LATENTS = "latents"
# Tokens come from the dataset, and measured images must have no watermark.
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
    """Choose the variant of a checkpoint if all of its files are named .fp16."""
    weights = [path.name for path in (folder / "unet").glob("*.safetensors")]
    return "fp16" if weights and all(".fp16." in name for name in weights) else None


def draw_networks(folder: Path, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
    with use_dtype_and_device(dtype, device):
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


class ImagePipeline:
    """A pipeline with its own scheduler, which counts steps."""

    def __init__(self, networks: Networks, shared: Mapping[str, np.ndarray], settings: ImageSettings) -> None:
        self._device, self._dtype, self._settings = networks.device, networks.dtype, settings
        shared_pipe = networks.pipe
        scheduler = type(shared_pipe.scheduler).from_config(shared_pipe.scheduler.config)
        self._pipe = type(shared_pipe)(**{**shared_pipe.components, "scheduler": scheduler}, add_watermarker=False)
        self._pipe.set_progress_bar_config(disable=True)
        check_shapes(self._pipe, shared)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
            torch.backends.cudnn.benchmark = True  # a run has few shapes and computes each many times
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

    def paint(self, samples: Mapping[str, np.ndarray], steps: int | None = None) -> Outputs:
        """Return images, uint8 [n, height, width, 3]."""
        with torch.no_grad(), sdpa_kernel(ATTENTION, set_priority=True):
            return [self._paint(samples, self._settings.limit_steps(steps)).cpu().numpy()]

    def _paint(self, samples: Mapping[str, np.ndarray], steps: int) -> torch.Tensor:
        words, whole = self._encode([torch.from_numpy(np.array(samples[name])).to(self._device) for name in TOKENS])
        against, against_whole = self._encode(self._against)
        count = len(words)
        latents = self._pipe(
            prompt_embeds=words,
            negative_prompt_embeds=against.expand(count, -1, -1),
            pooled_prompt_embeds=whole,
            negative_pooled_prompt_embeds=against_whole.expand(count, -1),
            guidance_scale=self._settings.guidance,
            num_inference_steps=steps,
            latents=self._latents.repeat(count, 1, 1, 1),
            output_type="latent",
        ).images
        pixels: torch.Tensor = self._make_pixels(latents)
        return pixels

    def _encode(self, tokens: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode tokens: the embeddings of each token from both encoders, and the pooled one from the second."""
        encoders = (self._pipe.text_encoder, self._pipe.text_encoder_2)
        found = [encode(ids, output_hidden_states=True) for encode, ids in zip(encoders, tokens, strict=True)]
        return torch.cat([one.hidden_states[-2] for one in found], dim=-1), found[-1][0]

    def _decode(self, latents: torch.Tensor) -> torch.Tensor:
        """Return pixels, computed by the pipeline and rounded like the reference's."""
        decoder = self._decoder
        scaled = latents.to(decoder.dtype) / decoder.config.scaling_factor
        pictures = decoder.decode(scaled, return_dict=False)[0]
        values = (pictures * 0.5 + 0.5).clamp(0, 1).permute(0, 2, 3, 1).float()
        return (values * 255).round().to(torch.uint8).contiguous()


def keep_decoder_exact(decoder: Any) -> Any:
    """Keep the decoder in fp32 if its configuration says that fp16 is insufficient. Otherwise the pipeline would
    convert it to fp32 and back for each batch."""
    if decoder.dtype == torch.float16 and decoder.config.force_upcast:
        decoder.to(torch.float32)
    return decoder


def check_shapes(pipe: Any, shared: Mapping[str, np.ndarray]) -> None:
    """Check shapes, since the pipeline passes the network an image size from its configuration, regardless of the
    latents' size."""
    require_shared(shared, (LATENTS, *(f"negative_{name}" for name in TOKENS)))
    config = pipe.unet.config
    wanted = (1, config.in_channels, config.sample_size, config.sample_size)
    if shared[LATENTS].shape != wanted:
        problem = f"the latents are {list(shared[LATENTS].shape)}, but the network takes {list(wanted)}"
        raise HarnessError(problem, "input", "use the dataset and the checkpoint of the same benchmark")


def lower_network(pipe: Any) -> None:
    lower_linears(pipe.unet)


KIND = PipelineKind(read_pipe, draw_pipe, ImagePipeline, lower_network)


# Linear layers of a network in fp8 (e4m3): weights have a scale per output, inputs one per token, found during the
# computation. So nothing is calibrated, and a large value reduces only the precision of its own token.
#
# Everything else is computed in bf16, the type of the products.

_LEFT = ("to_k", "to_v", "to_kv")
_LEAST = 1e-12  # smallest magnitude from which a scale is computed
Rounded = tuple[torch.Tensor, torch.Tensor]
"""[rows, width] in fp8, and the scale of each row, float32 [rows, 1]."""


class LinearFp8(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked here
    """Replaces ``linear``. ``alone``: the operator that computes its input cannot also round it."""

    def __init__(self, linear: torch.nn.Linear, *, alone: bool = False) -> None:
        super().__init__()
        lowered, scale = round_rows(linear.weight.detach())
        self.register_buffer("weight", lowered)
        self.register_buffer("scale", scale.t().contiguous())
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())
        self._alone, self._dtype = alone, linear.weight.dtype

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        rows = value.reshape(-1, value.shape[-1])
        found = self.multiply(round_alone(rows, False) if self._alone else round_rows(rows))
        return found.reshape(*value.shape[:-1], -1)

    def multiply(self, rounded: Rounded) -> torch.Tensor:
        rows, scale = rounded
        if rows.is_cuda:
            return torch._scaled_mm(
                rows,
                self.weight.t(),
                scale_a=scale,
                scale_b=self.scale,
                bias=self.bias,
                out_dtype=self._dtype,
                use_fast_accum=True,
            )
        product = functional.linear(rows.float(), self.weight.float()) * scale * self.scale
        return (product if self.bias is None else product + self.bias.float()).to(self._dtype)


class GatedFp8(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked here
    """A layer whose one half gates the other by GELU, together with the next layer."""

    def __init__(self, first: torch.nn.Linear, last: torch.nn.Linear) -> None:
        super().__init__()
        self.first, self.last = LinearFp8(first), LinearFp8(last)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        both = self.first(value)
        found = self.last.multiply(round_alone(both.reshape(-1, both.shape[-1]), True))
        return found.reshape(*value.shape[:-1], -1)


def round_rows(value: torch.Tensor) -> Rounded:
    """Round rows with plain operators, so that a compiler can fuse them with the computation of ``value``."""
    wide = value.float()
    scale = wide.abs().amax(dim=1, keepdim=True).clamp(min=_LEAST) / LARGEST
    return (wide / scale).clamp(-LARGEST, LARGEST).to(FP8), scale


@torch.library.custom_op("lowered::round_alone", mutates_args=())
def round_alone(value: torch.Tensor, gated: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """``round_rows`` as a separate kernel. ``gated``: rounds the first half of each row times GELU of the second."""
    if value.is_cuda:
        from harness.backends.diffusers.kernels import round_rows as near  # Triton may be missing without a GPU

        rows, scale = near(value.contiguous(), gated=gated)
        return rows, scale
    if gated:
        first, gate = value.float().chunk(2, dim=1)
        return round_rows(first * functional.gelu(gate))
    return round_rows(value)


@round_alone.register_fake
def _(value: torch.Tensor, gated: bool) -> tuple[torch.Tensor, torch.Tensor]:
    rows, width = value.shape
    found = value.new_empty(rows, width // 2 if gated else width, dtype=FP8)
    return found, value.new_empty(rows, 1, dtype=torch.float32)


def lower_linears(network: Any) -> int:
    """Convert the linear layers in the transformer blocks of the library's U-Net in place; return their number.
    Queries, keys and values are computed together; the few keys and values of the text are unchanged."""
    network.fuse_qkv_projections()
    count = 0
    for name, block in list(network.named_modules()):
        if name.endswith(".ff") and _fits(block.net[0].proj) and _fits(block.net[2]):
            network.get_submodule(name.removesuffix(".ff")).ff = GatedFp8(block.net[0].proj, block.net[2])
            count += 2
    for name, layer in list(network.named_modules()):
        place, _, last = name.rpartition(".")
        asked = "attentions." in name and last not in _LEFT and not name.endswith("attn1.to_q")
        if asked and _fits(layer):
            setattr(network.get_submodule(place), last, LinearFp8(layer, alone=".to_out." in name))
            count += 1
    return count


def _fits(layer: Any) -> bool:
    return isinstance(layer, torch.nn.Linear) and not any(extent % ALIGNED for extent in layer.weight.shape)
