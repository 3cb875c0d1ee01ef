"""A process that compiles again and again gets what a fresh one would, whatever was edited in between."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.desired.cell_cache import CellCache
from reconciler.desired.compile import compile_desired
from reconciler.desired.state import Desired, Pins
from reconciler.resource.inputs import Origin, Value
from reconciler.resource.kinds import Cell
from reconciler.resource.pins import Pin, PinKind
from reconciler.spec.declared import Declared, DeclaredCell
from tests.unit.desired.test_inputs import BASE, HERE, RULES, declare, declare_with

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
