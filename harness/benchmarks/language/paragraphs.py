"""The text of Python's own documentation (``pydoc``'s topics) as paragraphs, and a small tokenizer learned from it.

Every Python installation includes it; minor versions have different editions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as JoinBytes
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

END = 0  # token that ends a paragraph, and an answer
_END = "<end>"
_PROSE = 0.85  # minimum share of letters and spaces in a paragraph that is neither code nor grammar


def read_paragraphs() -> list[str]:
    """Read each paragraph of prose once, as one line."""
    from pydoc_data.topics import topics

    joined = "\n\n".join(topics[name] for name in sorted(topics))
    blocks = (" ".join(block.split()) for block in re.split(r"\n\s*\n", joined))
    return list(dict.fromkeys(block for block in blocks if is_prose(block)))


def is_prose(text: str) -> bool:
    plain = sum(character.isalpha() or character == " " for character in text)
    return text.endswith((".", ":")) and plain >= _PROSE * len(text)


def learn_tokenizer(texts: Sequence[str], size: int) -> Tokenizer:
    """Learn byte pairs by frequency (BPE); token 0 ends a text."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = JoinBytes()
    trainer = BpeTrainer(
        vocab_size=size, special_tokens=[_END], initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
