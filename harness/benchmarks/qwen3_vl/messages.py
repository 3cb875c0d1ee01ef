"""Prompt about one product: the messages of a chat, in the reference's words.

There are two references, one for LoadGen and one for the endpoints harness. They differ in a few words, in the schema
that they quote, and in the format of category lists. Both decode the picture and encode it again in its own format,
with Pillow's defaults.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
from typing import Any

from PIL import ExifTags, Image, ImageOps

from harness.benchmarks.sources import choose_setting

_UNNAMED = "JPEG"  # the endpoints reference's default for a picture without a declared format


@dataclass(frozen=True, slots=True)
class Wording:
    """``system``: the first message. ``list_categories``: formats them as text."""

    system: str
    list_categories: Callable[[Sequence[str]], str]


def _read(name: str) -> str:
    return files("harness.benchmarks.qwen3_vl").joinpath(name).read_text(encoding="utf-8")


def _word_for_endpoints(system: str) -> str:
    """Correct two words as the endpoints reference does, and describe only the whole schema, not each field."""
    system = re.sub(r'\n {6}"description": .*', "", system)
    for theirs, ours in (
        ("specifc", "specific"),
        ("followng", "following"),
        ("Json format for the expected responses from the VLM.", _SCHEMA),
    ):
        system = system.replace(theirs, ours)
    return system


_SCHEMA = (
    r"JSON format for expected VLM responses (matches MLCommons Q3VL schema).\n\nReference: https://github.com/mlcommons/"
    "inference/blob/master/multimodal/qwen3-vl/src/mlperf_inf_mm_q3vl/schema.py"
)
_USER, _SYSTEM = _read("user.txt"), _read("system.txt")
WORDINGS: Mapping[str, Wording] = {
    "loadgen": Wording(_SYSTEM, str),
    "endpoints": Wording(_word_for_endpoints(_SYSTEM), json.dumps),
}


def choose_wording(settings: Mapping[str, Any]) -> Wording:
    """Choose by ``wording`` in the dataset's settings; the default is the reference for LoadGen."""
    return WORDINGS[choose_setting("dataset", settings, "wording", tuple(WORDINGS))]


def make_messages(wording: Wording, product: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make the messages. ``product``: a row of the catalogue, its picture as bytes. Raises OSError if the picture
    cannot be decoded."""
    kind, data = encode_again(product["product_image"])
    text = _USER.format(
        title=product["product_title"],
        description=product["product_description"],
        categories=wording.list_categories(product["potential_product_categories"]),
    )
    address = f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
    parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": address}}]
    return [{"role": "system", "content": wording.system}, {"role": "user", "content": parts}]


def encode_again(data: bytes) -> tuple[str, bytes]:
    """Return the format and the bytes of a picture as the reference sends it."""
    Image.init()
    # A PostScript picture would be a program, which Ghostscript runs.
    image: Image.Image = Image.open(BytesIO(data), formats=[kind for kind in Image.ID if kind != "EPS"])
    image.load()
    if image.getexif().get(ExifTags.Base.Orientation) is not None:
        image = ImageOps.exif_transpose(image)
    kind = image.format or _UNNAMED
    encoded = BytesIO()
    image.save(encoded, format=kind)
    return kind, encoded.getvalue()
