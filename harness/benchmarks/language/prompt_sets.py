"""Convert a language benchmark's published prompts to the form used by runs and scores.

A benchmark declares its files as a ``PromptSet``; all of them are checked before anything is written.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from harness.benchmarks.language.tables import Columns, read_table
from harness.benchmarks.sources import choose_count, is_rehearsal, read_json, require_source
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.qsl import Arrays, Consecutive, Ragged
from harness.run.tokens import PROMPTS, STOP_SEQUENCE

# The dataset's folder contains the required files: the checkpoint's ``tokenizer.json`` and ``tokenizer_config.json``,
# and the four tables that NLTK needs to find the ends of English sentences (``punkt_tab``).

TOKENIZER, TOKENIZER_FACTS = "tokenizer.json", "tokenizer_config.json"
SENTENCES = "tokenizers/punkt_tab/english"  # below a data folder of NLTK
SENTENCE_TABLES = ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt")
_NLTK = ("nltk_data", "../nltk_data")  # in the folder of the rows, or next to the dataset's folder
# transformers removes the blanks of these, in this order, if a tokenizer requests it.
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
    except Exception as error:  # regardless of the tokenizer's class in the library
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
        return tokenizer.decode(list(tokens), skip_special_tokens=not marks)

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


REFERENCES = "references.json"
_FEWEST = 0.99  # minimum share of a model's tokens in its tokenizer

Encode = Callable[[Tokenizer, Mapping[str, Any]], list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSet:
    """A published set of prompts. ``name``: the benchmark's name, for `reconcile fetch`. ``files``: common names of the
    file with the rows, any of which is accepted. ``tokens``: the column of token ids; otherwise ``encode`` makes them
    from the ``asked`` columns. ``references``: columns that a score needs. ``vocabulary``: token ids are below it;
    ``longest``: tokens of the longest prompt, 0 if unknown. ``checkpoints``: folders below ``models`` of a scratch
    space that usually contain the checkpoint with the tokenizer. ``sentences``: the score splits texts into sentences.
    ``also``: other names that columns have had. ``within``: the folder with the files, below the dataset's folder; ""
    if it is the dataset's folder itself. ``stops``: value of the column ``dataset`` -> which of the benchmark's stop
    sequences ends the answer, from 1.
    """

    name: str
    files: tuple[str, ...]
    samples: int
    vocabulary: int
    references: tuple[str, ...]
    checkpoints: tuple[str, ...]
    tokens: str = "tok_input"
    encode: Encode | None = None
    asked: tuple[str, ...] = ()
    longest: int = 0
    sentences: bool = True
    numeric: frozenset[str] = field(default_factory=frozenset)
    also: Mapping[str, str] = field(default_factory=dict)
    within: str = ""
    stops: Mapping[str, int] = field(default_factory=dict)

    @property
    def fix(self) -> str:
        return f"`reconcile fetch {self.name}` shows its source and location"


def build_prompt_set(
    published: PromptSet, source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter
) -> None:
    """Write prompts.npy with prompt_ends.npy, references.json, the tokenizer, and the tables of sentences.

    ``settings``: count (number of rows, from the first), unpublished (true: the number of rows may differ from the
    published one).
    """
    source = require_source(source, published.files[0])
    folder, fix = find_folder(published, source), published.fix
    path = source if source.is_file() else find_rows(published, folder / published.within)
    places = [f"../../models/{name}" for name in published.checkpoints]
    tokenizer = find_tokenizer(folder, places, f"copy it there from the checkpoint {published.checkpoints[0]}")
    sentences = find_sentence_tables(folder, fix) if published.sentences else None
    encoder = read_tokenizer(tokenizer, fix)
    if not is_rehearsal(folder):
        _check_size(encoder.get_vocab_size(), published, tokenizer)
    columns = published.asked if published.encode else (published.tokens,)
    table = read_table(path, [*columns, *published.references], fix, also=published.also)
    count = len(table[columns[0]])
    if count != published.samples and not is_rehearsal(folder) and not settings.get("unpublished"):
        raise HarnessError(f"{path} has {count} rows, but the published set has {published.samples}", "input", fix)
    count = choose_count(settings, count)
    counter.stage("building", count)
    prompts = _collect_prompts(published, table, count, encoder, path, counter)
    references = {name: table[name][:count] for name in published.references}
    _check_references(references, path, fix, published.numeric)
    write_prompts(output, prompts, [published.stops.get(kind, 0) for kind in references.get("dataset", ())])
    (output / REFERENCES).write_text(json.dumps(references), encoding="utf-8")
    keep_texts(tokenizer, sentences, output, fix)


def _check_size(size: int, published: PromptSet, folder: Path) -> None:
    """Check the tokenizer's size; a network may have a few more rows than its tokenizer has tokens."""
    if not _FEWEST * published.vocabulary <= size <= published.vocabulary:
        problem = f"{folder / TOKENIZER} has {size} tokens, but the model has {published.vocabulary}"
        raise HarnessError(problem, "input", f"copy the tokenizer of {published.checkpoints[0]}")


