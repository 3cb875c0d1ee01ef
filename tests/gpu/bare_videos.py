"""Run Wan 2.2 with only the library, in the plain loop that a user would write.

``python -m tests.gpu.bare_videos rate SETTINGS`` prints one JSON document. Settings: model (a folder of
configurations), dataset (of tests.gpu.video_prompts), batch, batches, steps, precision, device, compile.
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
GUIDANCE, GUIDANCE_2, BOUNDARY = 4.0, 3.0, 0.875
NETWORKS = ("transformer", "transformer_2")


def load(settings: dict[str, Any]) -> Any:
    folder, device = Path(settings["model"]), torch.device(settings["device"])

    def config(part: str, name: str = "config.json") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((folder / part / name).read_text())
        return found

    with device:
        decoder = diffusers.AutoencoderKLWan.from_config(config("vae")).eval()
        torch.set_default_dtype(DTYPES[settings["precision"]])
        encoder = transformers.UMT5EncoderModel(transformers.UMT5Config(**config("text_encoder"))).eval()
        networks = {name: diffusers.WanTransformer3DModel.from_config(config(name)).eval() for name in NETWORKS}
    torch.set_default_dtype(torch.float32)
    for network in networks.values():
        exact = set(network._keep_in_fp32_modules)
        for name, weights in network.named_parameters():
            if exact.intersection(name.split(".")):
                weights.data = weights.data.float()
    scheduler = diffusers.UniPCMultistepScheduler.from_config(config("scheduler", "scheduler_config.json"))
    pipe = diffusers.WanPipeline(
        tokenizer=None, text_encoder=encoder, vae=decoder, scheduler=scheduler, boundary_ratio=BOUNDARY, **networks
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


class PlainLoop:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings, self.pipe, self.device = settings, load(settings), torch.device(settings["device"])
        if settings["compile"] != "none":
            mode = None if settings["compile"] == "default" else settings["compile"]
            for name in NETWORKS:
                setattr(self.pipe, name, torch.compile(getattr(self.pipe, name), mode=mode))
        folder = Path(settings["dataset"])
        self.rows = [torch.from_numpy(np.load(folder / f"{name}.npy")) for name in ("input_ids", "attention_mask")]
        against = np.load(folder / "negative.npz")
        self.against = [torch.from_numpy(against[name]).to(self.device) for name in ("input_ids", "attention_mask")]
        self.latents = torch.from_numpy(np.load(folder / "latents.npy")).to(self.device)

    def encode(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self.pipe.text_encoder(ids, mask).last_hidden_state
        return states * mask[..., None].to(states.dtype)

    def film(self, number: int) -> np.ndarray:
        batch = self.settings["batch"]
        start = number * batch % (len(self.rows[0]) - batch + 1)
        with torch.no_grad():
            words = self.encode(*(rows[start : start + batch].to(self.device) for rows in self.rows))
            against = self.encode(*self.against)
            frames, height, width = self.latents.shape[2:]
            videos = self.pipe(
                prompt_embeds=words,
                negative_prompt_embeds=against.expand(len(words), -1, -1),
                height=8 * height,
                width=8 * width,
                num_frames=4 * (frames - 1) + 1,
                guidance_scale=GUIDANCE,
                guidance_scale_2=GUIDANCE_2,
                num_inference_steps=self.settings["steps"],
                latents=self.latents.repeat(len(words), 1, 1, 1, 1),
                output_type="pt",
            ).frames
            pixels: np.ndarray = (videos * 255).to(torch.uint8).cpu().numpy()
        return pixels


def main() -> None:
    settings = json.loads(sys.argv[2])
    loop = PlainLoop(settings)
    videos = loop.film(0)
    began = time.monotonic()
    for number in range(settings["batches"]):
        videos = loop.film(number)
    seconds = time.monotonic() - began
    memory = torch.cuda.max_memory_allocated() >> 20 if settings["device"] == "cuda" else 0
    rate = settings["batches"] * settings["batch"] / seconds
    print(json.dumps({"rate": rate, "seconds": seconds, "shape": list(videos.shape), "memory_mib": memory}))


if __name__ == "__main__":
    main()
