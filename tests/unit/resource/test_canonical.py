"""One text for one meaning."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.resource.canonical import canonicalise, digest, encode_canonical_json, show_decimal
from reconciler.resource.inputs import Input, Origin, make_key
from reconciler.resource.kinds import Address, Kind

few = settings(max_examples=100)
decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=6)
leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | decimals
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@few
@given(values)
def test_canonical_form_is_its_own(value: Any) -> None:
    assert canonicalise(canonicalise(value)) == canonicalise(value)
    assert canonicalise(json.loads(encode_canonical_json(value))) == canonicalise(value)


@few
@given(values)
def test_bytes_are_those_of_the_standard_library(value: Any) -> None:
    """Keys that stand in records were made of these: whatever writes them, they stay."""
    plain = json.dumps(canonicalise(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert encode_canonical_json(value) == plain.encode()


@few
@given(st.dictionaries(st.text(max_size=5), values, max_size=5), st.randoms())
def test_order_of_a_mapping_does_not_matter(value: dict[str, Any], draw: Any) -> None:
    items = list(value.items())
    draw.shuffle(items)
    assert encode_canonical_json(dict(items)) == encode_canonical_json(value)


@few
@given(decimals, st.integers(0, 5))
def test_number_has_one_text(number: Decimal, zeros: int) -> None:
    text = show_decimal(number)
    assert Decimal(text) == number
    padded = f"{number:f}" + ("0" * zeros if "." in f"{number:f}" else "")
    assert show_decimal(Decimal(padded)) == text
    assert "E" not in text.upper()


@pytest.mark.parametrize("text", ["54", "54.0", "5.4e1", "+54", "054.00"])
def test_spellings_of_a_number_are_one(text: str) -> None:
    assert show_decimal(text) == "54"


def test_zero_has_no_sign() -> None:
    assert {show_decimal(t) for t in ("0", "-0", "0.000", "-0e5")} == {"0"}


@pytest.mark.parametrize("value", [1.5, float("nan"), object(), b"x", {1, 2}])
def test_what_is_no_value_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        encode_canonical_json([value])


def test_values_that_differ_have_other_digests() -> None:
    found = [1, "1", True, None, [], {}, [1], {"1": 1}, "", 0, False, "true"]
    assert len({digest(value) for value in found}) == len(found)


inputs = st.lists(
    st.builds(Input, st.text("abc", min_size=1, max_size=3), leaves), max_size=6, unique_by=lambda i: i.name
)


@few
@given(inputs, st.randoms())
def test_key_depends_on_neither_order_nor_origin_nor_absent_values(found: list[Input], draw: Any) -> None:
    moved = [Input(i.name, i.value, Origin("specs/other.yaml", 9, 9)) for i in found]
    draw.shuffle(moved)
    absent = [*moved, Input("a new field", None)]
    assert make_key(Kind.RUN, found) == make_key(Kind.RUN, moved) == make_key(Kind.RUN, absent)


@few
@given(inputs, inputs)
def test_key_differs_with_values(one: list[Input], other: list[Input]) -> None:
    def said(found: list[Input]) -> Any:
        return encode_canonical_json({i.name: i.value for i in found if i.value is not None})

    assert (make_key(Kind.RUN, one) == make_key(Kind.RUN, other)) == (said(one) == said(other))
    assert make_key(Kind.RUN, one) != make_key(Kind.SCORE, one)


@pytest.mark.parametrize(
    ("text", "cell", "label"),
    [
        ("Dataset:net", None, "Dataset"),
        ("Engine:open/box/net/Offline", "open/box/net/Offline", "Engine"),
        ("Run:open/box/net/Offline/accuracy", "open/box/net/Offline", "Run accuracy"),
        ("ComplianceTest:open/box/net/Offline/TEST01", "open/box/net/Offline", "TEST01"),
    ],
)
def test_address_is_its_text(text: str, cell: str | None, label: str) -> None:
    address = Address.parse(text)
    assert (str(address), str(address.cell) if address.cell else None, address.label) == (text, cell, label)
