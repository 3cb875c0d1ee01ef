"""The tiny Llama of ``llama.py`` as a GGUF file, which llama.cpp reads: version 3 of the format, everything in fp32."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.passes.llama import EPSILON, HEAD, HEADS, INNER, KEYS, LAYERS, THETA, WIDTH, WORDS, Weights

_MAGIC, _VERSION, _ALIGNMENT = b"GGUF", 3, 32
UINT32, FLOAT32, BOOL, STRING, ARRAY, INT32 = 4, 6, 7, 8, 9, 5  # kinds of values
_FP32 = 0  # of tensors
NORMAL, CONTROL = 1, 3  # kinds of tokens
_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def name_words() -> list[str]:
    """A text for each token, which no other tokens make: a blank, as byte-level BPE has it, and two letters."""
    letters = "abcdefghijklmnop"
    return [f"Ġ{letters[token // 16]}{letters[token % 16]}" for token in range(WORDS)]


def write_tokenizer(path: Path) -> None:
    """For ``tokenizers``: the same words."""
    split = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    words = {word: token for token, word in enumerate(name_words())}
    document = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": split,
        "decoder": split,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "?"},
    }
    path.write_text(json.dumps(document), encoding="utf-8")


def write_gguf(path: Path, weights: Weights, *, end: int) -> None:
    kinds = [CONTROL if token == end else NORMAL for token in range(WORDS)]
    values: list[tuple[str, int, Any]] = [
        ("general.architecture", STRING, "llama"),
        ("llama.context_length", UINT32, 256),
        ("llama.embedding_length", UINT32, WIDTH),
        ("llama.block_count", UINT32, LAYERS),
        ("llama.feed_forward_length", UINT32, INNER),
        ("llama.attention.head_count", UINT32, HEADS),
        ("llama.attention.head_count_kv", UINT32, KEYS),
        ("llama.attention.layer_norm_rms_epsilon", FLOAT32, EPSILON),
        ("llama.rope.dimension_count", UINT32, HEAD),
        ("llama.rope.freq_base", FLOAT32, THETA),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "gpt-2"),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, name_words())),
        ("tokenizer.ggml.token_type", ARRAY, (INT32, kinds)),
        ("tokenizer.ggml.merges", ARRAY, (STRING, [])),
        ("tokenizer.ggml.eos_token_id", UINT32, end),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
    ]
    tensors = _name_tensors(weights)
    written, place = [pack_facts(values, tensors=len(tensors))], 0
    for name, tensor in tensors.items():
        sizes = tensor.shape[::-1]  # the fastest first
        described = struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, _FP32, place)
        written.append(_pack_text(name) + described)
        place += _round_up(tensor.nbytes)
    head = b"".join(written)
    data = b"".join(tensor.tobytes().ljust(_round_up(tensor.nbytes), b"\0") for tensor in tensors.values())
    path.write_bytes(head.ljust(_round_up(len(head)), b"\0") + data)


def pack_facts(values: Sequence[tuple[str, int, Any]], *, tensors: int = 0) -> bytes:
    """The head of a file: (name, kind, value) each."""
    written = [_MAGIC, struct.pack("<IQQ", _VERSION, tensors, len(values))]
    written += [_pack_text(name) + struct.pack("<I", kind) + _pack(kind, value) for name, kind, value in values]
    return b"".join(written)


def _name_tensors(weights: Weights) -> Weights:
    found = {
        "token_embd.weight": weights["model.embed_tokens.weight"],
        "output_norm.weight": weights["model.norm.weight"],
        "output.weight": weights["lm_head.weight"],
    }
    for layer in range(LAYERS):
        for name, other in _NAMES.items():
            found[f"blk.{layer}.{name}.weight"] = weights[f"model.layers.{layer}.{other}.weight"]
        for name, heads in (("attn_q", HEADS), ("attn_k", KEYS)):
            place = f"blk.{layer}.{name}.weight"
            found[place] = _interleave(found[place], heads)
    return {name: np.ascontiguousarray(tensor, np.float32) for name, tensor in found.items()}


def _interleave(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rotary positions turn a row of each head with the next one there, and with one of its second half here."""
    return rows.reshape(heads, 2, HEAD // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def _pack(kind: int, value: Any) -> bytes:
    if kind == STRING:
        return _pack_text(value)
    if kind == ARRAY:
        inner, entries = value
        return struct.pack("<IQ", inner, len(entries)) + b"".join(_pack(inner, entry) for entry in entries)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}[kind], value)


def _pack_text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _round_up(size: int) -> int:
    return -size % _ALIGNMENT + size
