"""Run Stable Diffusion XL with only the library, in the plain loop that a user would write.

``python -m tests.gpu.bare_images rate SETTINGS`` prints one JSON document. Settings: model (a folder of
configurations), dataset (of tests.gpu.image_captions), batch, batches, steps, precision, device, compile,
channels_last.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
import transformers

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
GUIDANCE = 8.0


def load(settings: dict[str, Any]) -> Any:
    folder, device = Path(settings["model"]), torch.device(settings["device"])

    def config(part: str, name: str = "config.json") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((folder / part / name).read_text())
        return found

    torch.set_default_dtype(DTYPES[settings["precision"]])
    with device:
        parts = {
            "unet": diffusers.UNet2DConditionModel.from_config(config("unet")).eval(),
            "vae": diffusers.AutoencoderKL.from_config(config("vae")).eval(),
            "text_encoder": transformers.CLIPTextModel(transformers.CLIPTextConfig(**config("text_encoder"))).eval(),
            "text_encoder_2": transformers.CLIPTextModelWithProjection(
                transformers.CLIPTextConfig(**config("text_encoder_2"))
            ).eval(),
        }
    torch.set_default_dtype(torch.float32)
    scheduler = diffusers.EulerDiscreteScheduler.from_config(config("scheduler", "scheduler_config.json"))
    pipe = diffusers.StableDiffusionXLPipeline(
        **parts, scheduler=scheduler, tokenizer=None, tokenizer_2=None, add_watermarker=False
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


class PlainLoop:
    """``decode``: the decoder's precision; like the pipeline, fp32 if fp16 is not sufficient."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings, self.pipe, self.device = settings, load(settings), torch.device(settings["device"])
        if self.pipe.vae.dtype == torch.float16:
            self.pipe.vae.to(torch.float32)
        self.vae, self.decode = self.pipe.vae, self.make_pixels
        if settings["channels_last"]:
            self.pipe.unet.to(memory_format=torch.channels_last)
            self.vae.to(memory_format=torch.channels_last)
        if settings["compile"] != "none":
            mode = None if settings["compile"] == "default" else settings["compile"]
            self.pipe.unet = torch.compile(self.pipe.unet, mode=mode)
            self.decode = torch.compile(self.make_pixels, mode=mode)
        folder = Path(settings["dataset"])
        self.rows = torch.from_numpy(np.load(folder / "input_ids.npy"))
        self.against = torch.from_numpy(np.load(folder / "negative.npy")).to(self.device)
        self.latents = torch.from_numpy(np.load(folder / "latents.npy")).to(self.device, DTYPES[settings["precision"]])
        self.batch = settings["batch"]

    def encode(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = self.pipe.text_encoder(ids, output_hidden_states=True)
        second = self.pipe.text_encoder_2(ids, output_hidden_states=True)
        return torch.cat([first.hidden_states[-2], second.hidden_states[-2]], -1), second[0]

    def make_pixels(self, latents: torch.Tensor) -> torch.Tensor:
        made = self.vae.decode(latents.to(self.vae.dtype) / self.vae.config.scaling_factor, return_dict=False)[0]
        return ((made * 0.5 + 0.5).clamp(0, 1).permute(0, 2, 3, 1).float() * 255).round().to(torch.uint8)

    def paint(self, number: int) -> np.ndarray:
        start = number * self.batch % (len(self.rows) - self.batch + 1)
        with torch.no_grad():
            words, whole = self.encode(self.rows[start : start + self.batch].to(self.device))
            against, against_whole = self.encode(self.against)
            latents = self.pipe(
                prompt_embeds=words,
                pooled_prompt_embeds=whole,
                negative_prompt_embeds=against.expand(len(words), -1, -1),
                negative_pooled_prompt_embeds=against_whole.expand(len(words), -1),
                guidance_scale=GUIDANCE,
                num_inference_steps=self.settings["steps"],
                latents=self.latents.repeat(len(words), 1, 1, 1),
                output_type="latent",
            ).images
            images: np.ndarray = self.decode(latents).cpu().numpy()
        return images


def main() -> None:
    settings = json.loads(sys.argv[2])
    loop = PlainLoop(settings)
    for number in range(2):
        images = loop.paint(number)
    began = time.monotonic()
    for number in range(settings["batches"]):
        images = loop.paint(number)
    seconds = time.monotonic() - began
    rate = settings["batches"] * settings["batch"] / seconds
    print(json.dumps({"rate": rate, "seconds": seconds, "shape": list(images.shape)}))


if __name__ == "__main__":
    main()
