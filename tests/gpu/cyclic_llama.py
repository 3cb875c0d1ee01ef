"""A Llama of any shape with fp8 weights whose likeliest answers are known: the next token of a fixed cycle.

Every layer computes random products, so a run costs what it costs with a trained network. Their outputs are small
against the embedding of the token, and the head's rows are the embeddings shifted by the cycle: the right token leads
by far more than fp8 rounds away. So a complete pass can judge answers where no trained checkpoint is available.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from harness.benchmarks.language.paragraphs import END
from harness.benchmarks.language.prompt_sets import draw_lengths

_FIRST = 300  # the tokens before it end texts, or are single bytes, without which answers have no words
_QUIET = 0.02  # the size of a layer's output relative to the embedding
_LARGEST = 448.0  # of fp8 (E4M3)
_INPUT_SCALE = 32 / _LARGEST  # inputs of linear layers are below 32
_INSTRUCTION = {"llama": "Summarize the following news article in 128 tokens."}


def follow(token: int, words: int) -> int:
    """The token after ``token``; ``words``: tokens of the cycle with those before ``_FIRST``."""
    return _FIRST + (token - _FIRST + 1) % (words - _FIRST)


def write_checkpoint(folder: Path, config: dict[str, Any], words: int, *, seed: int) -> None:
    """Write config.json and weights as ModelOpt publishes fp8 checkpoints: a scale for each tensor of weights and of
    inputs. ``words``: of the tokenizer; the vocabulary may be larger."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dice = torch.Generator(device).manual_seed(seed)
    width, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    linear = {
        "self_attn.q_proj": (queries, width, 1.0),
        "self_attn.k_proj": (keys, width, 1.0),
        "self_attn.v_proj": (keys, width, 1.0),
        "self_attn.o_proj": (width, queries, _QUIET),
        "mlp.gate_proj": (inner, width, 1.0),
        "mlp.up_proj": (inner, width, 1.0),
        "mlp.down_proj": (width, inner, _QUIET),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("openvino_*"), *folder.glob("*.safetensors")):
        old.unlink()
    placed: dict[str, str] = {}
    for layer in range(config["num_hidden_layers"]):  # one file each: memory holds one layer
        place, made = f"model.layers.{layer}", {}
        for name, (outputs, inputs, size) in linear.items():
            weight = torch.randn(outputs, inputs, generator=dice, device=device) * (size / inputs**0.5)
            scale = weight.abs().max() / _LARGEST
            made[f"{place}.{name}.weight"] = (weight / scale).to(torch.float8_e4m3fn).cpu()
            made[f"{place}.{name}.weight_scale"] = scale.float().cpu()
            made[f"{place}.{name}.input_scale"] = torch.tensor(_INPUT_SCALE)
        for name in ("input_layernorm", "post_attention_layernorm"):
            made[f"{place}.{name}.weight"] = torch.ones(width, dtype=torch.bfloat16)
        _save(folder, f"layer-{layer}.safetensors", made, placed)
    embedding = torch.randn(config["vocab_size"], width, generator=dice, device=device).bfloat16()
    scores = torch.randn(config["vocab_size"], width, generator=dice, device=device).bfloat16()
    before = torch.arange(_FIRST, words, device=device)
    scores[before.roll(-1)] = embedding[before]
    ends = {"model.embed_tokens.weight": embedding.cpu(), "lm_head.weight": scores.cpu()}
    ends["model.norm.weight"] = torch.ones(width, dtype=torch.bfloat16)
    _save(folder, "ends.safetensors", ends, placed)
    index = {"metadata": {}, "weight_map": placed}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    said = {**config, "eos_token_id": END, "bos_token_id": END}
    (folder / "config.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


def _save(folder: Path, file: str, made: dict[str, torch.Tensor], placed: dict[str, str]) -> None:
    save_file(made, folder / file, metadata={"format": "pt"})
    placed |= dict.fromkeys(made, file)


def write_articles(data: Path, *, count: int, mean: int, longest: int, answer: int, seed: int) -> None:
    """Replace the rows of a rehearsal's cnn_eval.json. ``mean``, ``longest``: tokens of prompts; ``answer``: tokens of
    every answer."""
    tokenizer = Tokenizer.from_file(str(data / "tokenizer.json"))
    words, rng = tokenizer.get_vocab_size(), np.random.default_rng(seed)
    rows = []
    for length in draw_lengths(rng, count, mean, longest):
        prompt = rng.integers(_FIRST, words, length).tolist()
        said = [follow(prompt[-1], words)]
        while len(said) < answer:
            said.append(follow(said[-1], words))
        rows.append(
            {
                "instruction": _INSTRUCTION,
                "input": tokenizer.decode(prompt),
                "tok_input": prompt,
                "output": tokenizer.decode(said),
            }
        )
    (data / "cnn_eval.json").write_text(json.dumps(rows), encoding="utf-8")
