"""Captions and latents in the reference's layout, and a pipeline of Stable Diffusion XL in diffusers' own format.

Its networks have the parts of the published ones: two text encoders of CLIP, a network that gets time, sizes and the
whole text, and a decoder. Their weights are drawn, and images are compared with what the library itself makes of each
caption in fp32.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from harness.backends.diffusers.loading import PIPE, SCHEDULER
from harness.benchmarks.stable_diffusion_xl import PIPELINE
from harness.benchmarks.stable_diffusion_xl.clip_tokens import BEGIN, END, LENGTH
from harness.benchmarks.stable_diffusion_xl.coco2014 import AGAINST, CAPTIONS, LATENTS, REFERENCES, TOKENIZERS
from harness.benchmarks.stable_diffusion_xl.scoring import make_references
from harness.contract import Counter

Config = Mapping[str, Any]
_TIME = 6  # sizes that the network gets as numbers: the picture's, what was cut off, the one that is wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineShape:
    """``side``: of a picture, in pixels. ``encoders``: of the two text encoders, width, layers, heads, inner width and
    activation. ``channels``, ``layers``, ``depths``, ``heads``: of the network's three levels; ``time``: how long the
    code of a size is. ``decoded``: channels of the decoder."""

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
        """``vocabulary``: tokens, of which the last two mark the ends."""
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


COLUMNS = ("id", "image_id", "caption", "height", "width", "file_name", "coco_url")
_LEARNED = 200  # merges
_SUBJECTS = ("man", "woman", "dog", "cat", "train", "bicycle", "giraffe", "plate of food", "child", "bus")
_LOOKS = ("small", "red", "wooden", "young", "large", "brown-and-white", "tall", "wet", "20-year-old", "sleeping")
_DOINGS = ("standing", "sitting", "that's parked", "looking up", "resting", "waiting", "on display", "moving")
_PLACES = ("in a field", "on the beach", "near a table", "under an umbrella", "beside two others", "at night")


def write_captions(path: Path, count: int, seed: int) -> list[str]:
    """As the reference has them; one is longer than the text encoders read."""
    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True)
    captions = [_compose(rng) for _ in range(count)]
    captions[-1] = " ".join(_compose(rng) for _ in range(LENGTH // 6))
    with path.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream, delimiter="\t", lineterminator="\n")
        table.writerow(COLUMNS)
        for number, caption in enumerate(captions):
            name = f"COCO_val2014_{number:012d}.jpg"
            table.writerow([number, number, caption, 480, 640, name, ""])
    return captions


def _compose(rng: np.random.Generator) -> str:
    subject, look, doing, place = (str(rng.choice(words)) for words in (_SUBJECTS, _LOOKS, _DOINGS, _PLACES))
    return f"A {look} {subject} {doing} {place}."


def write_tokenizer(folder: Path, captions: Sequence[str], part: str) -> int:
    """How many tokens there are. The second tokenizer fills up with the exclamation mark, CLIP's first token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    letters = ["!", *(letter for letter in alphabet if letter != "!")]
    merges = learn_merges(captions)
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), *("".join(pair) for pair in merges), BEGIN, END]
    folder.mkdir(parents=True, exist_ok=True)
    numbers = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    (folder / "vocab.json").write_text(json.dumps(numbers, ensure_ascii=False), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges), ""]
    (folder / "merges.txt").write_text("\n".join(lines), encoding="utf-8")
    padding = END if part == "tokenizer" else "!"
    marks = {"bos_token": BEGIN, "eos_token": END, "unk_token": END, "pad_token": padding}
    (folder / "special_tokens_map.json").write_text(json.dumps(marks), encoding="utf-8")
    facts = {**marks, "tokenizer_class": "CLIPTokenizer", "model_max_length": LENGTH, "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts), encoding="utf-8")
    return len(numbers)


def learn_merges(captions: Sequence[str]) -> list[tuple[str, str]]:
    learner = Tokenizer(BPE(end_of_word_suffix="</w>"))
    learner.normalizer = normalizers.Lowercase()
    learner.pre_tokenizer = pre_tokenizers.Whitespace()
    learner.train_from_iterator(
        captions, BpeTrainer(vocab_size=_LEARNED, end_of_word_suffix="</w>", show_progress=False)
    )
    return [(first, second) for first, second in json.loads(learner.to_str())["model"]["merges"]]


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
