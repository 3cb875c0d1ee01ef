"""Result formats by the name used in a spec: LoadGen's logs, and those of other programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reconciler.resource.inputs import Value
from reconciler.resource.programs import find_program_of_results, list_program_results
from reconciler.resource.records import Record
from reconciler.resource.settings import RESULTS, USUAL, CellSettings
from reconciler.rules.programs import load_program
from reconciler.rules.results import loadgen_logs
from reconciler.rules.results.format import ResultFormat

FORMATS: tuple[str, ...] = (USUAL, *list_program_results())


def load_format(name: str) -> ResultFormat:
    program = find_program_of_results(name)
    return load_program(program).find_format(name) if program else loadgen_logs


def find_format(settings: CellSettings) -> ResultFormat:
    return load_format(settings.results)


def find_declared_format(settings: Mapping[str, Value]) -> ResultFormat:
    """Find the format declared in settings that know where they were set."""
    found = settings.get(RESULTS)
    return load_format(USUAL if found is None else str(found.value))


def find_shown_format(has: Callable[[str], bool]) -> ResultFormat:
    """Find the format of a scenario folder. ``has``: returns whether a path below it exists."""
    return next((item for item in map(load_format, FORMATS) if item.is_shown(has)), loadgen_logs)


def find_recorded_format(record: Record) -> ResultFormat:
    """Find the format of a recorded run. The format is an input only if it is not the usual one."""
    found = record.inputs.get(RESULTS)
    return load_format(USUAL if found is None else str(found.value))
