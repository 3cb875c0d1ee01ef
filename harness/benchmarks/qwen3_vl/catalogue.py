"""Shopify's product catalogue in Hugging Face's layout on disk, and in the form used by a run.

The folder has ``data/SPLIT-00000-of-00000.parquet``: the names of a split's shards include their number. All shards are
checked before the first picture is decoded; then memory holds a few rows, regardless of the total.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.qwen3_vl.scoring import COLUMNS as SCORED
from harness.benchmarks.qwen3_vl.scoring import REFERENCES
from harness.benchmarks.sources import FileRule, check_files, choose_count, is_rehearsal, require_source
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.qsl import Consecutive, Ragged
from harness.run.tokens import MESSAGES

FOLDER = "data"
SPLITS = ("train", "test")  # in the reference's order
ASKED = ("product_title", "product_description", "product_image", "potential_product_categories")
FIX = "`reconcile fetch qwen3-vl` shows its source and location"
_MESSAGES, _ENDS = "messages.bin", "message_ends.npy"
_SHARD = re.compile(r"(train|test)-(\d{5})-of-(\d{5})\.parquet")
_MAGIC = b"PAR1"
_BATCH = 32  # rows in memory


@dataclass(frozen=True, slots=True)
class Edition:
    """A published set. ``rows``: of each of its splits."""

    title: str
    rows: Mapping[str, int]


EDITIONS = (
    Edition("Shopify/product-catalogue", {"train": 38_631, "test": 9_658}),
    Edition("nvidia/Shopify-product-catalogue-8k", {"train": 8_000}),  # of Interactive
)


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
    if rows not in [edition.rows for edition in EDITIONS] and not (is_rehearsal(source) or settings.get("unpublished")):
        raise HarnessError(f"{source} has {_show(rows)}; the published set has {_show_editions()}", "input", FIX)
    count = choose_count(settings, sum(rows.values()))
    counter.stage("building", count)
    references: dict[str, list[Any]] = {name: [] for name in SCORED}
    ends: list[int] = []
    place = 0
    with (output / _MESSAGES).open("wb") as stream, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        ask = partial(_ask, wording)
        for batch in _read_batches([path for paths in shards.values() for path in paths], count):
            for asked in pool.map(ask, batch):
                place += stream.write(asked)
                ends.append(place)
                counter.bump(1)
            for name, values in references.items():
                values.extend(row.values[name] for row in batch)
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
    names = {split: list(_name_shards(split, counts)) for split, counts in many.items() if counts}
    if SPLITS[0] not in names:
        raise HarnessError(f"{folder} has no {SPLITS[0]}-00000-of-….parquet", "missing", FIX)
    rules = [FileRule(name, "Parquet file", _MAGIC, _MAGIC) for known in names.values() for name in known]
    check_files(folder, rules, fix=FIX, only="*.parquet")
    return {split: [folder / name for name in known] for split, known in names.items()}


def _name_shards(split: str, counts: set[int]) -> Iterator[str]:
    (count,) = counts
    return (f"{split}-{number:05d}-of-{count:05d}.parquet" for number in range(count))


def count_rows(path: Path) -> int:
    """Count the rows from a shard's footer. Raises HarnessError if it is damaged, or columns are missing."""
    with _opened(path, "is truncated or not Parquet") as file:
        schema, rows = file.schema_arrow, int(file.metadata.num_rows)
    if missing := [name for name in (*ASKED, *SCORED) if name not in schema.names]:
        raise HarnessError(
            f"{path} has no column {missing[0]}; its columns are {', '.join(schema.names)}", "input", FIX
        )
    kind = schema.field("product_image").type
    if "bytes" not in [kind.field(place).name for place in range(kind.num_fields)]:
        problem = f"{path}: product_image holds {kind}, not image bytes"
        raise HarnessError(problem, "input", f"use the published files unchanged; {FIX}")
    return rows


@dataclass(frozen=True, slots=True)
class _Row:
    path: Path
    number: int
    values: Mapping[str, Any]


def _read_batches(paths: Sequence[Path], count: int) -> Iterator[list[_Row]]:
    rows = islice((row for path in paths for row in _read_rows(path)), count)
    while batch := list(islice(rows, _BATCH)):
        yield batch


def _read_rows(path: Path) -> Iterator[_Row]:
    number = 0
    with _opened(path, "is damaged") as file:
        for batch in file.iter_batches(_BATCH, columns=[*ASKED, *SCORED]):
            for values in batch.to_pylist():
                yield _Row(path, number, values)
                number += 1


@contextmanager
def _opened(path: Path, problem: str) -> Iterator[Any]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            yield file
    except (OSError, ArrowException, ValueError) as error:  # the last for invalid text
        raise HarnessError(f"{path} {problem}: {error}", "input", FIX) from error


def _ask(wording: Any, row: _Row) -> bytes:
    """Return the JSON of the messages."""
    from harness.benchmarks.qwen3_vl.messages import make_messages

    picture = (row.values["product_image"] or {}).get("bytes")
    if not picture:
        raise HarnessError(f"{row.path}: row {row.number} has no picture", "input", FIX)
    try:
        messages = make_messages(wording, {**row.values, "product_image": picture})
    except Exception as error:  # Pillow's errors for invalid pictures; too large a picture has its own class
        problem = f"{row.path}: the picture of row {row.number} cannot be decoded: {error}"
        raise HarnessError(problem, "input", FIX) from error
    return json.dumps(messages, ensure_ascii=False).encode()


def _show(rows: Mapping[str, int]) -> str:
    return " and ".join(f"{count:,} rows of {split}" for split, count in rows.items())


def _show_editions() -> str:
    return "; ".join(f"{_show(edition.rows)} ({edition.title})" for edition in EDITIONS)
