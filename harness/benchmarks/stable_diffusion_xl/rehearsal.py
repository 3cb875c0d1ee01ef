"""Captions and latents in the reference's layout, and a Stable Diffusion XL pipeline in diffusers' own format.

Its networks have the parts of the published ones: two CLIP text encoders, a network with time, sizes and the entire
text as inputs, and a decoder. Their weights are drawn, and images are compared with the library's own output for each
caption in fp32.
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


Config = Mapping[str, Any]
_TIME = 6  # numeric size inputs of the network: the picture's, the crop offset, the target


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineShape:
    """``side``: of a picture, in pixels. ``encoders``: width, layers, heads, inner width and activation of the two text
    encoders. ``channels``, ``layers``, ``depths``, ``heads``: of the network's three levels; ``time``: length of a
    size's encoding. ``decoded``: channels of the decoder."""

    side: int
    encoders: tuple[tuple[int, int, int, int, str], ...]
    channels: tuple[int, ...]
    layers: int
    depths: tuple[int, ...]
    heads: tuple[int, ...]
    time: int
    groups: int
    decoded: tuple[int, ...]
    decoded_layers: int
    decoded_groups: int

    def describe_encoders(self, vocabulary: int) -> list[dict[str, Any]]:
        """Describe the text encoders. ``vocabulary``: number of tokens, of which the last two mark the ends."""
        projection = self.encoders[-1][0]
        return [
            {
                "vocab_size": vocabulary,
                "hidden_size": width,
                "num_hidden_layers": layers,
                "num_attention_heads": heads,
                "intermediate_size": inner,
                "hidden_act": activation,
                "projection_dim": projection,
                "max_position_embeddings": 77,
                "bos_token_id": vocabulary - 2,
                "eos_token_id": vocabulary - 1,
                "pad_token_id": vocabulary - 1 if number == 0 else 0,
            }
            for number, (width, layers, heads, inner, activation) in enumerate(self.encoders)
        ]

    @property
    def network(self) -> dict[str, Any]:
        return {
            "sample_size": self.side // 8,
            "in_channels": 4,
            "out_channels": 4,
            "block_out_channels": self.channels,
            "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
            "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
            "layers_per_block": self.layers,
            "transformer_layers_per_block": self.depths,
            "attention_head_dim": self.heads,
            "cross_attention_dim": sum(encoder[0] for encoder in self.encoders),
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": self.time,
            "projection_class_embeddings_input_dim": self.encoders[-1][0] + _TIME * self.time,
            "norm_num_groups": self.groups,
            "use_linear_projection": True,
        }

    @property
    def decoder(self) -> dict[str, Any]:
        count = len(self.decoded)
        return {
            "sample_size": self.side,
            "block_out_channels": self.decoded,
            "down_block_types": ("DownEncoderBlock2D",) * count,
            "up_block_types": ("UpDecoderBlock2D",) * count,
            "layers_per_block": self.decoded_layers,
            "latent_channels": 4,
            "norm_num_groups": self.decoded_groups,
            "scaling_factor": 0.13025,
            "force_upcast": True,
        }

    @property
    def scheduler(self) -> dict[str, Any]:
        return {
            "beta_start": 0.00085,
            "beta_end": 0.012,
            "beta_schedule": "scaled_linear",
            "num_train_timesteps": 1000,
            "prediction_type": "epsilon",
            "interpolation_type": "linear",
            "steps_offset": 1,
            "timestep_spacing": "leading",
            "use_karras_sigmas": False,
        }


SHAPES: Mapping[str, PipelineShape] = {
    "small": PipelineShape(
        side=128,
        encoders=((32, 2, 4, 64, "quick_gelu"), (32, 2, 4, 64, "gelu")),
        channels=(16, 32, 32),
        layers=1,
        depths=(1, 1, 1),
        heads=(2, 4, 4),
        time=8,
        groups=8,
        decoded=(8, 8, 16, 16),
        decoded_layers=1,
        decoded_groups=4,
    ),
    "full": PipelineShape(
        side=1024,
        encoders=((768, 12, 12, 3072, "quick_gelu"), (1280, 32, 20, 5120, "gelu")),
        channels=(320, 640, 1280),
        layers=2,
        depths=(1, 2, 10),
        heads=(5, 10, 20),
        time=256,
        groups=32,
        decoded=(128, 256, 512, 512),
        decoded_layers=2,
        decoded_groups=32,
    ),
}
