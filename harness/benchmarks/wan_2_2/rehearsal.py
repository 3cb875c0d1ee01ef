"""Prompts and a latent in the reference's layout, and a pipeline of Wan 2.2 in diffusers' own format.

Its networks have the parts of the published ones: a text encoder of UMT5's kind, two networks for much and for little
noise, and a decoder that makes frames of latents, some of them at a time. Their weights are drawn, and what the library
itself makes of each prompt in fp32 is what videos are compared with.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
import transformers

from harness.benchmarks.wan_2_2 import PIPELINE
from harness.benchmarks.wan_2_2.generated_words import END, UNKNOWN, write_prompts, write_tokenizer
from harness.benchmarks.wan_2_2.prompts import AGAINST, LATENT, PROMPTS, REFERENCES, TOKENIZER
from harness.benchmarks.wan_2_2.shapes import SHAPES, VideoShape
from harness.benchmarks.wan_2_2.videos import SUFFIX, encode_video
from harness.benchmarks.wan_2_2.words import FILE, PADDING
from harness.contract import Counter

MODEL = "Wan2.2-T2V-A14B-Diffusers"
STEPS = {"small": 2, "full": int(PIPELINE["steps"])}  # of two steps each network computes one
_CONTRAST = 4.0  # of the decoder's colours: drawn weights make frames in grey
_ATTENTION = 8.0  # to the prompt: of drawn weights it hardly changes a frame


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    prompts = write_prompts(data / PROMPTS[0], count, seed)
    tokens = write_tokenizer(data / TOKENIZER, [*prompts, AGAINST])
    torch.manual_seed(seed)
    shape = replace(SHAPES[size], vocabulary=max(SHAPES[size].vocabulary, tokens))
    latent = torch.randn(shape.latents).to(torch.bfloat16)  # as the reference saved its own
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
    """uint8 [frames, height, width, 3], by everything that the library does of itself, tokens included."""
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
