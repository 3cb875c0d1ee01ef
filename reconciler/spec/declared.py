"""A declared submission: all files merged, layers applied, units converted, and every value with its origin.

A cell's settings are a mapping from a dotted path to a value, as `show` prints them: the path of a field as declared in
``models``, or the name that its declaration gives (``RecordedAs``). The field's type defines the unit of the value. It
contains only values that a layer sets, apart from benchmark.official and benchmark.code (or path), which are always
set. These names have no field:

    benchmark.path                  a user's own file, instead of benchmark.code
    dataset.looked_for, model.looked_for    places searched in the scratch space for a path that is not declared
    dataset.prepared                place of prepared data in the scratch space, for all repositories
    compliance.<test>, executor.<queue>     True if the group is declared; its settings are below it
    background.<number>.<name>      settings of a cell that computes on other slices

A free setting (options, settings) is text, an integer, a boolean, or decimal text. Locations are expanded, and relative
to the repository unless absolute.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from reconciler.errors import Problem
from reconciler.resource.inputs import DEFAULT, Origin, Value
from reconciler.resource.kinds import Cell
from reconciler.resource.settings import SpecField

NOT_DECLARED = "not declared"  # placeholder for a value to be filled in
_BLANK = ("", NOT_DECLARED, "unknown", "TODO")


class SpecFile(Struct, frozen=True):
    """A file that was read: its path relative to the repository, and the git blob id of its bytes."""

    path: str
    blob: str


def _value_of(name: str) -> SpecField[Value | None]:
    return SpecField(name, lambda declared: declared.settings.get(name))


class DeclaredSystem(Struct, frozen=True):
    """``description``: the user's fields for systems/<name>.json. ``origin``: that of its name. ``unknown``: names in
    the description that no checker reads, each with its place and the nearest known name."""

    name: str
    settings: Mapping[str, Value]
    description: Mapping[str, Value]
    origin: Origin = DEFAULT
    unknown: Mapping[str, tuple[Origin, str | None]] = field(default_factory=dict)

    category = _value_of("system.category")
    status = _value_of("system.status")


class DeclaredCell(Struct, frozen=True):
    """``settings``: the effective values. ``origin``: the cell's name, and the place of its scenario.

    ``overridden``: for a setting that several layers set, the overridden values, highest layer first. ``needs``: files
    below harness.code that the commands of its adapter need (needs.command, needs.score), one per line, and the
    published folder that has them (needs.code).
    """

    cell: Cell
    settings: Mapping[str, Value]
    origin: Value
    overridden: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)

    official = _value_of("benchmark.official")
    code = _value_of("benchmark.code")
    backend = _value_of("engine.backend")
    accelerator = _value_of("hardware.accelerator")
    sparsity = _value_of("model.settings.sparsity")
    steps = _value_of("engine.options.steps")
    prefix_caching = _value_of("run.options.prefix_caching")
    power_path = _value_of("power.path")


class Declared(Struct, frozen=True):
    """``variables``: each environment variable read in a location field, and its value then (None: not set).
    ``looked``: each place searched in the scratch space, and whether it existed. ``written``: locations that contain
    variables, before expansion. ``unset``: variables used in locations and not set here, each with the first place that
    uses it.

    ``settings`` of the whole submission: tree, documents.calibration, documents.bandwidth (locations), embargo.until (a
    day), embargo.allow (patterns), signing.sign, signing.signers (location), stores (name → url and options; an option
    is a value, or a pair: from_env, name). ``unread``: settings that make nothing stale although keys include the rest
    of their group. ``trial``: "" for a submission to publish; for a trial the length of its runs, FULL or QUICK
    (``quick`` ms). ``cells``: sorted, with scenarios in the order of SCENARIOS.
    """

    name: str
    round: Value
    submitter: Value
    rehearsal: Value
    systems: Mapping[str, DeclaredSystem]
    cells: tuple[DeclaredCell, ...]
    files: tuple[SpecFile, ...]
    variables: Mapping[str, str | None] = field(default_factory=dict)
    looked: Mapping[str, bool] = field(default_factory=dict)
    written: tuple[str, ...] = ()
    unset: Mapping[str, Origin] = field(default_factory=dict)
    settings: Mapping[str, Value] = field(default_factory=dict)
    trial: str = ""
    quick: int = 10_000
    unread: frozenset[str] = frozenset()


class Reading(Struct, frozen=True):
    """The valid part of a declaration, and all its problems."""

    declared: Declared | None
    problems: tuple[Problem, ...] = ()


def is_filled(value: Value | None) -> bool:
    """Return True if a text to be published is filled in."""
    return value is not None and str(value.value).strip() not in _BLANK
