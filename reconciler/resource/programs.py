"""Programs other than MLPerf Inference: optional parts, each a package with one entry in ``PROGRAMS``.

An entry contains the names that identify a program's specs, records and trees. Its package is loaded only if one of
them is found (``reconciler.rules.programs``). To remove a program, delete its package and its entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

BUILT_IN = "inference"


class ProgramEntry(NamedTuple):
    """``program``: module and name of the ``Program``, as in entry points. ``title``: common name of its submissions.
    ``divisions``: the divisions of its cells. ``results``: the formats of results that it adds; ``declared``: those
    that a spec may request. ``commands``: (name, module, help, the preceding command in ``--help``)."""

    program: str
    title: str
    divisions: tuple[str, ...]
    results: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    commands: tuple[tuple[str, str, str, str], ...] = ()


# By name: the value of a spec's `program` and of a ruleset's layout, and the prefix of its rounds' names.
PROGRAMS: Mapping[str, ProgramEntry] = {
    "endpoints": ProgramEntry(
        program="reconciler.endpoints.program:PROGRAM",
        title="Endpoints",
        divisions=("standardized", "serviced", "rdi"),
        results=("endpoints", "points"),
        declared=("endpoints",),
        commands=(
            (
                "densify",
                "reconciler.endpoints.densify",
                "Propose more points at the bends of an MLPerf Endpoints curve.",
                "tune",
            ),
        ),
    )
}
_OF_DIVISION = {division: name for name, entry in PROGRAMS.items() for division in entry.divisions}
_OF_RESULTS = {results: name for name, entry in PROGRAMS.items() for results in entry.results}


def find_program(round_name: str) -> str:
    """Return the program of a round, by the round's name in a ruleset; "" for MLPerf Inference."""
    name, dash, _ = round_name.partition("-")
    return name if dash and name in PROGRAMS else ""


def find_program_of_division(division: str) -> str:
    """Return the program that a division belongs to; "" for MLPerf Inference."""
    return _OF_DIVISION.get(division, "")


def find_program_of_results(results: str) -> str:
    """Return the program that adds a format of results; "" for LoadGen's logs."""
    return _OF_RESULTS.get(results, "")


def list_program_results() -> Iterable[str]:
    """Return the names of all formats of results that programs add."""
    return _OF_RESULTS
