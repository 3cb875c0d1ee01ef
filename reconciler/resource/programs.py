"""Programs other than MLPerf Inference: optional parts, each a package with one entry in ``PROGRAMS``.

An entry has the names by which a spec, a record or a tree is known to belong to the program; its package is loaded only
where one does (``reconciler.rules.programs``). To remove a program, delete its package and its entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

BUILT_IN = "inference"


class ProgramEntry(NamedTuple):
    """``program``: module and name of the ``Program``, as entry points name objects. ``title``: of its submissions, as
    people call them. ``divisions``: of its cells. ``results``: the formats of results that it brings, of which a spec
    may ask for those that are ``declared``. ``commands``: (name, module, help, the command that it follows in
    ``--help``)."""

    program: str
    title: str
    divisions: tuple[str, ...]
    results: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    commands: tuple[tuple[str, str, str, str], ...] = ()


# Name, by which `program` of a spec and a ruleset's layout call it and the name of its round begins → the program.
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
                "Propose more points where a curve of MLPerf Endpoints bends.",
                "tune",
            ),
        ),
    )
}
_OF_DIVISION = {division: name for name, entry in PROGRAMS.items() for division in entry.divisions}
_OF_RESULTS = {results: name for name, entry in PROGRAMS.items() for results in entry.results}


def find_program(round_name: str) -> str:
    """The program of a round, by its name in a ruleset; "" for MLPerf Inference."""
    name, dash, _ = round_name.partition("-")
    return name if dash and name in PROGRAMS else ""


def find_program_of_division(division: str) -> str:
    """ "" for MLPerf Inference."""
    return _OF_DIVISION.get(division, "")


def find_program_of_results(results: str) -> str:
    """ "" for LoadGen's logs."""
    return _OF_RESULTS.get(results, "")


def list_program_results() -> Iterable[str]:
    """The names of all formats of results that programs bring."""
    return _OF_RESULTS
