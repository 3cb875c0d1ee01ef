"""Generated products in the published format: pictures of several sizes, texts with fragments of web pages, categories
from a tree of syllables; the ground truth is what the rehearsal's server answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image
from pyarrow import parquet

from harness.benchmarks.qwen3_vl import FOLDER
from harness.benchmarks.qwen3_vl.messages import WORDINGS, make_messages
from harness.benchmarks.qwen3_vl.stand_in import CONFIG, StandIn
from harness.contract import Counter

MODEL = "Qwen3-VL-235B-A22B-Instruct"
_SHARDS = {"train": 2, "test": 1}
_TEST = 5  # rows in total for each row of the test split, as in the published data
_GROUP = 16  # rows of a row group
_LISTED = (8, 10)  # categories of a product, as for most published ones
_LEVELS = (2, 7)  # levels of a category
_SIZES = (40, 160)  # pixels along a side
_CODE = '<script>function track(id) { return {"a": [`${id}`]}; }</script> '
_TEXT, _PICTURE = pa.string(), pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_COLUMNS = {
    "product_title": _TEXT,
    "product_description": _TEXT,
    "product_image": _PICTURE,
    "potential_product_categories": pa.list_(_TEXT),
    "ground_truth_brand": _TEXT,
    "ground_truth_is_secondhand": pa.bool_(),
    "ground_truth_category": _TEXT,
}
_SAID = {
    "string": {"dtype": "string", "_type": "Value"},
    "bool": {"dtype": "bool", "_type": "Value"},
    "list": {"feature": {"dtype": "string", "_type": "Value"}, "_type": "List"},
    "struct": {"_type": "Image"},
}


def write_rehearsal(
    data: Path,
    models: Path,
    *,
    count: int,
    seed: int,
    size: str,  # noqa: ARG001 - no network is generated
    counter: Counter,
) -> None:
    rng = np.random.default_rng(seed)
    (models / MODEL).mkdir()
    (models / MODEL / CONFIG).write_text(json.dumps({"name": MODEL, "seed": seed}), encoding="utf-8")
    model = StandIn(models / MODEL)
    counter.stage("building", count)
    rows = []
    for number in range(count):
        rows.append(_describe(model, _draw_product(rng, number)))
        counter.bump(1)
    (data / FOLDER).mkdir()
    test_count = max(1, count // _TEST)
    for split, part in (("train", rows[:-test_count]), ("test", rows[-test_count:])):
        _write_split(data / FOLDER, split, part)


def _make_schema() -> pa.Schema:
    """Make a schema with the metadata of the library `datasets`, which states which columns are pictures."""
    features = {name: _SAID[str(kind).partition("<")[0]] for name, kind in _COLUMNS.items()}
    return pa.schema(_COLUMNS, metadata={"huggingface": json.dumps({"info": {"features": features}})})


def _describe(model: StandIn, product: dict[str, Any]) -> dict[str, Any]:
    """Describe a product, including its correct answer."""
    said = model.answer(make_messages(WORDINGS["loadgen"], {**product, "product_image": product["picture"]}))
    picture = product.pop("picture")
    truth = {f"ground_truth_{name}": value for name, value in said.items()}
    return {**product, "product_image": {"bytes": picture, "path": None}, **truth}


def _draw_product(rng: np.random.Generator, number: int) -> dict[str, Any]:
    words = _draw_words(rng, int(rng.integers(20, 120)))
    code = _CODE if number % 4 == 1 else ""
    return {
        "product_title": " ".join(word.capitalize() for word in _draw_words(rng, int(rng.integers(2, 7)))),
        "product_description": f"{code}{' '.join(words)}, Größe {number}, “{words[0]}”\nit's {words[-1]}",
        "picture": _draw_picture(rng, "PNG" if number % 3 == 0 else "JPEG"),
        "potential_product_categories": _draw_categories(rng),
    }


def _draw_words(rng: np.random.Generator, count: int) -> list[str]:
    syllables = [first + vowel for first in "bdfgklmnprst" for vowel in "aeiou"]
    return ["".join(rng.choice(syllables, int(rng.integers(2, 5)))) for _ in range(count)]


def _draw_categories(rng: np.random.Generator) -> list[str]:
    """Draw several categories with the same first levels, so that a wrong one may be partly right."""
    stem = [word.capitalize() for word in _draw_words(rng, _LEVELS[1])]
    found: list[str] = []
    for _ in range(int(rng.integers(*_LISTED))):
        shared = int(rng.integers(1, _LEVELS[0] + 1))
        own = [f"{word.capitalize()} & Co's" for word in _draw_words(rng, int(rng.integers(1, 4)))]
        found.append(" > ".join([*stem[:shared], *own]))
    return found


def _draw_picture(rng: np.random.Generator, kind: str) -> bytes:
    """Draw smooth colours with some grain."""
    width, height = (int(side) for side in rng.integers(*_SIZES, 2))
    coarse = Image.fromarray(rng.integers(0, 256, (4, 5, 3), np.uint8))
    smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), np.float32)
    pixels = np.clip(smooth + rng.normal(0, 8, smooth.shape), 0, 255).astype(np.uint8)
    encoded = BytesIO()
    Image.fromarray(pixels).save(encoded, format=kind)
    return encoded.getvalue()


def _write_split(folder: Path, split: str, rows: Sequence[dict[str, Any]]) -> None:
    shards = min(_SHARDS[split], len(rows))
    each = -(-len(rows) // shards)
    for number in range(shards):
        table = pa.Table.from_pylist(list(rows[number * each : (number + 1) * each]), schema=_make_schema())
        parquet.write_table(table, folder / f"{split}-{number:05d}-of-{shards:05d}.parquet", row_group_size=_GROUP)
