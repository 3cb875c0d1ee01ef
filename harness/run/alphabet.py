"""A language model small enough for any CPU, for rehearsals of an endpoint. It recites the alphabet.

``python -P -m harness.run.alphabet FOLDER`` writes a checkpoint that any server of Llama models loads (config, weights,
tokenizer, chat template), prompts for measurements, and prompts with the correct answers. After the letter k the model
outputs l to z and ends, so answers have 1 to 26 tokens with any server and any batching. Its layers are computed, but
they contribute nothing because their weights are zero.
"""

from __future__ import annotations

import itertools
import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

LETTERS = "abcdefghijklmnopqrstuvwxyz"
_END, _VOCABULARY, _HEAD = 256, 512, 64
_LAYERS, _INNER = 2, 1024
_PROMPTS, _QUESTIONS = 64, 26
_CONTEXT = 512


def write_rehearsal(folder: Path) -> None:
    model = folder / "model"
    model.mkdir(parents=True, exist_ok=True)
    (model / "model.safetensors").write_bytes(b"".join(_write_tensors()))
    documents = {
        "config.json": _describe(),
        "tokenizer.json": _describe_tokenizer(),
        "tokenizer_config.json": _describe_template(),
        "generation_config.json": {"eos_token_id": _END, "bos_token_id": _END},
    }
    for name, document in documents.items():
        (model / name).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (folder / "prompts.jsonl").write_text("".join(_list_prompts()), encoding="utf-8")
    (folder / "questions.jsonl").write_text("".join(_list_questions()), encoding="utf-8")


def answer(letter: str) -> str:
    return LETTERS[LETTERS.index(letter) + 1 :]


def _list_prompts() -> Iterator[str]:
    """List prompts of growing length, so that the cost of the first token differs."""
    for number in range(_PROMPTS):
        text = f"{number} {'say the alphabet ' * (number % 8)}from {LETTERS[number % (len(LETTERS) - 1)]}"
        yield json.dumps({"prompt": text}) + "\n"


def _list_questions() -> Iterator[str]:
    for letter in LETTERS[: _QUESTIONS - 1]:
        yield json.dumps({"prompt": f"What follows {letter}", "ground_truth": answer(letter)}) + "\n"


def _describe() -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": _VOCABULARY,
        "hidden_size": _VOCABULARY,
        "num_attention_heads": _VOCABULARY // _HEAD,
        "num_key_value_heads": 2,
        "head_dim": _HEAD,
        "num_hidden_layers": _LAYERS,
        "intermediate_size": _INNER,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": _CONTEXT,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "bos_token_id": _END,
        "eos_token_id": _END,
    }


def _list_byte_names() -> list[str]:
    """Map bytes to characters as tokenizers do: printable ones unchanged, the others from U+0100 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def _describe_tokenizer() -> dict[str, object]:
    """Describe a tokenizer with one token for each byte and one for the end."""
    vocabulary = {name: byte for byte, name in enumerate(_list_byte_names())}
    by_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    end = {"id": _END, "content": "<end>", "special": True, "normalized": False}
    end |= dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    return {
        "version": "1.0",
        "added_tokens": [end],
        "pre_tokenizer": by_bytes,
        "decoder": by_bytes,
        "model": {"type": "BPE", "vocab": {**vocabulary, "<end>": _END}, "merges": []},
    }


def _describe_template() -> dict[str, object]:
    template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<end>",
        "eos_token": "<end>",
        "model_max_length": _CONTEXT,
        "chat_template": template,
    }


def _make_tensors() -> Iterator[tuple[str, np.ndarray]]:
    width = _VOCABULARY
    shared = 2 * _HEAD
    following = np.zeros((width, width), np.float32)
    following[_END, :] = 1.0  # after any other token comes the end
    for before, after in itertools.pairwise(LETTERS):
        following[ord(after), ord(before)] = 2.0
    yield "model.embed_tokens.weight", np.eye(width, dtype=np.float32)
    yield "lm_head.weight", following
    for layer in range(_LAYERS):
        at = f"model.layers.{layer}."
        shapes = {
            "self_attn.q_proj": (width, width),
            "self_attn.k_proj": (shared, width),
            "self_attn.v_proj": (shared, width),
            "self_attn.o_proj": (width, width),
            "mlp.gate_proj": (_INNER, width),
            "mlp.up_proj": (_INNER, width),
            "mlp.down_proj": (width, _INNER),
        }
        for name, shape in shapes.items():
            yield f"{at}{name}.weight", np.zeros(shape, np.float32)
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{at}{name}.weight", np.ones(width, np.float32)
    yield "model.norm.weight", np.ones(width, np.float32)


def _write_tensors() -> Iterator[bytes]:
    """Write a safetensors file, which has the length of the header, the header, and then the numbers."""
    tensors = list(_make_tensors())
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors:
        begin, end = end, end + tensor.nbytes
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text))
    yield text
    yield from (tensor.tobytes() for _, tensor in tensors)


if __name__ == "__main__":
    write_rehearsal(Path(sys.argv[1]))
