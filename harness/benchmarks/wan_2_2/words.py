"""Prompts as the text encoder of the pipeline takes them: 512 tokens of UMT5 each, and which of them are the prompt's.

The tokenizer is the checkpoint's own file. The library cleans prompts before; the reference asks transformers and the
library for the same.
"""

from __future__ import annotations

import html
import itertools
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram

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


END, UNKNOWN = "</s>", "<unk>"
_SUBJECTS = ("a person", "a dog", "an elephant", "a car", "a boat", "a panda", "a train", "an astronaut", "a cow")
_DOINGS = ("drinking water", "turning a corner", "crossing a bridge", "running fast", "standing still", "looking up")
_PLACES = ("in the rain", "at night", "near the harbour", "on a beach", "in front of a castle")
_STYLES = ("", ", pixel art", ", watercolor painting", ", black and white", ", in cyberpunk style", ", animated style")
_WORD, _LETTER = -5.0, -12.0  # how likely a piece is: words before letters


def write_prompts(path: Path, count: int, seed: int) -> list[str]:
    """As the reference has them: one on a line, each once, as far as there are so many."""
    known = ["".join(parts) for parts in itertools.product(_phrases(), _STYLES)]
    order = np.random.default_rng(seed).permutation(len(known))
    prompts = [known[order[number % len(known)]] for number in range(count)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*prompts, ""]), encoding="utf-8")
    return prompts


def _phrases() -> list[str]:
    return [" ".join(parts) for parts in itertools.product(_SUBJECTS, _DOINGS, _PLACES)]


def write_tokenizer(folder: Path, texts: Sequence[str]) -> int:
    """How many tokens there are: the words of the texts, and letters for all others."""
    words = sorted({word for text in texts for word in text.replace(",", " ,").split()})
    pieces = [*((f"▁{word}", _WORD) for word in words), *((letter, _LETTER) for letter in f"▁{string.printable[:95]}")]
    marks = [(mark, 0.0) for mark in (PADDING, END, UNKNOWN)]
    tokens = list(dict([*marks, *pieces]).items())
    tokenizer = Tokenizer(Unigram(tokens, 2, False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {END}", special_tokens=[(END, 1)])
    tokenizer.add_special_tokens([PADDING, END, UNKNOWN])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / FILE))
    return len(tokens)
