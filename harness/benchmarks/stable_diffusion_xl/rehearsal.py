"""Captions and latents in the reference's layout, and a Stable Diffusion XL pipeline in diffusers' own format.

Its networks have the parts of the published ones: two CLIP text encoders, a network with time, sizes and the entire
text as inputs, and a decoder. Their weights are drawn, and images are compared with the library's own output for each
caption in fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
import transformers

from harness.backends.diffusers.loading import PIPE, SCHEDULER
from harness.benchmarks.stable_diffusion_xl import (
    AGAINST,
    CAPTIONS,
    LATENTS,
    PIPELINE,
    REFERENCES,
    TOKENIZERS,
    make_references,
)
from harness.benchmarks.stable_diffusion_xl.clip_tokens import write_captions, write_tokenizer
from harness.contract import Counter

MODEL = "stable_diffusion_fp16"
ENCODERS = ("text_encoder", "text_encoder_2")
STEPS = {"small": 4, "full": int(PIPELINE["steps"])}
_CONTRAST = 6.0  # factor for the decoder's colours, since drawn weights paint in grey


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    captions = write_captions(data / CAPTIONS[0], count, seed)
    words = {part: write_tokenizer(data / part, captions, part) for part in TOKENIZERS.values()}
    torch.manual_seed(seed)
    shape = SHAPES[size]
    latents = torch.randn(1, 4, *(shape["unet"]["sample_size"],) * 2)
    path = data / LATENTS[1]
    path.parent.mkdir()
    torch.save(latents, path)
    pipe = draw_pipeline(shape, data, words["tokenizer"])
    pipe.save_pretrained(models / MODEL / PIPE)
    pipe.scheduler.save_pretrained(models / MODEL / SCHEDULER / "scheduler")
    if torch.cuda.is_available():  # processors take minutes to paint a picture with the full networks
        torch.backends.cudnn.allow_tf32 = False
        pipe.to("cuda")
    pictures = []
    for caption in captions:
        pictures.append(paint_caption(pipe, caption, latents, STEPS[size]))
        counter.bump(1)
    references: dict[str, Any] = make_references(np.stack(pictures))
    np.savez_compressed(data / REFERENCES, **references)


def draw_pipeline(shape: Configs, data: Path, vocabulary: int) -> Any:
    """Draw a pipeline of the library, with its own tokenizers."""
    encoders = [transformers.CLIPTextConfig(**describe_encoder(shape, part, vocabulary)) for part in ENCODERS]
    decoder = diffusers.AutoencoderKL.from_config(shape["vae"])
    with torch.no_grad():
        decoder.decoder.conv_out.weight.mul_(_CONTRAST)
    pipe = diffusers.StableDiffusionXLPipeline(
        vae=decoder.eval(),
        text_encoder=transformers.CLIPTextModel(encoders[0]).eval(),
        text_encoder_2=transformers.CLIPTextModelWithProjection(encoders[1]).eval(),
        tokenizer=transformers.CLIPTokenizer.from_pretrained(data / "tokenizer"),
        tokenizer_2=transformers.CLIPTokenizer.from_pretrained(data / "tokenizer_2"),
        unet=diffusers.UNet2DConditionModel.from_config(shape["unet"]).eval(),
        scheduler=diffusers.EulerDiscreteScheduler.from_config(shape["scheduler"]),
        add_watermarker=False,
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


def paint_caption(pipe: Any, caption: str, latents: torch.Tensor, steps: int) -> np.ndarray:
    """Return uint8 [side, side, 3], computed completely by the library, including tokens."""
    with torch.no_grad():
        made = pipe(
            prompt=caption,
            negative_prompt=AGAINST,
            guidance_scale=PIPELINE["guidance"],
            num_inference_steps=steps,
            latents=latents,
            output_type="np",
        )
    picture: np.ndarray = (made.images[0] * 255).round().astype(np.uint8)
    return picture


# Configurations of the pipeline's parts by their folders, in the terms of diffusers and transformers: the published
# ones, and small ones with the same parts.

Configs = Mapping[str, Mapping[str, Any]]
_FULL: Configs = {
    "text_encoder": {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "hidden_act": "quick_gelu",
        "projection_dim": 1280,
        "max_position_embeddings": 77,
    },
    "text_encoder_2": {
        "hidden_size": 1280,
        "num_hidden_layers": 32,
        "num_attention_heads": 20,
        "intermediate_size": 5120,
        "hidden_act": "gelu",
        "projection_dim": 1280,
        "max_position_embeddings": 77,
    },
    "unet": {
        "sample_size": 128,
        "in_channels": 4,
        "out_channels": 4,
        "block_out_channels": (320, 640, 1280),
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        "layers_per_block": 2,
        "transformer_layers_per_block": (1, 2, 10),
        "attention_head_dim": (5, 10, 20),
        "cross_attention_dim": 768 + 1280,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 256,
        "projection_class_embeddings_input_dim": 1280 + 6 * 256,  # the picture's size, the crop's offset, the target's
        "norm_num_groups": 32,
        "use_linear_projection": True,
    },
    "vae": {
        "sample_size": 1024,
        "block_out_channels": (128, 256, 512, 512),
        "down_block_types": ("DownEncoderBlock2D",) * 4,
        "up_block_types": ("UpDecoderBlock2D",) * 4,
        "layers_per_block": 2,
        "latent_channels": 4,
        "norm_num_groups": 32,
        "scaling_factor": 0.13025,
        "force_upcast": True,
    },
    "scheduler": {
        "beta_start": 0.00085,
        "beta_end": 0.012,
        "beta_schedule": "scaled_linear",
        "num_train_timesteps": 1000,
        "prediction_type": "epsilon",
        "interpolation_type": "linear",
        "steps_offset": 1,
        "timestep_spacing": "leading",
        "use_karras_sigmas": False,
    },
}
_SMALL_ENCODER = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "projection_dim": 32,
}
_SMALL: Configs = {
    "text_encoder": _SMALL_ENCODER,
    "text_encoder_2": _SMALL_ENCODER,
    "unet": {
        "sample_size": 16,
        "block_out_channels": (16, 32, 32),
        "layers_per_block": 1,
        "transformer_layers_per_block": (1, 1, 1),
        "attention_head_dim": (2, 4, 4),
        "cross_attention_dim": 32 + 32,
        "addition_time_embed_dim": 8,
        "projection_class_embeddings_input_dim": 32 + 6 * 8,
        "norm_num_groups": 8,
    },
    "vae": {"sample_size": 128, "block_out_channels": (8, 8, 16, 16), "layers_per_block": 1, "norm_num_groups": 4},
}
SHAPES = {"small": {part: {**config, **_SMALL.get(part, {})} for part, config in _FULL.items()}, "full": _FULL}


def describe_encoder(shape: Configs, part: str, vocabulary: int) -> dict[str, Any]:
    """Describe a text encoder. ``vocabulary``: number of tokens; the last two mark the ends."""
    begin, end = vocabulary - 2, vocabulary - 1
    padding = end if part == "text_encoder" else 0
    return {
        **shape[part],
        "vocab_size": vocabulary,
        "bos_token_id": begin,
        "eos_token_id": end,
        "pad_token_id": padding,
    }
