"""A submission as declared: all files merged, layers applied, units converted, every value with its origin.

The shape is flat on purpose. A cell's settings are one mapping from a dotted path to a value, the way `show` prints
them. Only what some layer sets is there, except for benchmark.official and benchmark.code (or path), which always are:

    target_qps                      "54"             decimal text, queries (samples) per second
    target_latency                  15000000         integer nanoseconds
    min_duration                    600000           integer milliseconds
    max_duration                    1200000          integer milliseconds
    min_query_count, max_query_count, performance_sample_count, accuracy_sample_count, attempts     integers
    engine.backend, engine.precision, engine.batch_size, engine.version, engine.options.<name>
    run.streams, run.threads, run.batch_size, run.queue_delay (integer microseconds), run.options.<name>
    run.stall_timeout               integer milliseconds; when a run counts as hung, no part of what it measures
    model.path, model.sha256, model.settings.<name>
    dataset.path, dataset.sha256, dataset.settings.<name>
    dataset.looked_for, model.looked_for    where a path that nobody wrote was looked for in the scratch space
    dataset.prepared                where prepared data of the scratch space are, for all repositories
    benchmark.code (built-in name), benchmark.path (a user's file), benchmark.official (the name it is entered as)
    harness.<field>                 command and score.command (tuples of text), env.<NAME> (text, or a pair: from_env,
                                    NAME), cwd, code, configs, logs, outputs, user_conf_at (locations), image,
                                    user_conf, audit_config, timeout (integer milliseconds)
    measurements.<field>            input_data_types, weight_data_types; from the model: retraining,
                                    starting_weights_filename, weight_transformations
    system.<field>                  category ("datacenter", "edge", "datacenter,edge"), status; launcher (a tuple of
                                    words) and python, of the machine its commands run on
    hardware.<field>                accelerator, count, cpu, nodes, power_limit (integer milliwatts), mig (text, such as
                                    "1x 3g.40gb, 4x 1g.10gb")
    executor.slurm                  True: jobs of Slurm are asked for; partition, account, qos, constraint, nodes,
                                    exclusive, time (integer milliseconds), machines, retries, options.<name> lie below
    executor.ray                    True: jobs of Ray are asked for; address, resources.<name>, labels.<name>, gpus,
                                    cpus, machines, retries lie below
    policy.publish                  latest | median | best
    compliance.<test>               True: the test is asked for; its own settings lie below: target_qps, target_latency,
                                    attempts, dtype, eos_token_id
    benchmark.source                locations of what is published as src/<benchmark>
    benchmark.excluded_code         patterns of names that are not published of it
    infer_from                      a scenario, or the stricter variant of the benchmark, whose runs this cell takes
    background                      cells by benchmark and scenario that compute on further slices meanwhile; their own
                                    settings lie below: background.<number>.engine.backend
    power.path                      location of the folders of a power measurement
    power_state.<field>             set, restore and read (tuples of words) and expect, of what its runs are made in
    power.<field>                   director, ntp, analyzer, and kit (a location), of the meter beside a system

A free setting (options, settings) is text, an integer, a boolean, or decimal text. Locations are expanded, and relative
to the repository unless absolute.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from reconciler.errors import Problem
from reconciler.resource.inputs import DEFAULT, Origin, Value
from reconciler.resource.kinds import Cell

_BLANK = ("", "not declared", "unknown", "TODO")  # placeholder of a text still to be written


class SpecFile(Struct, frozen=True):
    """One file that was read: its path relative to the repository, and the git blob id of its bytes."""

    path: str
    blob: str


class DeclaredSystem(Struct, frozen=True):
    """``description`` holds what the user wrote for systems/<name>.json, field by field. ``origin``: of its name.
    ``unknown``: names in the description that no checker reads, with their places and the names they are nearest to."""

    name: str
    settings: Mapping[str, Value]
    description: Mapping[str, Value]
    origin: Origin = DEFAULT
    unknown: Mapping[str, tuple[Origin, str | None]] = field(default_factory=dict)


class DeclaredCell(Struct, frozen=True):
    """``settings`` are the winning values. ``origin``: the cell's name, and where its scenario is written.

    ``overridden``: for a setting that several layers set, the values that lost, highest layer first.
    """

    cell: Cell
    settings: Mapping[str, Value]
    origin: Value
    overridden: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)


class Declared(Struct, frozen=True):
    """``variables``: each environment variable that was read in a location field, and its value then (None: not set).
    ``looked``: each place of the scratch space that was looked for, and whether it was there.
    ``written``: locations that name variables, as they are written. ``unset``: variables that locations name and that
    are not set here, with the first place that names each.

    ``settings`` of the whole submission: tree, documents.calibration, documents.bandwidth (locations), embargo.until (a
    day), embargo.allow (patterns), signing.sign, signing.signers (location),
    stores (name → url and options; an option is a value, or a pair: from_env, name).
    ``unread``: settings that make nothing stale though their group is read as a whole.
    ``trial``: "" of what is meant to be published, else how long the runs of the trial are: FULL or QUICK.
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
    unread: frozenset[str] = frozenset()


class Reading(Struct, frozen=True):
    """Declaration as far as it is right, and everything wrong with it."""

    declared: Declared | None
    problems: tuple[Problem, ...] = ()


def is_filled(value: Value | None) -> bool:
    """True where the text to be published is written."""
    return value is not None and str(value.value).strip() not in _BLANK
