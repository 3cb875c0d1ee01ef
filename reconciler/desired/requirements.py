"""Requirements of a declared submission: external facts to determine, and required cells or benchmarks."""

from __future__ import annotations

from harness.catalog import BACKENDS
from reconciler.desired.cell_settings import CellReaders, strip_origins
from reconciler.desired.commands import list_command_pins, list_part_pins
from reconciler.desired.compliance import has_own_dataset, list_asked_tests, use_own_dataset
from reconciler.desired.state import Pins
from reconciler.resource.inputs import Pin, Value, make_source_pin
from reconciler.resource.kinds import Cell
from reconciler.resource.settings import (
    BUILD,
    NAMEPLATE,
    ORIGINAL,
    SERVICE,
    Settings,
    SubmissionSettings,
    SystemSettings,
    is_placing,
)
from reconciler.rules.ruleset import Ruleset
from reconciler.spec.declared import Declared, DeclaredCell


def list_needed_pins(declared: Declared, ruleset: Ruleset) -> tuple[Pin, ...]:
    """List the external facts needed before keys are known: digests of sources without a declared digest, and versions
    that the spec does not pin."""
    needed: set[Pin | None] = set(list_published_pins(declared).values())
    readers = CellReaders(declared, ruleset, Pins())
    for cell in declared.cells:
        reader = readers.make_reader(cell)
        needed.update(
            reader.find_source_pin(kind) for kind in ("model", "dataset") if not reader.get_text(f"{kind}.sha256")
        )
        needed.update((reader.find_source_pin("benchmark"), reader.find_source_pin("power")))
        own = [use_own_dataset(reader, test) for test in list_asked_tests(cell) if has_own_dataset(reader, test)]
        needed.update(item.find_source_pin("dataset") for item in own if not item.get_text("dataset.sha256"))
        for pins in (list_command_pins(reader), list_part_pins(reader, SERVICE), list_part_pins(reader, BUILD)):
            needed.update(pins.values())
        facts = BACKENDS.get(reader.backend)
        if facts is not None and facts.distributions and not reader.backend_version:
            needed.add(reader.find_version_pin())
    return tuple(sorted(pin for pin in needed if pin is not None))


def find_missing_cells(declared: Declared, ruleset: Ruleset) -> tuple[str, ...]:
    """List the scenarios that the round requires for an entered benchmark and that the spec does not declare. Entries
    of one benchmark whose cells share a folder, such as scenarios with separate datasets, are counted together."""
    entered: dict[tuple[str, str, str, str], set[str]] = {}
    names: dict[tuple[str, str, str], str] = {}
    for cell in declared.cells:
        official = cell.official
        if official is None or not ruleset.binds(cell.cell.division, "scenarios"):
            continue
        c: Cell = cell.cell
        named = c.benchmark if ruleset.binds(c.division, "model_mapping") else str(official.value)
        first = names.setdefault((c.division, c.system, named), c.benchmark)
        entered.setdefault((c.division, c.system, first, str(official.value)), set()).add(c.scenario)
    found = []
    for (division, system, benchmark, official_name), scenarios in entered.items():
        rules = ruleset.find_benchmark(official_name)
        category = declared.systems[system].category
        if rules is None or category is None:
            continue
        missing = rules.list_missing(str(category.value), frozenset(scenarios))
        found += [f"{division}/{system}/{benchmark}/{scenario}" for scenario in missing]
    return tuple(found)


def list_notes(declared: Declared, ruleset: Ruleset) -> tuple[str, ...]:
    """List notes without effect: each environment variable that a location uses and that is not set here, and each
    entered benchmark that only earlier rounds have, with the rules that apply and how it is treated."""
    unset = (
        f"{origin}: the environment variable {name} is not set; paths below it count as missing "
        f"(export {name}=/path/to/it)"
        for name, origin in declared.unset.items()
    )
    entered: dict[tuple[str, str], str] = {}
    for cell in declared.cells:
        official = cell.official
        if official is not None and ruleset.find_benchmark(str(official.value)) is None:
            entered[cell.cell.division, cell.cell.benchmark] = str(official.value)
    earlier = (
        f"{division}/{benchmark}: round {ruleset.round} has no {name}; it runs with the round's seeds and the "
        "benchmark's rules of earlier rounds, and this round's checkers will reject it"
        for (division, benchmark), name in entered.items()
    )
    return (*unset, *earlier)


# Published files of a submission other than its results: the shared files' values, its code, its documents.

_FILES = (ORIGINAL, NAMEPLATE)  # settings of a system that contain the path of one of its files
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
    """List the locations of the code published as src/<benchmark> for every run: as declared, else the benchmark's own
    file."""
    return _list_texts(cell, "benchmark.source") or _list_texts(cell, "benchmark.path")


def list_published_pins(declared: Declared) -> dict[str, Pin]:
    """Return the pins of every file and folder of the tree that is not a result, by input name."""
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
