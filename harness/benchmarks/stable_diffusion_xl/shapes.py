"""Configurations of the pipeline's networks, in diffusers' words: the published, and small ones of the same parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
