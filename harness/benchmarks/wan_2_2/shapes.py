"""Configurations of the pipeline's networks, in the words of diffusers and transformers: the published, and small ones
of the same parts. The published are those of the library's script that converts Wan's checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CHANNELS = 16  # of latents
_BY_SPACE, _BY_TIME = 8, 4  # how much larger a video is than its latents
_PATCH = (1, 2, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoShape:
    """``frames``, ``height``, ``width``: of a video. ``text``: width, layers, heads, width of a head and inner width of
    the text encoder. ``heads``, ``head``, ``inner``, ``layers``, ``time``: of either network, ``time`` being how long
    the code of a step is. ``decoded``: channels of the decoder at its widest; ``decoded_layers``: at each size."""

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
