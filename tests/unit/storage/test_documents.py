"""JSON objects and YAML mappings of other programs: what is read, what is refused and why, and where names stand."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import ReconcilerError, StorageError
from reconciler.execute import attempt
from reconciler.execute.executors.executor import read_handle
from reconciler.fetch.fetch import read_listed
from reconciler.fetch.scratch import Scratch, read_note
from reconciler.observed.digest_cache import DigestCache
from reconciler.observed.pass_in_progress import find_pass_in_progress
from reconciler.plan.saved import load
from reconciler.storage.documents import ResultDocument, parse_json_object, parse_yaml_mapping
from reconciler.storage.files import Lock, RepositoryPaths, hash_bytes, write_checked
from reconciler.storage.launch.audit_config_files import find_placed_by
from tests.unit.storage.strange_files import DEEP, STRANGE

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


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "the intent of an attempt": ("attempt.json", attempt.read),
    "its handle": ("handle.json", read_handle),
    "the configuration that it placed": ("request.json", find_placed_by),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("strange", STRANGE)
def test_a_folder_of_an_attempt_that_holds_anything_else_is_none(tmp_path: Path, reader: str, strange: str) -> None:
    name, read = READERS[reader]
    STRANGE[strange](tmp_path / name)
    assert read(tmp_path) is None


@pytest.mark.parametrize("strange", STRANGE)
def test_a_note_of_a_scratch_space_that_is_none_proves_nothing(tmp_path: Path, strange: str) -> None:
    scratch = Scratch(tmp_path, "a test")
    scratch.notes.mkdir(parents=True)
    STRANGE[strange](scratch.find_note(tmp_path / "data.bin"))
    assert read_note(scratch, tmp_path / "data.bin") is None


@pytest.mark.parametrize("strange", STRANGE)
def test_what_a_user_names_is_refused_by_its_name(tmp_path: Path, strange: str) -> None:
    path = tmp_path / "named.json"
    STRANGE[strange](path)
    with pytest.raises(StorageError, match=r"named\.json"):
        read_listed(path)
    with pytest.raises(ReconcilerError, match=r"named\.json"):
        load(path)


def test_lines_that_say_nothing_hide_no_others(tmp_path: Path) -> None:
    paths = RepositoryPaths(tmp_path)
    paths.log.mkdir(parents=True)
    lines = DEEP + b'\n{"message": "planned", "steps": 1e400}\n[]\n{"message": "planned", "steps": 3}\n{"mess'
    (paths.log / f"20260101-{os.getpid()}.jsonl").write_bytes(lines)
    with Lock(paths.pass_lock, purpose="pass").acquire():
        found = find_pass_in_progress(paths)
    assert found is not None
    assert found.planned == 3


def test_a_cache_of_digests_that_is_none_is_made_again(tmp_path: Path) -> None:
    paths = RepositoryPaths(tmp_path)
    write_checked(paths.index / "stamps.json", DEEP)
    (tmp_path / "file").write_bytes(b"x")
    assert DigestCache(paths).get_digest(str(tmp_path / "file"), 1, 1) == hash_bytes(b"x")
