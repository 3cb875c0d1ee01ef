"""Every format of results under the name that a spec gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reconciler.loadgen.settings import RESULTS
from reconciler.resource.inputs import Value
from reconciler.resource.records import Record
from reconciler.resource.settings import Settings
from reconciler.rules.results import endpoints_results, loadgen_logs, points
from reconciler.rules.results.format import ResultFormat

FORMATS: dict[str, ResultFormat] = {"loadgen": loadgen_logs, "endpoints": endpoints_results, "points": points}
USUAL = loadgen_logs.NAME  # where nothing is said: our own harness, too, leaves LoadGen's logs


def find_format(settings: Settings) -> ResultFormat:
    return FORMATS[settings.text(RESULTS, USUAL)]


def find_declared_format(settings: Mapping[str, Value]) -> ResultFormat:
    """The same of settings that know where they were set."""
    found = settings.get(RESULTS)
    return FORMATS[USUAL if found is None else str(found.value)]


def find_shown_format(has: Callable[[str], bool]) -> ResultFormat:
    """That of a scenario folder, by which paths below it it has."""
    return next((item for item in FORMATS.values() if item.is_shown(has)), FORMATS[USUAL])


def find_recorded_format(record: Record) -> ResultFormat:
    """That of a run. A format is an input only where it is not the usual one."""
    found = record.inputs.get(RESULTS)
    return FORMATS[USUAL if found is None else str(found.value)]
