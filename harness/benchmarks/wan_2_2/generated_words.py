"""Generated prompts of VBench's kind, and a tokenizer of UMT5's kind that knows their words."""

from __future__ import annotations

import itertools
import string
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram

from harness.benchmarks.wan_2_2.words import FILE, PADDING

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
