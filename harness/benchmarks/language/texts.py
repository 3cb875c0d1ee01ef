"""Token ids as text and text as sentences, as the official scripts of the language benchmarks have them.

A dataset's folder brings the files for that: the ``tokenizer.json`` of the checkpoint with its
``tokenizer_config.json``, and the four tables by which NLTK finds the ends of English sentences (``punkt_tab``).
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
# Removed by transformers where a tokenizer asks for it, in this order.
_SPACED = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")


def find_tokenizer(source: Path, places: Sequence[str], fix: str) -> Path:
    """The folder that holds it: ``source``, or the first of ``places``, relative to it."""
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
    except Exception as error:  # of whatever class the library has for it
        raise HarnessError(f"{path} is cut off or not a tokenizer: {error}", "input", fix) from error


def keep_texts(tokenizer: Path, sentences: Path | None, output: Path, fix: str) -> None:
    """Into the prepared dataset, so that its answers can be scored wherever it is."""
    facts = read_json(tokenizer / TOKENIZER_FACTS, fix) if (tokenizer / TOKENIZER_FACTS).is_file() else {}
    shutil.copyfile(tokenizer / TOKENIZER, output / TOKENIZER)
    (output / TOKENIZER_FACTS).write_text(json.dumps(facts), encoding="utf-8")
    if sentences is not None:
        (output / SENTENCES).mkdir(parents=True)
        for name in SENTENCE_TABLES:
            shutil.copyfile(sentences / name, output / SENTENCES / name)


def load_decoder(dataset: Path, *, cleans: bool, marks: bool = False) -> Callable[[Sequence[int]], str]:
    """Token ids → text. ``cleans``: whether blanks before signs go where the tokenizer's own file does not say;
    ``marks``: special tokens stay in the text."""
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
    """Text → the same with a sentence on each line, by the dataset's own tables."""
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    known = PunktParameters()
    known.abbrev_types, known.collocations, context, known.sent_starters = map(
        set, (_read_rows(dataset / SENTENCES / name) for name in SENTENCE_TABLES)
    )
    known.ortho_context.update({word: int(flags) for word, flags in context})
    tokenizer = PunktSentenceTokenizer(known)
    return lambda text: "\n".join(tokenizer.tokenize(text))


def _read_rows(path: Path) -> list[Any]:
    """Lines, those of a ``.tab`` file as tuples. NLTK itself reads no file that has a second name, as those of a store
    have."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines] if path.suffix == ".tab" else lines
