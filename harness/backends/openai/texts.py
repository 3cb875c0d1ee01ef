"""Prompts and answers as text, for servers that take and give no token ids."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.run.tokens import GenerationPlan

_FILE = "tokenizer.json"


@dataclass(slots=True)
class Texts:
    """The model's tokenizer. ``seconds`` that it took for answers: it does not run on the thread that is timed."""

    tokenizer: Any
    seconds: float = 0.0

    def decode(self, tokens: Sequence[int]) -> str:
        """With all that marks a beginning or a turn, since the server is asked to add nothing."""
        found: str = self.tokenizer.decode(list(tokens), skip_special_tokens=False)
        return found

    def encode(self, text: str) -> list[int]:
        began = time.perf_counter()
        found: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        self.seconds += time.perf_counter() - began
        return found


def load_texts(plan: GenerationPlan) -> Texts:
    """Load the tokenizer of the model that the spec names. Raises HarnessError where it has none."""
    from tokenizers import Tokenizer  # a server that takes token ids needs none

    for folder in (plan.source, plan.model):
        path = folder / _FILE if folder is not None else Path(_FILE)
        if folder is not None and path.is_file():
            return Texts(Tokenizer.from_file(str(path)))
    raise HarnessError(
        f"there is no {_FILE} to make text of token ids with",
        "missing",
        "name the checkpoint's folder as model.path, or set run.options.token_ids: true where the server takes ids",
    )
