"""Captions and latents in the reference's layout, and a pipeline of Stable Diffusion XL in diffusers' own format.

Its networks have the parts of the published ones: two text encoders of CLIP, a network that gets time, sizes and the
whole text, and a decoder. Their weights are drawn, and images are compared with what the library itself makes of each
caption in fp32.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
import transformers

from harness.backends.diffusers.loading import PIPE, SCHEDULER
from harness.benchmarks.stable_diffusion_xl import PIPELINE
from harness.benchmarks.stable_diffusion_xl.coco2014 import AGAINST, CAPTIONS, LATENTS, REFERENCES, TOKENIZERS
from harness.benchmarks.stable_diffusion_xl.generated_words import write_captions, write_tokenizer
from harness.benchmarks.stable_diffusion_xl.scoring import make_references
from harness.benchmarks.stable_diffusion_xl.shapes import SHAPES, PipelineShape
from harness.contract import Counter

MODEL = "stable_diffusion_fp16"
STEPS = {"small": 4, "full": int(PIPELINE["steps"])}
_CONTRAST = 6.0  # of the decoder's colours: drawn weights paint in grey


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    captions = write_captions(data / CAPTIONS[0], count, seed)
    words = {part: write_tokenizer(data / part, captions, part) for part in TOKENIZERS.values()}
    torch.manual_seed(seed)
    shape = SHAPES[size]
    latents = torch.randn(1, 4, shape.side // 8, shape.side // 8)
    path = data / LATENTS[1]
    path.parent.mkdir()
    torch.save(latents, path)
    pipe = draw_pipeline(shape, data, words["tokenizer"])
    pipe.save_pretrained(models / MODEL / PIPE)
    pipe.scheduler.save_pretrained(models / MODEL / SCHEDULER / "scheduler")
    pictures = []
    for caption in captions:
        pictures.append(paint_caption(pipe, caption, latents, STEPS[size]))
        counter.bump(1)
    references: dict[str, Any] = make_references(np.stack(pictures))
    np.savez_compressed(data / REFERENCES, **references)


def draw_pipeline(shape: PipelineShape, data: Path, vocabulary: int) -> Any:
    """Draw a pipeline of the library, with its own tokenizers."""
    encoders = [transformers.CLIPTextConfig(**config) for config in shape.describe_encoders(vocabulary)]
    decoder = diffusers.AutoencoderKL.from_config(shape.decoder)
    with torch.no_grad():
        decoder.decoder.conv_out.weight.mul_(_CONTRAST)
    pipe = diffusers.StableDiffusionXLPipeline(
        vae=decoder.eval(),
        text_encoder=transformers.CLIPTextModel(encoders[0]).eval(),
        text_encoder_2=transformers.CLIPTextModelWithProjection(encoders[1]).eval(),
        tokenizer=transformers.CLIPTokenizer.from_pretrained(data / "tokenizer"),
        tokenizer_2=transformers.CLIPTokenizer.from_pretrained(data / "tokenizer_2"),
        unet=diffusers.UNet2DConditionModel.from_config(shape.network).eval(),
        scheduler=diffusers.EulerDiscreteScheduler.from_config(shape.scheduler),
        add_watermarker=False,
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


def paint_caption(pipe: Any, caption: str, latents: torch.Tensor, steps: int) -> np.ndarray:
    """uint8 [side, side, 3], by everything that the library does of itself, tokens included."""
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
