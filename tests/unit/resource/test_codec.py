"""Structs as documents, as lines of caches, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

import pytest
from msgspec import Struct, field

from reconciler.resource.codec import (
    CodecError,
    decode_json,
    decode_packed,
    encode_canonical,
    encode_json,
    encode_packed,
    make_document,
    read_document,
)
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.storage.json_files import parse_json


class Colour(StrEnum):
    RED = "red"


class Pair(NamedTuple):
    name: str
    size: int


class Inner(Struct, frozen=True):
    at: Address
    value: Any = None


class Stored(Struct, frozen=True):
    LEFT_OUT: ClassVar[frozenset[str]] = frozenset({"later", "last"})

    at: Address
    cell: Cell | None
    colour: Colour
    day: date
    pairs: tuple[Pair, ...]
    inner: Mapping[str, Inner]
    others: tuple[Inner, ...] = ()
    seconds: int | float = 0
    later: Mapping[str, str] = field(default_factory=dict)
    last: str = ""


CELL = Cell("open", "box", "digits", "Offline")
ENGINE, RUN = Address(Kind.ENGINE, str(CELL)), Address(Kind.RUN, f"{CELL}/performance")
PLAIN = Stored(
    ENGINE, CELL, Colour.RED, date(2026, 2, 28), (Pair("größer", 1),), {"run": Inner(RUN, [1])}, (Inner(RUN),)
)
GOLDEN = """\
{
 "at": "Engine:open/box/digits/Offline",
 "cell": "open/box/digits/Offline",
 "colour": "red",
 "day": "2026-02-28",
 "inner": {
  "run": {
   "at": "Run:open/box/digits/Offline/performance",
   "value": [
    1
   ]
  }
 },
 "others": [
  {
   "at": "Run:open/box/digits/Offline/performance",
   "value": null
  }
 ],
 "pairs": [
  [
   "größer",
   1
  ]
 ],
 "seconds": 0
}"""


def test_a_document_spells_addresses_and_comes_back() -> None:
    assert encode_canonical(make_document(PLAIN)).decode() == GOLDEN
    assert read_document(make_document(PLAIN), Stored) == PLAIN


def test_a_field_that_came_later_is_written_only_where_it_says_something() -> None:
    document = make_document(Stored(ENGINE, None, Colour.RED, date.min, (), {}, later={"a": "b"}))
    assert document["later"] == {"a": "b"}
    assert "last" not in document
    assert read_document(document, Stored).later == {"a": "b"}


@pytest.mark.parametrize("seconds", [1, 1.0, 0.25])
def test_a_number_stays_as_it_was_written(seconds: float) -> None:
    document = {**make_document(PLAIN), "seconds": seconds}
    assert repr(make_document(read_document(document, Stored))["seconds"]) == repr(seconds)


@pytest.mark.parametrize(
    "wrong",
    [
        {"at": "Nothing:box"},
        {"at": ["Engine", "box"]},
        {"cell": "open/box"},
        {"colour": "blue"},
        {"day": "soon"},
        {"pairs": [["a", "1"]]},
        {"pairs": [["a"]]},
        {"inner": {"run": {"value": 1}}},
        {"inner": []},
        {"others": [{"at": 5}]},
        {"others": 5},
        {"seconds": True},
        {"later": {"a": 1}},
    ],
    ids=str,
)
def test_what_is_not_of_the_type_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(CodecError):
        read_document({**make_document(PLAIN), **wrong}, Stored)


def test_caches_come_back() -> None:
    assert encode_json(Inner(ENGINE, 1 << 70)) == (
        b'{"at":["Engine","open/box/digits/Offline"],"value":1180591620717411303424}'
    )
    assert decode_json(encode_json(PLAIN), Stored) == PLAIN
    assert encode_packed(Pair("a", 300)) == b"\x92\xa1a\xcd\x01\x2c"
    assert decode_packed(encode_packed(PLAIN), Stored) == PLAIN


def test_what_is_not_text_has_no_form() -> None:
    with pytest.raises(CodecError):
        encode_json(Inner(ENGINE, "/data/\udcff"))


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'{"at":["Engine"]}', b"\xff\xff", b"[" * 100_000])
def test_a_damaged_cache_is_refused(data: bytes) -> None:
    for decode in (decode_json, decode_packed):
        with pytest.raises(CodecError):
            decode(data, Stored)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"a": [1, 2.5, -0.0, true, null], "a": "twice"}', id="plain"),
        pytest.param(b"[123456789012345678901234567890, 18446744073709551616]", id="large-integers"),
        pytest.param(b"[0.1234567890123456789, 1e22, 123456789.123456789e-300]", id="long-decimals"),
        pytest.param(b"[1e400, -1e400, Infinity]", id="beyond-doubles"),
        pytest.param(b'["\\ud800", "\xc3\xa9"]', id="half-a-character"),
        pytest.param(b"\xef\xbb\xbf{}", id="byte-order-mark"),
    ],
)
def test_json_is_read_as_by_the_standard_library(data: bytes) -> None:
    assert repr(parse_json(data)) == repr(json.loads(data))


@pytest.mark.parametrize(
    "data", [b"", b"[1,]", b'"\x01"', b'"\xff"', b"{} {}", pytest.param(b"[" * 200_000, id="brackets")]
)
def test_what_is_no_json_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(data)
