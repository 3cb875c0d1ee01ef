"""Prompts as the text encoder of the pipeline takes them: 512 tokens of UMT5 each, and which of them are the prompt's.

The tokenizer is the checkpoint's own file. The library cleans prompts before; the reference asks transformers and the
library for the same.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from harness.errors import HarnessError

LENGTH = 512  # tokens, as the library's pipeline has it by default
FILE = "tokenizer.json"
PADDING = "<pad>"


@dataclass(frozen=True, slots=True)
class PromptTokenizer:
    """``padding``: the number of the token that fills up."""

    words: Tokenizer
    padding: int

    def encode(self, prompts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens [prompts, 512], and 1 where one belongs to the prompt: what is longer is cut off."""
        ids = np.full((len(prompts), LENGTH), self.padding, np.int64)
        mask = np.zeros_like(ids)
        found = self.words.encode_batch([clean_prompt(prompt) for prompt in prompts])
        for row, belongs, tokens in zip(ids, mask, found, strict=True):
            row[: len(tokens.ids)] = tokens.ids
            belongs[: len(tokens.ids)] = 1
        return ids, mask


def clean_prompt(prompt: str) -> str:
    """Clean a prompt as the library's pipeline does. It also repairs broken Unicode, of which no prompt of the
    reference has any."""
    return re.sub(r"\s+", " ", html.unescape(html.unescape(prompt))).strip()


def read_tokenizer(folder: Path, fix: str) -> PromptTokenizer:
    """Raises HarnessError where the file is missing, cut off, or without the token that fills up."""
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HarnessError(f"{path} cannot be read: {error}", "missing", fix) from error
    try:
        words = Tokenizer.from_str(text)
    except Exception as error:  # the library raises nothing more special
        raise HarnessError(f"{path} is cut off or not a tokenizer's: {error}", "input", fix) from error
    padding = words.token_to_id(PADDING)
    if padding is None:
        raise HarnessError(f"{path} has no token {PADDING}, and so is not UMT5's", "input", fix)
    words.enable_truncation(LENGTH)
    words.no_padding()
    return PromptTokenizer(words, padding)
