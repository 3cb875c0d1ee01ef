"""Prompts and a latent in the reference's layout, and a Wan 2.2 pipeline in diffusers' own format.

Its networks have the parts of the published ones: a UMT5 text encoder, two networks for much and for little noise, and
a decoder that converts latents to several frames at a time. Their weights are drawn, and videos are compared with the
library's own output for each prompt in fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
STEPS = {"small": 2, "full": int(PIPELINE["steps"])}  # each network computes one of two steps
_CONTRAST = 4.0  # of the decoder's colours: drawn weights make frames in grey
_ATTENTION = 8.0  # to the prompt, which hardly changes a frame with drawn weights


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    prompts = write_prompts(data / PROMPTS[0], count, seed)
    tokens = write_tokenizer(data / TOKENIZER, [*prompts, AGAINST])
    torch.manual_seed(seed)
    shape = replace(SHAPES[size], vocabulary=max(SHAPES[size].vocabulary, tokens))
    latent = torch.randn(shape.latents).to(torch.bfloat16)  # the type of the reference's own file
    torch.save(latent, data / LATENT[0])
    pipe = draw_pipeline(shape, data / TOKENIZER / FILE)
    pipe.save_pretrained(models / MODEL)
    references = data / REFERENCES
    references.mkdir()
    for number, prompt in enumerate(prompts):
        video = film_prompt(pipe, prompt, latent, shape, STEPS[size])
        (references / f"{number}{SUFFIX}").write_bytes(encode_video(video))
        counter.bump(1)


def draw_pipeline(shape: VideoShape, tokenizer: Path) -> Any:
    """Draw a pipeline of the library, with its own tokenizer."""
    decoder = diffusers.AutoencoderKLWan.from_config(shape.decoder)
    with torch.no_grad():
        decoder.decoder.conv_out.weight.mul_(_CONTRAST)
    networks = [draw_network(shape) for _ in range(2)]
    pipe = diffusers.WanPipeline(
        tokenizer=transformers.PreTrainedTokenizerFast(
            tokenizer_file=str(tokenizer), pad_token=PADDING, eos_token=END, unk_token=UNKNOWN
        ),
        text_encoder=transformers.UMT5EncoderModel(transformers.UMT5Config(**shape.encoder)).eval(),
        vae=decoder.eval(),
        scheduler=diffusers.UniPCMultistepScheduler.from_config(shape.scheduler),
        transformer=networks[0],
        transformer_2=networks[1],
        boundary_ratio=PIPELINE["boundary"],
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


def draw_network(shape: VideoShape) -> Any:
    network = diffusers.WanTransformer3DModel.from_config(shape.network).eval()
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


# Configurations of the pipeline's networks, in the terms of diffusers and transformers: the published ones, and small
# ones with the same parts. The published ones are from the library's script that converts Wan's checkpoints.

_CHANNELS = 16  # of latents
_BY_SPACE, _BY_TIME = 8, 4  # size of a video relative to its latents
_PATCH = (1, 2, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoShape:
    """``frames``, ``height``, ``width``: of a video. ``text``: width, layers, heads, width of a head and inner width of
    the text encoder. ``heads``, ``head``, ``inner``, ``layers``, ``time``: of either network; ``time`` is the length of
    a step's encoding. ``decoded``: maximum channels of the decoder; ``decoded_layers``: at each size."""

    frames: int
    height: int
    width: int
    vocabulary: int
    text: tuple[int, int, int, int, int]
    heads: int
    head: int
    inner: int
    layers: int
    time: int
    decoded: int
    decoded_layers: int

    @property
    def latents(self) -> tuple[int, ...]:
        frames = (self.frames - 1) // _BY_TIME + 1
        return (1, _CHANNELS, frames, self.height // _BY_SPACE, self.width // _BY_SPACE)

    @property
    def encoder(self) -> dict[str, Any]:
        width, layers, heads, head, inner = self.text
        return {
            "vocab_size": self.vocabulary,
            "d_model": width,
            "num_layers": layers,
            "num_heads": heads,
            "d_kv": head,
            "d_ff": inner,
            "feed_forward_proj": "gated-gelu",
            "pad_token_id": 0,
            "eos_token_id": 1,
        }

    @property
    def network(self) -> dict[str, Any]:
        return {
            "patch_size": _PATCH,
            "num_attention_heads": self.heads,
            "attention_head_dim": self.head,
            "in_channels": _CHANNELS,
            "out_channels": _CHANNELS,
            "text_dim": self.text[0],
            "freq_dim": self.time,
            "ffn_dim": self.inner,
            "num_layers": self.layers,
            "cross_attn_norm": True,
            "qk_norm": "rms_norm_across_heads",
            "eps": 1e-6,
            "rope_max_seq_len": 1024,
        }

    @property
    def decoder(self) -> dict[str, Any]:
        return {
            "base_dim": self.decoded,
            "z_dim": _CHANNELS,
            "dim_mult": [1, 2, 4, 4],
            "num_res_blocks": self.decoded_layers,
            "attn_scales": [],
            "temperal_downsample": [False, True, True],
        }

    @property
    def scheduler(self) -> dict[str, Any]:
        return {
            "num_train_timesteps": 1000,
            "prediction_type": "flow_prediction",
            "use_flow_sigmas": True,
            "flow_shift": 3.0,
        }


SHAPES: Mapping[str, VideoShape] = {
    "small": VideoShape(
        frames=5,
        height=32,
        width=48,
        vocabulary=0,
        text=(32, 1, 2, 16, 32),
        heads=2,
        head=12,
        inner=32,
        layers=2,
        time=32,
        decoded=4,
        decoded_layers=1,
    ),
    "full": VideoShape(
        frames=81,
        height=720,
        width=1280,
        vocabulary=256_384,
        text=(4096, 24, 64, 64, 10_240),
        heads=40,
        head=128,
        inner=13_824,
        layers=40,
        time=256,
        decoded=96,
        decoded_layers=2,
    ),
}
