"""A process that compiles again and again gets what a fresh one would, whatever was edited in between."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.desired.cache_file import FORMAT, Compiled, digest_variables, read, write
from reconciler.desired.cell_cache import CellCache
from reconciler.desired.compile import compile_desired
from reconciler.desired.state import Desired, Pins
from reconciler.errors import Problem
from reconciler.resource.codec import encode_json
from reconciler.resource.inputs import Origin, Pin, PinKind, Value
from reconciler.resource.kinds import Cell
from reconciler.spec.declared import Declared, DeclaredCell
from reconciler.storage.escaping import escape_output
from reconciler.storage.files import read_checked, write_cache
from tests.unit.desired.test_inputs import BASE, HERE, RULES, declare, declare_with
from tests.unit.desired.test_made_from import CASES, compile_text

CELLS = [
    Cell(division, "box", benchmark, scenario)
    for division in ("closed", "open")
    for benchmark in ("digits", "other")
    for scenario in ("SingleStream", "Server", "Offline")
]
# Values that Python calls equal and a key does not, and settings of every kind that cells share or have alone.
CHANGES = st.tuples(
    st.sampled_from(CELLS),
    st.sampled_from(
        [
            ("target_qps", "7"),
            ("engine.batch_size", 8),
            ("engine.options.fast", 1),
            ("engine.options.fast", True),
            ("engine.options.fast", "1"),
            ("dataset.settings.seed", 2),
            ("model.settings.epochs", 5),
            ("attempts", 3),
            ("compliance.TEST04", True),
            ("measurements.input_data_types", "int8"),
            ("harness.env.NAMES", ["a", "b"]),
            ("target_qps", None),
        ]
    ),
)


def submission(values: dict[Cell, dict[str, object]], line: int, rehearsal: bool) -> Declared:
    def declared(cell: Cell, own: dict[str, object]) -> DeclaredCell:
        origin = Origin(HERE.file, line, 1)
        found = {name: Value(value, origin) for name, value in sorted({**BASE, **own}.items()) if value is not None}
        return DeclaredCell(cell, found, Value(str(cell), origin), {})

    cells = tuple(declared(cell, own) for cell, own in values.items())
    return replace(declare(), cells=cells, rehearsal=Value(rehearsal, HERE))


def everything(desired: Desired) -> list[object]:
    details = [(r, desired.detail(r.address)) for r in desired.resources]
    return [desired.digest, desired.missing_cells, details]


@settings(max_examples=25)
@given(st.lists(st.tuples(CHANGES, st.integers(0, 9), st.integers(1, 3)), min_size=1, max_size=6))
def test_compiling_again_is_compiling_afresh(edits: list[tuple[tuple[Cell, tuple[str, object]], int, int]]) -> None:
    reuse = CellCache()
    values: dict[Cell, dict[str, object]] = {cell: {} for cell in CELLS}
    for (cell, (name, value)), what, line in edits:
        if what == 0:
            values.pop(cell, None)
        elif what == 1:
            values[cell] = {}
        else:
            values.setdefault(cell, {})[name] = value
        declared = submission(values, line, rehearsal=what == 2)
        pins = Pins({Pin(PinKind.VERSION, "onnxruntime", "box"): "1" if what == 3 else "2"})
        again, _ = compile_desired(declared, RULES, pins, reuse)
        fresh, _ = compile_desired(declared, RULES, pins)
        assert everything(again) == everything(fresh)


def test_cells_that_did_not_change_are_not_compiled_again() -> None:
    reuse = CellCache()
    values: dict[Cell, dict[str, object]] = {cell: {} for cell in CELLS}
    before, _ = compile_desired(submission(values, 1, False), RULES, Pins(), reuse)
    values[CELLS[0]] = {"target_qps": "7"}
    after, _ = compile_desired(submission(values, 2, False), RULES, Pins(), reuse)
    same = [r for r in after.resources if before.by_address.get(r.address) is r]
    assert {r.cell for r in after.resources} - {r.cell for r in same} == {CELLS[0]}


def test_a_cell_with_others_in_the_background_is_compiled_again_as_afresh() -> None:
    reuse, declared = CellCache(), declare_with()
    for _ in range(2):
        again, _ = compile_desired(declared, RULES, Pins(), reuse)
        assert everything(again) == everything(compile_desired(declared, RULES, Pins())[0])
    engines = {str(r.address): str(r.cell) for r in again.resources if r.kind == "Engine"}
    assert engines == {f"Engine:{cell}": cell for cell in ("open/box/digits/Server", "open/box/digits/Offline")}


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
