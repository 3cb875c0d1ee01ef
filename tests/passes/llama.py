"""A tiny Llama with seeded weights, as a checkpoint in Hugging Face's layout and as plain numpy.

What numpy says is right: whatever serves the checkpoint in fp32 must answer so. Few tokens, and scores far apart.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np

WORDS, WIDTH, LAYERS, INNER = 256, 64, 2, 128
HEADS, KEYS = 2, 1
HEAD = WIDTH // HEADS  # vLLM has kernels for 32 and more
EPSILON, THETA = 1e-5, 10000.0
_SHARDS = 2
Weights = dict[str, np.ndarray]


def draw_weights(seed: int = 1) -> Weights:
    rng = np.random.default_rng(seed)
    sizes = {"model.embed_tokens": (WORDS, WIDTH), "lm_head": (WORDS, WIDTH)}
    for layer in range(LAYERS):
        own = {
            "self_attn.q_proj": (WIDTH, WIDTH),
            "self_attn.k_proj": (KEYS * HEAD, WIDTH),
            "self_attn.v_proj": (KEYS * HEAD, WIDTH),
            "self_attn.o_proj": (WIDTH, WIDTH),
            "mlp.gate_proj": (INNER, WIDTH),
            "mlp.up_proj": (INNER, WIDTH),
            "mlp.down_proj": (WIDTH, INNER),
        }
        sizes |= {f"model.layers.{layer}.{name}": size for name, size in own.items()}
    made = {name: rng.standard_normal(size) / np.sqrt(size[1]) for name, size in sizes.items()}
    norms = ["model.norm", *(f"model.layers.{n}.{name}" for n in range(LAYERS) for name in _NORMS)]
    made |= {name: np.ones(WIDTH) for name in norms}
    return {f"{name}.weight": value.astype(np.float32) for name, value in made.items()}


_NORMS = ("input_layernorm", "post_attention_layernorm")


def write_checkpoint(folder: Path, weights: Weights, *, end: int) -> None:
    """In two shards."""
    folder.mkdir(parents=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": WORDS,
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEYS,
        "head_dim": HEAD,
        "hidden_act": "silu",
        "rms_norm_eps": EPSILON,
        "rope_theta": THETA,
        "max_position_embeddings": 256,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "bos_token_id": 1,
        "eos_token_id": end,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="ascii")
    names = sorted(weights)
    placed = {}
    for shard in range(_SHARDS):
        file = f"model-{shard + 1:05}-of-{_SHARDS:05}.safetensors"
        own = {name: weights[name] for name in names[shard::_SHARDS]}
        _write_shard(folder / file, own)
        placed |= dict.fromkeys(own, file)
    index = {"metadata": {"total_size": sum(value.nbytes for value in weights.values())}, "weight_map": placed}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="ascii")


def _write_shard(path: Path, weights: Weights) -> None:
    header, place = {}, 0
    for name, value in weights.items():
        end = place + value.nbytes
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [place, end]}
        place = end
    said = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(struct.pack("<Q", len(said)) + said + b"".join(value.tobytes() for value in weights.values()))


def continue_greedily(weights: Weights, prompt: list[int], count: int, *, end: int, least: int = 1) -> list[int]:
    """The likeliest next tokens. ``end`` ends them, and is impossible before ``least``."""
    tokens = list(prompt)
    while len(tokens) < len(prompt) + count:
        scores = _score(weights, np.array(tokens))
        if len(tokens) - len(prompt) < least:
            scores[end] = -np.inf
        tokens.append(int(scores.argmax()))
        if tokens[-1] == end:
            break
    return tokens[len(prompt) :]


def _score(weights: Weights, tokens: np.ndarray) -> np.ndarray:
    """Of each next token after the last."""
    hidden = weights["model.embed_tokens.weight"][tokens]
    for layer in range(LAYERS):
        own = {name.removeprefix(f"model.layers.{layer}."): value for name, value in weights.items()}
        hidden = hidden + _attend(own, _normalize(hidden, own["input_layernorm.weight"]))
        seen = _normalize(hidden, own["post_attention_layernorm.weight"])
        gate = seen @ own["mlp.gate_proj.weight"].T
        inner = gate / (1 + np.exp(-gate)) * (seen @ own["mlp.up_proj.weight"].T)
        hidden = hidden + inner @ own["mlp.down_proj.weight"].T
    last: np.ndarray = _normalize(hidden[-1], weights["model.norm.weight"]) @ weights["lm_head.weight"].T
    return last


def _attend(own: Weights, seen: np.ndarray) -> np.ndarray:
    count = len(seen)
    query = _turn((seen @ own["self_attn.q_proj.weight"].T).reshape(count, HEADS, HEAD))
    key = _turn((seen @ own["self_attn.k_proj.weight"].T).reshape(count, KEYS, HEAD))
    value = (seen @ own["self_attn.v_proj.weight"].T).reshape(count, KEYS, HEAD)
    key, value = (part.repeat(HEADS // KEYS, axis=1) for part in (key, value))
    scores = np.einsum("ihd,jhd->hij", query, key) / np.sqrt(HEAD) + np.triu(np.full((count, count), -1e9), 1)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    mixed = np.einsum("hij,jhd->ihd", shares, value).reshape(count, WIDTH)
    found: np.ndarray = mixed @ own["self_attn.o_proj.weight"].T
    return found


def _turn(rows: np.ndarray) -> np.ndarray:
    """Rotary positions: the first half of each head with the second."""
    angles = np.arange(len(rows))[:, None] / THETA ** (np.arange(HEAD // 2) * 2 / HEAD)
    cosine, sine = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
    left, right = rows[..., : HEAD // 2], rows[..., HEAD // 2 :]
    return np.concatenate([left * cosine - right * sine, right * cosine + left * sine], axis=-1)


def _normalize(rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
    found: np.ndarray = rows / np.sqrt((rows * rows).mean(axis=-1, keepdims=True) + EPSILON) * scale
    return found
