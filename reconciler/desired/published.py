"""Published files of a submission apart from its results: the shared files' values, its code, its documents."""

from __future__ import annotations

from reconciler.desired.cell_settings import strip_origins
from reconciler.desired.state import Pins
from reconciler.resource.inputs import Input, Value
from reconciler.resource.pins import Pin, make_source_pin
from reconciler.resource.settings import NAMEPLATE, ORIGINAL, Settings, SubmissionSettings, SystemSettings, is_placing
from reconciler.spec.declared import Declared, DeclaredCell

_FILES = (ORIGINAL, NAMEPLATE)  # settings of a system that name a file of it
EXCLUDED = "benchmark.excluded_code"


def collect_submission_values(declared: Declared) -> dict[str, Value]:
    values = {"round": declared.round, "submitter": declared.submitter}
    for system in declared.systems.values():
        shown = {n: value for n, value in system.settings.items() if not is_placing(n) and n not in _FILES}
        for name, value in {**shown, **system.description}.items():
            values[f"systems.{system.name}.{name}"] = value
    for cell in declared.cells:
        if (excluded := cell.settings.get(EXCLUDED)) is not None:
            values[f"excluded_code.{cell.cell.benchmark}"] = excluded
    return values


def collect_systems(declared: Declared) -> dict[str, SystemSettings]:
    return {
        system.name: SystemSettings(strip_origins(system.settings), strip_origins(system.description))
        for system in declared.systems.values()
    }


def collect_submission_settings(declared: Declared) -> SubmissionSettings:
    own = Settings(strip_origins(declared.settings))
    return SubmissionSettings(
        values=own.values,
        round=str(declared.round.value),
        submitter=str(declared.submitter.value),
        tree=own.get_text("tree"),
        systems=collect_systems(declared),
        code=_collect(declared, "benchmark.source"),
        own_code=_collect(declared, "benchmark.path"),
        excluded_code=_collect(declared, EXCLUDED),
    )


def _collect(declared: Declared, name: str) -> dict[str, tuple[str, ...]]:
    return {cell.cell.benchmark: found for cell in declared.cells if (found := _list_texts(cell, name))}


def _list_texts(cell: DeclaredCell, name: str) -> tuple[str, ...]:
    found = cell.settings.get(name)
    if found is None:
        return ()
    return (found.value,) if isinstance(found.value, str) else tuple(found.value)


def list_published_code(cell: DeclaredCell) -> tuple[str, ...]:
    """Locations of what is published as src/<benchmark> whatever ran: as declared, else the benchmark's own file."""
    return _list_texts(cell, "benchmark.source") or _list_texts(cell, "benchmark.path")


def list_published_pins(declared: Declared) -> dict[str, Pin]:
    """Name of the input → pin, of every file and folder of the tree that is no result."""
    documents = {name: value for name, value in declared.settings.items() if name.startswith("documents.")}
    found = {name: make_source_pin("document", name, str(value.value)) for name, value in documents.items()}
    for system in declared.systems.values():
        for name in _FILES:
            if (file := system.settings.get(name)) is not None:
                own = name.partition(".")[2]
                found[f"systems.{system.name}.{own}"] = make_source_pin("document", system.name, str(file.value))
    for cell in declared.cells:
        for number, path in enumerate(list_published_code(cell)):
            found[f"code.{cell.cell.benchmark}.{number}"] = make_source_pin("code", cell.cell.benchmark, str(path))
    return found


def collect_published_inputs(declared: Declared, pins: Pins) -> list[Input]:
    """Their digests; where they are is not identity."""
    return pins.list_inputs(list_published_pins(declared))
