"""Qwen3-VL 235B determines a product's category and brand, and whether it is second-hand, from its picture and texts;
the score is the hierarchical F1 of the categories.

Prompts go to a server with the chat protocol, and answers are logged as in the reference, as the bytes of their text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from harness.benchmarks import TokenBenchmark
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.sources import FileRule, check_files, choose_count, count_threads, is_rehearsal, require_source
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.qsl import Consecutive, Ragged
from harness.run.tokens import MESSAGES

# The folder has ``data/SPLIT-00000-of-00000.parquet``: the names of a split's shards include their number. All shards
# are checked before the first picture is decoded; then a few rows are in memory, regardless of the total.

FOLDER = "data"
SPLITS = ("train", "test")  # in the reference's order
ASKED = ("product_title", "product_description", "product_image", "potential_product_categories")
FIX = "`reconcile fetch qwen3-vl` shows its source and location"
_MESSAGES, _ENDS = "messages.bin", "message_ends.npy"
_SHARD = re.compile(r"(train|test)-(\d{5})-of-(\d{5})\.parquet")
_MAGIC = b"PAR1"
_BATCH = 32  # rows in memory


# Published sets: the number of rows of each split.
EDITIONS = {
    "Shopify/product-catalogue": {"train": 38_631, "test": 9_658},
    "nvidia/Shopify-product-catalogue-8k": {"train": 8_000},  # the set of the Interactive scenario
}


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write messages.bin with message_ends.npy, the JSON of each product's prompt, and references.json.

    ``settings``: wording (see ``messages``), count (number of rows, from the first), unpublished (true: the number of
    rows may differ from the published one).
    """
    from harness.benchmarks.qwen3_vl.messages import choose_wording  # requires Pillow, which a run does not need

    source = require_source(source, f"{FOLDER}/*.parquet")
    wording = choose_wording(settings)
    shards = find_shards(source / FOLDER if (source / FOLDER).is_dir() else source)
    rows = {split: sum(count_rows(path) for path in paths) for split, paths in shards.items()}
    if rows not in EDITIONS.values() and not (is_rehearsal(source) or settings.get("unpublished")):
        known = "; ".join(f"{_show(counts)} ({title})" for title, counts in EDITIONS.items())
        raise HarnessError(f"{source} has {_show(rows)}; the published set has {known}", "input", FIX)
    count = choose_count(settings, sum(rows.values()))
    counter.stage("building", count)
    references: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    ends: list[int] = []
    place = 0
    with (output / _MESSAGES).open("wb") as stream, ThreadPoolExecutor(count_threads({})) as pool:
        ask = partial(_ask, wording)
        found = islice((row for paths in shards.values() for path in paths for row in _read_rows(path)), count)
        while batch := list(islice(found, _BATCH)):
            for asked in pool.map(ask, batch):
                place += stream.write(asked)
                ends.append(place)
                counter.bump(1)
            for name, values in references.items():
                values.extend(row[name] for _, row in batch)
    np.save(output / _ENDS, np.array([0, *ends], np.int64))
    (output / REFERENCES).write_text(json.dumps(references), encoding="utf-8")


def load_samples(dataset: Path) -> Mapping[str, Ragged]:
    """Load the samples, as views of a memory map."""
    whole = np.memmap(dataset / _MESSAGES, np.uint8, "r")
    return {MESSAGES: Ragged(Consecutive(whole, np.load(dataset / _ENDS)))}


