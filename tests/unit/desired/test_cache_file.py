"""A compiled state that is kept in a file: all of it comes back, no value of a variable is there, and none is
believed that was made of another environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.desired.cache_file import FORMAT, Compiled, digest_variables, read, write
from reconciler.desired.state import Pins
from reconciler.errors import Problem
from reconciler.resource.codec import encode_json
from reconciler.resource.pins import Pin, PinKind
from reconciler.storage.escaping import escape_output
from reconciler.storage.files import read_checked, write_cache
from tests.unit.desired.test_made_from import CASES, compile_text

PIN, UNKNOWN = Pin(PinKind.SOURCE, "model", "net", "m.onnx"), Pin(PinKind.VERSION, "onnxruntime", "box")
PINS = Pins({PIN: "digest", UNKNOWN: None}, {PIN: "here"})


def compile_case(root: Path, *notes: str, variables: tuple[str, ...] = (), written: tuple[str, ...] = ()) -> Compiled:
    desired = replace(compile_text(CASES["own harness"], root), notes=notes)
    looked = {"data/x": True, "data/y": False}
    return Compiled(desired, "fingerprint", digest_variables(variables), PINS, {"a.yaml": "blob"}, looked, written)


def keep(path: Path, compiled: Compiled) -> tuple[Compiled | None, bytes]:
    """As it is read again, and what the file says."""
    write(path, compiled)
    return read(path), read_checked(path) or b""


def test_all_of_a_compiled_state_comes_back(tmp_path: Path) -> None:
    gap = Problem("a.yaml", 3, 7, "spec.systems.box", "it lacks cooling", "write it")
    compiled = compile_case(tmp_path, "a note")
    desired = replace(compiled.desired, gaps=(gap,), missing_cells=("closed/box/net/Server",))
    compiled = replace(compiled, desired=desired)
    found, _ = keep(tmp_path / "kept", compiled)
    assert found is not None
    assert found.desired.resources == compiled.desired.resources
    for resource in compiled.desired.resources:
        one, other = (encode_json(each.desired.detail(resource.address)) for each in (found, compiled))
        assert one == other  # a tuple comes back as a list
    names = ("digest", "name", "by_address", "missing_cells", "notes", "gaps")
    for name in names:
        assert getattr(found.desired, name) == getattr(compiled.desired, name), name
    for name in ("submission", "shared"):
        assert encode_json(getattr(found.desired, name)) == encode_json(getattr(compiled.desired, name)), name
    assert replace(found, desired=compiled.desired) == compiled
    assert found.pins == PINS


def test_what_is_not_there_or_was_damaged_is_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    assert read(path) is None
    _, data = keep(path, compile_case(tmp_path))
    head = f'"format":{FORMAT}'.encode()
    assert head in data
    for other in (data.replace(head, b'"format":1', 1), data[: data.find(b"\n") + 20], b"", b"\n\n"):
        write_cache(path, other)
        assert read(path) is None
    write_cache(path, data)
    assert read(path) is not None


@pytest.mark.parametrize(
    ("value", "shown"),
    [("Qx7w", "Qx7w"), ("Qx7w-5ab", "${LAB}"), ("Qx8", "Qx8"), ("/srv/Qx9w", "/srv/Qx9w"), ('Q"x\\1w', "${LAB}")],
    ids=["four letters", "more", "three letters", "a place", "quoted"],
)
def test_no_value_of_a_variable_is_in_the_file_and_none_is_reported_later(
    value: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short one might be anything else."""
    monkeypatch.setenv("LAB", value)
    compiled = compile_case(tmp_path, f"<{value}>", variables=("LAB",))
    found, data = keep(tmp_path / "kept", compiled)
    assert found is not None
    assert found.desired.notes == (f"<{value}>",)
    assert (b"\\u0000LAB\\u0001" in data) is (len(value) >= 4)
    assert escape_output(f"at {value}") == f"at {shown}"


@pytest.mark.parametrize("other", ["/srv/b", None])
def test_a_state_of_another_environment_is_neither_kept_nor_believed(
    other: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change() -> None:
        monkeypatch.delenv("LAB") if other is None else monkeypatch.setenv("LAB", other)

    path = tmp_path / "kept"
    monkeypatch.setenv("LAB", "/srv/a")
    compiled = compile_case(tmp_path, variables=("LAB",))
    assert digest_variables(("LAB", "Q_UNSET"))["Q_UNSET"] is None
    change()
    write(path, compiled)
    assert not path.exists()
    monkeypatch.setenv("LAB", "/srv/a")
    assert keep(path, compiled)[0] is not None
    change()
    assert read(path) is None
