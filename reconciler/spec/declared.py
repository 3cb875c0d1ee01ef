"""A submission as declared: all files merged, layers applied, units converted, every value with its origin.

The shape is flat on purpose. A cell's settings are one mapping from a dotted path to a value, the way `show` prints them:

    target_qps                      "54"             decimal text, queries (samples) per second
    target_latency                  15000000         integer nanoseconds
    min_duration                    600000           integer milliseconds
    max_duration, min_query_count, max_query_count, performance_sample_count, accuracy_sample_count, attempts     integers
    engine.backend, engine.precision, engine.batch_size, engine.version, engine.options.<name>
    run.streams, run.threads, run.batch_size, run.queue_delay (integer microseconds), run.options.<name>
    model.path, model.sha256, model.recipe, model.settings.<name>
    dataset.path, dataset.sha256, dataset.settings.<name>
    benchmark.code (built-in name), benchmark.path (a user's file), benchmark.official (the name it is entered as)
    measurements.<field>            the five fields of measurements.json
    system.<field>                  category, status
    hardware.<field>                accelerator, count, cpu, nodes, power_limit (integer milliwatts)
    policy.publish                  latest | median | best
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.resource.inputs import Value
from reconciler.resource.kinds import Cell


@dataclass(frozen=True, slots=True)
class SpecFile:
    """One file that was read: its path relative to the repository, and the git blob id of its bytes."""

    path: str
    blob: str


@dataclass(frozen=True, slots=True)
class DeclaredSystem:
    """``description`` holds what the user wrote for systems/<name>.json, field by field."""

    name: str
    settings: Mapping[str, Value]
    description: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class DeclaredCell:
    cell: Cell
    settings: Mapping[str, Value]
    origin: Value


@dataclass(frozen=True, slots=True)
class Declared:
    """``variables``: each environment variable that was read in a location field, and its value then (None: not set)."""

    name: str
    round: Value
    submitter: Value
    rehearsal: Value
    systems: Mapping[str, DeclaredSystem]
    cells: tuple[DeclaredCell, ...]
    files: tuple[SpecFile, ...]
    variables: Mapping[str, str | None] = field(default_factory=dict)
    settings: Mapping[str, Value] = field(default_factory=dict)