def find_shards(folder: Path) -> Mapping[str, list[Path]]:
    """Map each split to its shards, in order; only complete splits of one edition."""
    if not folder.is_dir():
        raise HarnessError(f"{folder}: No such folder", "missing", FIX)
    there = [match for path in folder.glob("*.parquet") if (match := _SHARD.fullmatch(path.name))]
    many = {split: {int(match[3]) for match in there if match[1] == split} for split in SPLITS}
    for split, counts in many.items():
        if len(counts) > 1:
            said = " and ".join(f"{split}-…-of-{count:05d}" for count in sorted(counts))
            raise HarnessError(f"{folder} has {said}: shards of two editions", "input", f"keep one of them; {FIX}")
    names = {
        split: [f"{split}-{number:05d}-of-{count:05d}.parquet" for number in range(count)]
        for split, counts in many.items()
        for count in counts
    }
    if SPLITS[0] not in names:
        raise HarnessError(f"{folder} has no {SPLITS[0]}-00000-of-….parquet", "missing", FIX)
    rules = [FileRule(name, "Parquet file", _MAGIC, _MAGIC) for known in names.values() for name in known]
    check_files(folder, rules, fix=FIX, only="*.parquet")
    return {split: [folder / name for name in known] for split, known in names.items()}


def count_rows(path: Path) -> int:
    """Count the rows from a shard's footer. Raises HarnessError if it is damaged, or columns are missing."""
    with _open_table(path, "is truncated or not Parquet") as file:
        schema, rows = file.schema_arrow, int(file.metadata.num_rows)
    if missing := [name for name in (*ASKED, *COLUMNS) if name not in schema.names]:
        raise HarnessError(
            f"{path} has no column {missing[0]}; its columns are {', '.join(schema.names)}", "input", FIX
        )
    kind = schema.field("product_image").type
    if "bytes" not in [kind.field(place).name for place in range(kind.num_fields)]:
        problem = f"{path}: product_image contains {kind}, not image bytes"
        raise HarnessError(problem, "input", f"use the published files unchanged; {FIX}")
    return rows


