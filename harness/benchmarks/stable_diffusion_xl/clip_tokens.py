"""Captions as the two text encoders of the pipeline take them: 77 tokens of CLIP each.

The vocabulary and the merges are the checkpoint's; how words are taken apart is CLIP's own. The reference asks
transformers for the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import BPE

from harness.benchmarks.sources import read_json
from harness.errors import HarnessError

LENGTH = 77  # tokens, of which the first and the last one mark the ends
BEGIN, END = "<|startoftext|>", "<|endoftext|>"
_WORD_END = "</w>"
_WORDS = Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+")
FILES = ("vocab.json", "merges.txt", "special_tokens_map.json")


@dataclass(frozen=True, slots=True)
class CaptionTokenizer:
    """``begin``, ``end``, ``padding``: numbers of tokens."""

    words: Tokenizer
    begin: int
    end: int
    padding: int

    def encode(self, captions: Sequence[str]) -> NDArray[np.int64]:
        """[captions, 77]: what is longer is cut off, what is shorter filled up."""
        rows = np.full((len(captions), LENGTH), self.padding, np.int64)
        for row, found in zip(rows, self.words.encode_batch(list(captions)), strict=True):
            kept = found.ids[: LENGTH - 2]
            row[: len(kept) + 2] = [self.begin, *kept, self.end]
        return rows


def read_tokenizer(folder: Path, fix: str) -> CaptionTokenizer:
    """Read the tokenizer of a folder of the checkpoint. Raises HarnessError that names the file which is missing or
    broken."""
    vocabulary = read_json(folder / "vocab.json", fix)
    try:
        lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise HarnessError(f"{folder / 'merges.txt'}: {error.strerror}", "missing", fix) from error
    except UnicodeDecodeError as error:
        raise HarnessError(f"{folder / 'merges.txt'} is damaged: {error}", "input", fix) from error
    try:
        merges = [_read_merge(line) for line in lines if line.strip() and not line.startswith("#version")]
        begin, end = vocabulary[BEGIN], vocabulary[END]
        padding = vocabulary[_read_padding(folder, fix)]
        model = BPE(vocabulary, merges, unk_token=END, end_of_word_suffix=_WORD_END)
    except HarnessError:
        raise
    except Exception as error:  # the library raises nothing more special
        raise HarnessError(f"{folder} does not hold a tokenizer of CLIP: {error}", "input", fix) from error
    words = Tokenizer(model)
    words.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    words.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_WORDS, behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    words.add_special_tokens([BEGIN, END])
    return CaptionTokenizer(words, begin, end, padding)


def _read_merge(line: str) -> tuple[str, str]:
    first, second = line.split()
    return first, second


def _read_padding(folder: Path, fix: str) -> str:
    """The token that fills up: of the first encoder the end, of the second one the exclamation mark."""
    found = read_json(folder / "special_tokens_map.json", fix).get("pad_token", END)
    return str(found["content"] if isinstance(found, dict) else found)
