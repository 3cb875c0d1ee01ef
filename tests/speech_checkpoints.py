"""Checkpoints of Whisper's shape in Hugging Face's layout, with a tokenizer whose words are made up."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MARKS = (
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|en|>",
    "<|translate|>",
    "<|transcribe|>",
    "<|startofprev|>",
    "<|notimestamps|>",
)
PROMPT = ("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>")


def write_checkpoint(folder: Path, shape: Mapping[str, Any], *, weights: bool = False) -> None:
    """Write one. ``shape``: of WhisperConfig. ``weights``: include seeded ones, so that it can be loaded."""
    from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration, WhisperProcessor

    folder.mkdir(exist_ok=True)
    ends = dict.fromkeys(("eos_token_id", "bos_token_id", "pad_token_id"), 0)
    config = WhisperConfig(
        num_mel_bins=128,
        max_source_positions=1500,
        max_target_positions=448,
        decoder_start_token_id=1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
        architectures=["WhisperForConditionalGeneration"],
        **{**ends, **shape},
    )
    config.save_pretrained(folder)
    tokenizer = make_tokenizer(config.vocab_size)
    WhisperProcessor(WhisperFeatureExtractor(feature_size=128), tokenizer).save_pretrained(folder)
    if weights:
        import torch

        torch.manual_seed(0)
        network = WhisperForConditionalGeneration(config)
        with torch.no_grad():  # so that what is transcribed and what was said both count
            for weight in network.parameters():
                weight.mul_(8)
        network.save_pretrained(folder)
    said = {
        **ends,
        "decoder_start_token_id": MARKS.index("<|startoftranscript|>"),
        "no_timestamps_token_id": MARKS.index("<|notimestamps|>"),
        "lang_to_id": {"<|en|>": MARKS.index("<|en|>")},
        "task_to_id": {task: MARKS.index(f"<|{task}|>") for task in ("translate", "transcribe")},
        "is_multilingual": True,
    }
    (folder / "generation_config.json").write_text(json.dumps(said), encoding="ascii")


def make_tokenizer(count: int) -> Any:
    """Make one of ``count`` tokens: the marks, words of one token each, single bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import WhisperTokenizerFast

    single = sorted(pre_tokenizers.ByteLevel.alphabet())
    letters = itertools.product("bdgkpt", "aiou", "bdgklmnst", "aiou", "bdgklmnst", "aiou", "bdgkl")
    words = ("\u0120" + "".join(parts) for parts in letters)
    tokens = [*MARKS, *single, *itertools.islice(words, count - len(MARKS) - len(single))]
    whole = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=[]))
    whole.pre_tokenizer, whole.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    whole.add_special_tokens(list(MARKS))
    named = dict.fromkeys(("eos_token", "bos_token", "unk_token", "pad_token"), MARKS[0])
    return WhisperTokenizerFast(tokenizer_object=whole, **named)