def _read_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each row with its place, for messages."""
    with _open_table(path, "is damaged") as file:
        batches = file.iter_batches(_BATCH, columns=[*ASKED, *COLUMNS])
        for number, row in enumerate(row for batch in batches for row in batch.to_pylist()):
            yield f"{path}: row {number}", row


@contextmanager
def _open_table(path: Path, problem: str) -> Iterator[Any]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            yield file
    except (OSError, ArrowException, ValueError) as error:  # ValueError for invalid text
        raise HarnessError(f"{path} {problem}: {error}", "input", FIX) from error


def _ask(wording: Any, placed_row: tuple[str, Mapping[str, Any]]) -> bytes:
    """Return the JSON of the messages."""
    from harness.benchmarks.qwen3_vl.messages import make_messages

    place, row = placed_row
    picture = (row["product_image"] or {}).get("bytes")
    if not picture:
        raise HarnessError(f"{place} has no picture", "input", FIX)
    try:
        messages = make_messages(wording, {**row, "product_image": picture})
    except Exception as error:  # Pillow's errors for invalid pictures; pictures that are too large have their own class
        raise HarnessError(f"{place} has a picture that cannot be decoded: {error}", "input", FIX) from error
    return json.dumps(messages, ensure_ascii=False).encode()


def _show(rows: Mapping[str, int]) -> str:
    return " and ".join(f"{count:,} rows of {split}" for split, count in rows.items())


# The rules only use the category's score. An answer without the requested JSON has no category, no brand, and the wrong
# condition; the reference chooses the condition at random, with seeds that depend on the machine's processors.

REFERENCES = "references.json"
_LEVELS = " > "
_ALIKE = 0.9  # minimum likeness of two equal brands


class ProductAnswer(BaseModel):
    """The requested answer. Its library decides what is valid JSON, as in the reference."""

    model_config = ConfigDict(extra="forbid")

    category: str
    brand: str
    is_secondhand: bool


def write_text(text: str) -> NDArray[np.uint8]:
    """Encode as UTF-8, without a server's incomplete characters."""
    return np.array(bytearray(text.encode("utf-8", "replace")), np.uint8)


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    references = json.loads((dataset / REFERENCES).read_text(encoding="utf-8"))
    indices = log.indices.tolist()
    categories, brands, conditions = ([references[name][index] for index in indices] for name in COLUMNS)
    answers = [read_answer(data) for data in log.data]
    said = {name: [getattr(answer, name, None) for answer in answers] for name in ProductAnswer.model_fields}
    scores = {
        "f1": score_categories(said["category"], categories),
        "brand_f1": score_brands(said["brand"], brands),
        "is_secondhand_f1": score_conditions(said["is_secondhand"], conditions),
        "unparsable": answers.count(None),
    }
    summary = f"Brand F1 {scores['brand_f1']}, is_secondhand F1 {scores['is_secondhand_f1']}"
    lines = [
        "Results",
        "",
        json.dumps({"f1": scores["f1"]}),
        "",
        summary,
        f"{scores['unparsable']} answers are not JSON",
    ]
    (output / "accuracy.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return scores


COLUMNS = ("ground_truth_category", "ground_truth_brand", "ground_truth_is_secondhand")
"""Scored columns of a row."""


def read_answer(data: bytes) -> ProductAnswer | None:
    """Read an answer; None if it is not the requested JSON."""
    try:
        return ProductAnswer.model_validate_json(data)
    except ValidationError:
        return None


def score_categories(found: Sequence[str | None], wanted: Sequence[str]) -> float:
    """Return the F1 over the levels of all categories: those right from the first on, predicted ones and true ones."""
    right = said = true = 0
    for category, truth in zip(found, wanted, strict=True):
        levels = [level.strip() for level in truth.split(_LEVELS)]
        guesses = [level.strip() for level in category.split(_LEVELS)] if category is not None else []
        right += count_common(guesses, levels)
        said += len(guesses) if category is not None else len(levels)
        true += len(levels)
    precision, recall = right / said, right / true
    return 2 * (precision * recall) / (precision + recall) if right else 0.0


def count_common(guesses: Sequence[str], levels: Sequence[str]) -> int:
    """Count from the first level on."""
    for count, (guess, level) in enumerate(zip(guesses, levels, strict=False)):
        if guess != level:
            return count
    return min(len(guesses), len(levels))


def score_brands(found: Sequence[str | None], wanted: Sequence[str]) -> float:
    """Return the share of equal brands. One letter in ten may differ."""
    pairs = zip(found, wanted, strict=True)
    right = sum(
        brand is not None and compute_likeness(brand.strip().lower(), truth.strip().lower()) > _ALIKE
        for brand, truth in pairs
    )
    return right / len(wanted)


def compute_likeness(first: str, second: str) -> float:
    """Return 1 minus the number of deleted and inserted letters, divided by all letters of both texts."""
    size = len(first) + len(second)
    return 1 - (size - 2 * count_shared(first, second)) / size if size else 1.0


def count_shared(first: str, second: str) -> int:
    """Return the length of the longest common subsequence. Each row of the usual table is one integer. Its bits are 0
    where a letter is added (Hyyrö, 2004)."""
    places: dict[str, int] = {}
    for place, letter in enumerate(first):
        places[letter] = places.get(letter, 0) | 1 << place
    whole = (1 << len(first)) - 1
    row = whole
    for letter in second:
        met = row & places.get(letter, 0)
        row = (row + met | row - met) & whole
    return len(first) - row.bit_count()


def score_conditions(found: Sequence[bool | None], wanted: Sequence[bool]) -> float:
    """Return the F1 of second-hand products; 0 if there are none, or none are predicted."""
    pairs = [(not truth if said is None else said, truth) for said, truth in zip(found, wanted, strict=True)]
    right = sum(said and truth for said, truth in pairs)
    of = sum(said + truth for said, truth in pairs)
    return 2 * right / of if of else 0.0


class Qwen3Vl(TokenBenchmark):
    response_dtype = "uint8"
    # From the checkpoint's generation_config.json, to which the reference leaves the sampling; settings missing there
    # (penalties, min_p) are neutral. The model decides where an answer ends.
    generation = {"max_new_tokens": 0, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "seed": -1}
    build_dataset = staticmethod(build_dataset)
    load_samples = staticmethod(load_samples)
    write_text = staticmethod(write_text)
    score = staticmethod(score)


BENCHMARK = Qwen3Vl()
