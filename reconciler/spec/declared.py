"""A submission as declared: all files merged, layers applied, units converted, every value with its origin.

A cell's settings are one mapping from a dotted path to a value, the way `show` prints them: the path of a field as it
is declared in ``models``, or the name that its declaration gives (``RecordedAs``). Its type there says the unit in
which it is kept. Only what some layer sets is there, except for benchmark.official and benchmark.code (or path), which
always are. No field has these names:

    benchmark.path                  a user's own file, in place of benchmark.code
    dataset.looked_for, model.looked_for    where a path that nobody wrote was looked for in the scratch space
    dataset.prepared                where prepared data of the scratch space are, for all repositories
    compliance.<test>, executor.<queue>     True where the group is written; its settings are below it
    background.<number>.<name>      settings of a cell that computes on further slices

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

NOT_DECLARED = "not declared"  # in place of what is still to be written
_BLANK = ("", NOT_DECLARED, "unknown", "TODO")


class SpecFile(Struct, frozen=True):
    """One file that was read: its path relative to the repository, and the git blob id of its bytes."""

    path: str
    blob: str


def _value_of(name: str) -> SpecField[Value | None]:
    return SpecField(name, lambda declared: declared.settings.get(name))


class DeclaredSystem(Struct, frozen=True):
    """``description`` holds what the user wrote for systems/<name>.json, field by field. ``origin``: of its name.
    ``unknown``: names in the description that no checker reads, with their places and the names they are nearest to."""

    name: str
    settings: Mapping[str, Value]
    description: Mapping[str, Value]
    origin: Origin = DEFAULT
    unknown: Mapping[str, tuple[Origin, str | None]] = field(default_factory=dict)

    category = _value_of("system.category")
    status = _value_of("system.status")


class DeclaredCell(Struct, frozen=True):
    """``settings`` are the winning values. ``origin``: the cell's name, and where its scenario is written.

    ``overridden``: for a setting that several layers set, the values that lost, highest layer first.
    """

    cell: Cell
    settings: Mapping[str, Value]
    origin: Value
    overridden: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    official = _value_of("benchmark.official")
    code = _value_of("benchmark.code")
    backend = _value_of("engine.backend")
    accelerator = _value_of("hardware.accelerator")
    sparsity = _value_of("model.settings.sparsity")
    steps = _value_of("engine.options.steps")
    prefix_caching = _value_of("run.options.prefix_caching")
    power_path = _value_of("power.path")


class Declared(Struct, frozen=True):
    """``variables``: each environment variable that was read in a location field, and its value then (None: not set).
    ``looked``: each place of the scratch space that was looked for, and whether it was there.
    ``written``: locations that name variables, as they are written. ``unset``: variables that locations name and that
    are not set here, with the first place that names each.

    ``settings`` of the whole submission: tree, documents.calibration, documents.bandwidth (locations), embargo.until (a
    day), embargo.allow (patterns), signing.sign, signing.signers (location),
    stores (name → url and options; an option is a value, or a pair: from_env, name).
    ``unread``: settings that make nothing stale though their group is read as a whole.
    ``trial``: "" of what is meant to be published, else how long the runs of the trial are: FULL or QUICK, and then
    ``quick`` ms.
    ``cells`` are sorted, scenarios in the order of SCENARIOS.
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
    """Declaration as far as it is right, and everything wrong with it."""

    declared: Declared | None
    problems: tuple[Problem, ...] = ()


def is_filled(value: Value | None) -> bool:
    """True where the text to be published is written."""
    return value is not None and str(value.value).strip() not in _BLANK
