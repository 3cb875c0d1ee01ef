"""Convert token ids to text and text to sentences, as the language benchmarks' official scripts do.

The dataset's folder contains the required files: the checkpoint's ``tokenizer.json`` and ``tokenizer_config.json``, and
the four tables with which NLTK finds the ends of English sentences (``punkt_tab``).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from harness.benchmarks.sources import read_json
from harness.errors import HarnessError

TOKENIZER, TOKENIZER_FACTS = "tokenizer.json", "tokenizer_config.json"
SENTENCES = "tokenizers/punkt_tab/english"  # below a folder of NLTK's
SENTENCE_TABLES = ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt")
_NLTK = ("nltk_data", "../nltk_data")  # in the folder of the rows, or next to the dataset's folder
# Removed by transformers, in this order, if a tokenizer requests it.
_SPACED = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")


def find_tokenizer(source: Path, places: Sequence[str], fix: str) -> Path:
    """Find the folder that contains it: ``source``, or the first of ``places``, relative to ``source``."""
    for folder in (source, *(source / place for place in places)):
        if (folder / TOKENIZER).is_file():
            return folder
    raise HarnessError(f"{source / TOKENIZER}: No such file or directory", "missing", fix)


def find_sentence_tables(source: Path, fix: str) -> Path:
    for place in _NLTK:
        if all((source / place / SENTENCES / name).is_file() for name in SENTENCE_TABLES):
            return source / place / SENTENCES
    raise HarnessError(f"{source / _NLTK[0] / SENTENCES} has no {', '.join(SENTENCE_TABLES)}", "missing", fix)


def read_tokenizer(folder: Path, fix: str) -> Tokenizer:
    path = folder / TOKENIZER
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # regardless of its class in the library
        raise HarnessError(f"{path} is truncated or not a tokenizer: {error}", "input", fix) from error


def keep_texts(tokenizer: Path, sentences: Path | None, output: Path, fix: str) -> None:
    """Store the files in the prepared dataset, so that its answers can be scored anywhere."""
    facts = read_json(tokenizer / TOKENIZER_FACTS, fix) if (tokenizer / TOKENIZER_FACTS).is_file() else {}
    shutil.copyfile(tokenizer / TOKENIZER, output / TOKENIZER)
    (output / TOKENIZER_FACTS).write_text(json.dumps(facts), encoding="utf-8")
    if sentences is not None:
        (output / SENTENCES).mkdir(parents=True)
        for name in SENTENCE_TABLES:
            shutil.copyfile(sentences / name, output / SENTENCES / name)


def load_decoder(dataset: Path, *, cleans: bool, marks: bool = False) -> Callable[[Sequence[int]], str]:
    """Return a function from token ids to text. ``cleans``: remove blanks before punctuation if the tokenizer's own
    file does not decide; ``marks``: keep special tokens in the text."""
    tokenizer = Tokenizer.from_file(str(dataset / TOKENIZER))
    facts: dict[str, Any] = json.loads((dataset / TOKENIZER_FACTS).read_text(encoding="utf-8"))

    def decode(tokens: Sequence[int]) -> str:
        text: str = tokenizer.decode(list(tokens), skip_special_tokens=not marks)
        return text

    if not facts.get("clean_up_tokenization_spaces", cleans):
        return decode
    return lambda tokens: clean(decode(tokens))


def clean(text: str) -> str:
    for spaced in _SPACED:
        text = text.replace(spaced, spaced.strip())
    return text


def load_sentence_splitter(dataset: Path) -> Callable[[str], str]:
    """Return a function that puts each sentence of a text on its own line, by the dataset's tables."""
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    known = PunktParameters()
    known.abbrev_types, known.collocations, context, known.sent_starters = map(
        set, (_read_rows(dataset / SENTENCES / name) for name in SENTENCE_TABLES)
    )
    known.ortho_context.update({word: int(flags) for word, flags in context})
    tokenizer = PunktSentenceTokenizer(known)
    return lambda text: "\n".join(tokenizer.tokenize(text))


def _read_rows(path: Path) -> list[Any]:
    """Read lines, those of a ``.tab`` file as tuples. NLTK itself refuses files with hard links, as in a store."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines] if path.suffix == ".tab" else lines
