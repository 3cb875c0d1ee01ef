"""Question about one product: the messages of a chat, in the words of the reference.

There are two references, which differ in a few words, in the schema that they quote, and in how they list categories:
the one that drives LoadGen, and the one of the endpoints harness. Both encode the decoded picture anew in its own
format, with the defaults of Pillow.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
from typing import Any

from PIL import ExifTags, Image, ImageOps

from harness.errors import HarnessError

_UNNAMED = "JPEG"  # what the endpoints reference takes for a picture that says of no format what it is in


@dataclass(frozen=True, slots=True)
class Wording:
    """``system``: the first message. ``list_categories``: as text."""

    system: str
    list_categories: Callable[[Sequence[str]], str]


def _read(name: str) -> str:
    return files("harness.benchmarks.qwen3_vl").joinpath(name).read_text(encoding="utf-8")


_USER = _read("user.txt")
WORDINGS: Mapping[str, Wording] = {
    "loadgen": Wording(_read("system_loadgen.txt"), str),
    "endpoints": Wording(_read("system_endpoints.txt"), json.dumps),
}


def choose_wording(settings: Mapping[str, Any]) -> Wording:
    """By ``wording`` of the dataset's settings; by default that of the reference for LoadGen."""
    name = str(settings.get("wording", "loadgen"))
    if name not in WORDINGS:
        raise HarnessError(f"dataset.settings.wording is {name!r}", "input", f"use one of {', '.join(WORDINGS)}")
    return WORDINGS[name]


def make_messages(wording: Wording, product: Mapping[str, Any]) -> list[dict[str, Any]]:
    """``product``: a row of the catalogue, its picture as bytes. Raises OSError for one that cannot be decoded."""
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
    """The format and the bytes of a picture as the reference sends it."""
    Image.init()
    # A picture in PostScript would be a program, which Ghostscript runs.
    image: Image.Image = Image.open(BytesIO(data), formats=[kind for kind in Image.ID if kind != "EPS"])
    image.load()
    if image.getexif().get(ExifTags.Base.Orientation) is not None:
        image = ImageOps.exif_transpose(image)
    kind = image.format or _UNNAMED
    encoded = BytesIO()
    image.save(encoded, format=kind)
    return kind, encoded.getvalue()