def find_folder(published: PromptSet, source: Path) -> Path:
    """Find the dataset's folder; ``source`` may be a file in it."""
    if not source.is_file():
        return source
    return source.parent.parent if published.within and source.parent.name == published.within else source.parent


def find_rows(published: PromptSet, folder: Path) -> Path:
    for name in published.files:
        if (folder / name).is_file():
            return folder / name
    missing = " nor ".join(published.files)
    problem = f"{folder} has {'neither ' if len(published.files) > 1 else 'no '}{missing}"
    raise HarnessError(problem, "missing", published.fix)


def load_references(dataset: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = json.loads((dataset / REFERENCES).read_text(encoding="utf-8"))
    return found


def _collect_prompts(
    published: PromptSet, table: Columns, count: int, tokenizer: Tokenizer, path: Path, counter: Counter
) -> list[list[int]]:
    found: list[list[int]] = []
    for number in range(count):
        if published.encode:
            row = {name: table[name][number] for name in published.asked}
            tokens = published.encode(tokenizer, row)
        else:
            tokens = _read_tokens(table[published.tokens][number])
        if wrong := _find_wrong(tokens, published):
            raise HarnessError(f"{path}: row {number} {wrong}", "input", published.fix)
        found.append(tokens)
        counter.bump(1)
    return found


def _read_tokens(value: Any) -> list[int]:
    """Read a list or a numpy array; nothing from other values."""
    listed = value.tolist() if isinstance(value, np.ndarray) else value
    whole = isinstance(listed, list) and all(type(token) is int for token in listed)
    return listed if whole else []


def _find_wrong(tokens: Sequence[int], published: PromptSet) -> str:
    if not tokens:
        return "is not a prompt of token ids"
    if min(tokens) < 0 or max(tokens) >= published.vocabulary:
        return (
            f"names token {min(tokens) if min(tokens) < 0 else max(tokens)}, but the vocabulary has "
            f"{published.vocabulary}"
        )
    if published.longest and len(tokens) > published.longest:
        return f"is a prompt of {len(tokens)} tokens, longer than the published maximum of {published.longest}"
    return ""


def _check_references(references: Columns, path: Path, fix: str, numeric: frozenset[str]) -> None:
    for name, values in references.items():
        kinds = (str, int, float) if name in numeric else (str,)
        for number, value in enumerate(values):
            if not isinstance(value, kinds):
                raise HarnessError(f"{path}: row {number} has no text as {name}, but {value!r}", "input", fix)


# Prompts in a prepared dataset: rows of token ids of any length, concatenated in one file.

_TOKENS, _ENDS, _STOPS = "prompts.npy", "prompt_ends.npy", "stop_sequences.npy"


def write_prompts(output: Path, prompts: Sequence[Sequence[int]], stops: Sequence[int] = ()) -> None:
    """Write prompts. ``stops``: the ``STOP_SEQUENCE`` of each prompt. Raises HarnessError for an empty prompt, which no
    server answers."""
    lengths = [len(prompt) for prompt in prompts]
    if not lengths or 0 in lengths:
        where = f"prompt {lengths.index(0)} is empty" if lengths else "there are no prompts"
        raise HarnessError(where, "input", "check the dataset file")
    np.save(output / _TOKENS, np.concatenate([np.asarray(prompt, np.int32) for prompt in prompts]))
    np.save(output / _ENDS, np.cumsum(lengths))
    if any(stops):
        np.save(output / _STOPS, np.array(stops, np.int8))


def load_prompts(dataset: Path) -> Arrays:
    """Load the samples of a run, as views of a memory map."""
    tokens = np.load(dataset / _TOKENS, mmap_mode="r")
    found: dict[str, Any] = {PROMPTS: Ragged(Consecutive(tokens, np.append(0, np.load(dataset / _ENDS))))}
    if (path := dataset / _STOPS).is_file():
        found[STOP_SEQUENCE] = np.load(path)
    return found


def draw_lengths(rng: np.random.Generator, count: int, mean: int, longest: int) -> list[int]:
    """Draw many short lengths and a few long ones, as in published prompts. Their logarithms are evenly distributed."""
    spread = 0.6
    drawn = rng.lognormal(np.log(mean) - spread**2 / 2, spread, count)
    found: list[int] = np.clip(drawn, 4, longest).astype(int).tolist()
    return found
