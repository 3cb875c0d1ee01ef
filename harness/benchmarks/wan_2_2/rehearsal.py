"""Prompts and a latent in the reference's layout, and a Wan 2.2 pipeline in diffusers' own format.

Its networks have the parts of the published ones: a UMT5 text encoder, two networks for much and for little noise, and
a decoder that converts latents to several frames at a time. Their weights are drawn, and videos are compared with the
library's own output for each prompt in fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
import transformers

from harness.benchmarks.wan_2_2 import PIPELINE, SUFFIX, encode_video
from harness.benchmarks.wan_2_2.prompts import (
    AGAINST,
    END,
    FILE,
    LATENT,
    PADDING,
    PROMPTS,
    REFERENCES,
    TOKENIZER,
    UNKNOWN,
    write_prompts,
    write_tokenizer,
)
from harness.contract import Counter

MODEL = "Wan2.2-T2V-A14B-Diffusers"
STEPS = {"small": 2, "full": int(PIPELINE["steps"])}  # with two steps, each network computes one
_CONTRAST = 4.0  # factor for the decoder's colours, since drawn weights make grey frames
_ATTENTION = 8.0  # factor for attention to the prompt, which hardly changes a frame with drawn weights


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    prompts = write_prompts(data / PROMPTS[0], count, seed)
    tokens = write_tokenizer(data / TOKENIZER, [*prompts, AGAINST])
    torch.manual_seed(seed)
    shape = SHAPES[size]
    latent = torch.randn(shape.latents).to(torch.bfloat16)  # the type of the reference's own file
    torch.save(latent, data / LATENT[0])
    pipe = draw_pipeline(shape, data / TOKENIZER / FILE, tokens)
    pipe.save_pretrained(models / MODEL)
    references = data / REFERENCES
    references.mkdir()
    for number, prompt in enumerate(prompts):
        video = film_prompt(pipe, prompt, latent, shape, STEPS[size])
        (references / f"{number}{SUFFIX}").write_bytes(encode_video(video))
        counter.bump(1)


def draw_pipeline(shape: VideoShape, tokenizer: Path, vocabulary: int) -> Any:
    """Draw a pipeline of the library, with its own tokenizer."""
    decoder = diffusers.AutoencoderKLWan.from_config(shape.parts["vae"])
    with torch.no_grad():
        decoder.decoder.conv_out.weight.mul_(_CONTRAST)
    networks = [draw_network(shape.parts["transformer"]) for _ in range(2)]
    pipe = diffusers.WanPipeline(
        tokenizer=transformers.PreTrainedTokenizerFast(
            tokenizer_file=str(tokenizer), pad_token=PADDING, eos_token=END, unk_token=UNKNOWN
        ),
        text_encoder=transformers.UMT5EncoderModel(
            transformers.UMT5Config(**shape.describe_encoder(vocabulary))
        ).eval(),
        vae=decoder.eval(),
        scheduler=diffusers.UniPCMultistepScheduler.from_config(shape.parts["scheduler"]),
        transformer=networks[0],
        transformer_2=networks[1],
        boundary_ratio=PIPELINE["boundary"],
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


def draw_network(config: Mapping[str, Any]) -> Any:
    network = diffusers.WanTransformer3DModel.from_config(config).eval()
    with torch.no_grad():
        for block in network.blocks:
            block.attn2.to_v.weight.mul_(_ATTENTION)
            block.attn2.to_out[0].weight.mul_(_ATTENTION)
    return network


def film_prompt(pipe: Any, prompt: str, latent: torch.Tensor, shape: VideoShape, steps: int) -> np.ndarray:
    """Return uint8 [frames, height, width, 3], computed completely by the library, including tokens."""
    with torch.no_grad():
        made = pipe(
            prompt=prompt,
            negative_prompt=AGAINST,
            height=shape.height,
            width=shape.width,
            num_frames=shape.frames,
            guidance_scale=PIPELINE["guidance"],
            guidance_scale_2=PIPELINE["guidance_2"],
            num_inference_steps=steps,
            latents=latent,
        )
    video: np.ndarray = (made.frames[0] * 255).astype(np.uint8)
    return video


# Configurations of the pipeline's parts by their folders, in the terms of diffusers and transformers: the published
# ones, from the library's script that converts Wan's checkpoints, and small ones with the same parts.

Configs = Mapping[str, Mapping[str, Any]]
_FULL: Configs = {
    "text_encoder": {
        "vocab_size": 256_384,
        "d_model": 4096,
        "num_layers": 24,
        "num_heads": 64,
        "d_kv": 64,
        "d_ff": 10_240,
        "feed_forward_proj": "gated-gelu",
        "pad_token_id": 0,
        "eos_token_id": 1,
    },
    "transformer": {
        "patch_size": (1, 2, 2),
        "num_attention_heads": 40,
        "attention_head_dim": 128,
        "in_channels": 16,
        "out_channels": 16,
        "text_dim": 4096,
        "freq_dim": 256,
        "ffn_dim": 13_824,
        "num_layers": 40,
        "cross_attn_norm": True,
        "qk_norm": "rms_norm_across_heads",
        "eps": 1e-6,
        "rope_max_seq_len": 1024,
    },
    "vae": {
        "base_dim": 96,
        "z_dim": 16,
        "dim_mult": [1, 2, 4, 4],
        "num_res_blocks": 2,
        "attn_scales": [],
        "temperal_downsample": [False, True, True],
    },
    "scheduler": {
        "num_train_timesteps": 1000,
        "prediction_type": "flow_prediction",
        "use_flow_sigmas": True,
        "flow_shift": 3.0,
    },
}
_SMALL: Configs = {
    # The vocabulary comes from the prompts.
    "text_encoder": {"vocab_size": 0, "d_model": 32, "num_layers": 1, "num_heads": 2, "d_kv": 16, "d_ff": 32},
    "transformer": {
        "num_attention_heads": 2,
        "attention_head_dim": 12,
        "text_dim": 32,
        "freq_dim": 32,
        "ffn_dim": 32,
        "num_layers": 2,
    },
    "vae": {"base_dim": 4, "num_res_blocks": 1},
}


@dataclass(frozen=True, slots=True)
class VideoShape:
    """``frames``, ``height``, ``width``: the size of a video."""

    frames: int
    height: int
    width: int
    parts: Configs

    @property
    def latents(self) -> tuple[int, ...]:
        """Shape of the latents. The video is larger by a factor of 8 in space, and of 4 in time."""
        return (1, 16, (self.frames - 1) // 4 + 1, self.height // 8, self.width // 8)

    def describe_encoder(self, vocabulary: int) -> dict[str, Any]:
        """Describe the text encoder, for at least ``vocabulary`` tokens."""
        config = self.parts["text_encoder"]
        return {**config, "vocab_size": max(config["vocab_size"], vocabulary)}


SHAPES = {
    "small": VideoShape(5, 32, 48, {part: {**config, **_SMALL.get(part, {})} for part, config in _FULL.items()}),
    "full": VideoShape(81, 720, 1280, _FULL),
}
