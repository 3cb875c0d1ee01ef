"""Requirements of a declared submission: facts that the world must supply, and cells or benchmarks of the round."""

from __future__ import annotations

from collections.abc import Iterator

from harness.catalog import BACKENDS
from reconciler.desired.cell_settings import CellReaders
from reconciler.desired.commands import list_command_pins
from reconciler.desired.compliance import has_own_dataset, is_asked_for, use_own_dataset
from reconciler.desired.published import list_published_pins
from reconciler.desired.service import list_part_pins
from reconciler.desired.state import Pins
from reconciler.resource.kinds import Cell
from reconciler.resource.pins import Pin
from reconciler.resource.settings import BUILD, SERVICE
from reconciler.rules.ruleset import Ruleset
from reconciler.spec.declared import Declared


def list_needed_pins(declared: Declared, ruleset: Ruleset) -> tuple[Pin, ...]:
    """List the facts that the world must supply before keys are known: digests of sources without a declared one,
    versions not pinned by the spec."""
    needed: set[Pin | None] = set(list_published_pins(declared).values())
    readers = CellReaders(declared, ruleset, Pins())
    for cell in declared.cells:
        reader = readers.make_reader(cell)
        needed.update(
            reader.find_source_pin(kind) for kind in ("model", "dataset") if not reader.get_text(f"{kind}.sha256")
        )
        needed.update((reader.find_source_pin("benchmark"), reader.find_source_pin("power")))
        own = [use_own_dataset(reader, test) for test in is_asked_for(cell) if has_own_dataset(reader, test)]
        needed.update(item.find_source_pin("dataset") for item in own if not item.get_text("dataset.sha256"))
        for pins in (list_command_pins(reader), list_part_pins(reader, SERVICE), list_part_pins(reader, BUILD)):
            needed.update(pins.values())
        facts = BACKENDS.get(reader.backend)
        if facts is not None and facts.distributions and not reader.backend_version:
            needed.add(reader.find_version_pin())
    return tuple(sorted(pin for pin in needed if pin is not None))


def find_missing_cells(declared: Declared, ruleset: Ruleset) -> tuple[str, ...]:
    """Each scenario that the round requires of an entered benchmark and that the spec does not declare. Entries of one
    benchmark whose cells share a folder, as where scenarios have datasets of their own, are complete together."""
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
    """List notes for people, without consequences here."""
    return (*_report_unset(declared), *_report_earlier(declared, ruleset))


def _report_unset(declared: Declared) -> Iterator[str]:
    """Report each environment variable that locations name and that is not set here."""
    for name, origin in declared.unset.items():
        yield (
            f"{origin}: the environment variable {name} is not set; what is below it counts as not on this machine "
            f"(export {name}=/path/to/it)"
        )


def _report_earlier(declared: Declared, ruleset: Ruleset) -> tuple[str, ...]:
    """Report each entered benchmark that only earlier rounds had: its rules, and what becomes of it."""
    entered: dict[tuple[str, str], str] = {}
    for cell in declared.cells:
        official = cell.official
        if official is not None and ruleset.find_benchmark(str(official.value)) is None:
            entered[cell.cell.division, cell.cell.benchmark] = str(official.value)
    return tuple(
        f"{division}/{benchmark}: round {ruleset.round} has no {name}; it runs with the seeds of the round and with "
        "what earlier rounds say of the benchmark, and the checkers of the round will not accept it"
        for (division, benchmark), name in entered.items()
    )
