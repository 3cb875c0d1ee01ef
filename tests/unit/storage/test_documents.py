"""JSON objects and YAML mappings of other programs: what is read, what is refused and why, and where names stand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from reconciler.storage.documents import ResultDocument, parse_json_object, parse_yaml_mapping

Parse = Callable[[bytes], ResultDocument]
DIGITS = "a number has hundreds of digits"


def test_a_value_is_found_by_its_names() -> None:
    document = parse_json_object(b'{"a": {"b": {"c": 0}}, "list": [1], "none": null}')
    assert document.get("list") == [1]
    assert document.get("none") is None
    assert document.get("d") is None
    assert document.get_nested("a", "b") == {"c": 0}
    assert document.get_nested("a", "b", "c") == 0
    assert document.get_nested("a", "b", "c", "d") is None
    assert document.get_nested("list", "0") is None
    assert document.get_nested("a", "x", "y") is None
    assert document.get_nested() == document.values


def test_a_name_is_where_it_is_first_a_key() -> None:
    written = json.dumps({"x": "a", "b": {"a": 1}, "long" * 20: 2, "long" * 20 + "x": 3}, indent=1)
    assert parse_json_object(f"\n{written}".encode()).lines == {"x": 3, "b": 4, "a": 5, "long" * 20: 7}
    assert parse_json_object(b'{"a" :1, "b":\n2, "c"\n:3}').lines == {"a": 1, "b": 1}
    twice = parse_json_object(b'{"a": {"b": 1},\n"b": 2}')
    assert twice.lines == {"a": 1, "b": 1}
    yaml = parse_yaml_mapping(b"one-1.x: y\nlist:\n- {b_2 : 3}\n7: 8\none-1.x2: z\n")
    assert yaml.lines == {"one-1.x": 1, "list": 2, "b_2": 3, "7": 4, "one-1.x2": 5}
    assert ResultDocument({"a": 1}).lines == {}


def test_a_mistake_in_yaml_is_reported_on_one_line() -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_yaml_mapping(b"a: 1\nb: {c: [}\n")
    said = str(caught.value)
    assert "line 2" in said
    assert said == " ".join(said.split())


@pytest.mark.parametrize(
    ("data", "repeated"),
    [
        (b'{"a": 1, "b": 1}', ()),
        (b'{"a": 1, "a": 2}', (("a", 1, 2),)),
        (b'{"a": 1, "a": 2, "a": 3}', (("a", 1, 2), ("a", 1, 3))),
        (b'{"a": 1, "a": 2, "a": 1}', (("a", 1, 2),)),
        (b'{"a": 1.5, "a": 1.5}', ()),
        (b'{"a": NaN, "a": NaN}', ()),
        (b'{"a": {"x": 1}, "b": [[{"x": 2, "x": 3}]]}', (("x", 2, 3),)),
        (b'{"a": {"x": 1, "x": 2}, "a": {"x": 2}}', (("x", 1, 2),)),
        (b'{"a": {"x": 1}, "a": {"x": 2}}', (("a", {"x": 1}, {"x": 2}),)),
        (b'{"a": "\\":", "b": "\\"  :"}', ()),
        (b'{"a"  : 1, "a"\n: 2}', (("a", 1, 2),)),
    ],
    ids=lambda value: value.decode() if isinstance(value, bytes) else "",
)
def test_a_name_that_appears_twice_with_two_values_is_reported(data: bytes, repeated: object) -> None:
    document = parse_json_object(data)
    assert document.repeated == repeated
    assert str(document.values) == str(json.loads(data))


@pytest.mark.parametrize(
    ("parse", "number", "read"),
    [
        (parse_json_object, str(2**1200 - 1), True),
        (parse_json_object, str(2**1200), False),
        (parse_json_object, str(-(2**1200)), False),
        (parse_json_object, f'"{2**1200}"', True),
        (parse_json_object, f"[1, [{2**1200}]]", False),
        (parse_json_object, f'{{"x": {{"y": {2**1200}}}}}', False),
        (parse_json_object, f"[[{2**1200}], 0]", False),
        (parse_yaml_mapping, "0x" + "f" * 300, True),
        (parse_yaml_mapping, "0x1" + "0" * 300, False),
        (parse_yaml_mapping, "0xA" + "Bc" * 150, False),
        (parse_yaml_mapping, "0x" + "1_2" * 151, False),
        (parse_yaml_mapping, str(2**1200), False),
        (parse_yaml_mapping, f"{{{2**1200}: 1}}", False),
        (parse_yaml_mapping, f"&loop [*loop, {'f' * 301}]", True),
        (parse_yaml_mapping, f"&loop [*loop, {2**1200}]", False),
    ],
    ids=lambda value: str(value)[:8] if isinstance(value, str) else "",
)
def test_a_number_that_no_one_can_compute_with_is_refused(parse: Parse, number: str, read: bool) -> None:
    text = f'{{"a": {number}}}'
    values: Any = None
    if read:
        values = parse(text.encode()).values
        assert set(values) == {"a"}
    else:
        with pytest.raises(ValueError, match=f"^{DIGITS}$"):
            parse(text.encode())
