"""The spec document as pydantic models: permitted names and types, with the descriptions that editors show.

Every model refuses unknown names. A group without content (``Offline:``) is an empty group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Field, create_model

from reconciler.rules.programs import load_programs
from reconciler.spec import fields
from reconciler.spec.executor_models import ExecutorGroup, HardwareGroup, Meter, PowerState
from reconciler.spec.groups import UNREAD, Empty, Group, Options, RecordedAs, describe, read_by
from reconciler.spec.settings_models import Dataset, SettingsGroup

# Spec fields of the entire submission: documents, embargo, signatures, stores.


class Documents(Group):
    """Documents of the submission tree other than results."""

    calibration: fields.Location = describe(
        "Published as documentation/calibration.md in the closed and network divisions."
    )
    bandwidth: fields.Location = describe(
        "Published as documentation/bandwidth with the file's own ending, in every division."
    )
    checker_log: fields.Location = describe(
        "Published as results/submission_checker_log.txt in every division, once `check --official "
        "--carry-log` has written it."
    )
    folder: fields.Location = describe(
        "With program endpoints: folder whose files are published below docs/ of the submission."
    )


class EmbargoGroup(Group):
    """Period in which measurements may only be sent to the places listed here."""

    until: fields.Day = describe("Publication date of the results, such as 2026-04-01.")
    allow: fields.Patterns = describe("Private places, as patterns such as git@git.acme.com:* or exec:COMMAND.")


class Signing(Group):
    """Signatures of records with the keys of the people who made them. These settings never enter a key."""

    sign: fields.Flag = describe(
        "true: a pass signs each record with git's signing configuration (gpg.format, user.signingkey)."
    )
    signers: fields.Location = describe(
        "File of allowed signers (ssh-keygen(1)) for `audit`; default: git's own (gpg.ssh.allowedSignersFile)."
    )


class Store(Group):
    """A remote place for artifacts that git does not contain. These settings never enter a key."""

    url: fields.StoreUrl = Field(
        description="fsspec URL of the objects: s3://bucket/folder, file:///mnt/share, or https://… to "
        "read. ${MLPERF_…} and ${RECONCILE_…} and variables in RECONCILE_STORE_VARIABLES are expanded."
    )
    options: Annotated[dict[fields.Name, fields.StoreOption], Empty] = describe(
        "Options of fsspec for this protocol, by name: a value, or {from_env: NAME} for a secret.", {}
    )


G = TypeVar("G", bound=Group)


def _extend_group(group: type[G]) -> type[G]:
    """Add the fields that programs define for the group."""
    added: dict[str, Any] = {}
    for program in load_programs():
        added |= program.list_fields(group.__name__)
    if not added:
        return group
    return create_model(group.__name__, __base__=group, __module__=group.__module__, __doc__=group.__doc__, **added)


class Model(Group):
    """The model that engines are built from."""

    path: fields.Location = describe("File or folder of the model, relative to the repository; ${NAME} is expanded.")
    sha256: fields.Digest = describe("SHA-256 digest of the model file: 64 of 0-9 a-f.")
    retraining: Annotated[fields.OptionalText, RecordedAs("measurements.retraining")] = describe(
        'For measurements.json: whether the model was retrained, such as "No".'
    )
    starting_weights_filename: Annotated[fields.OptionalText, RecordedAs("measurements.starting_weights_filename")] = (
        describe("For measurements.json: file or source of the starting weights.")
    )
    weight_transformations: Annotated[fields.OptionalText, RecordedAs("measurements.weight_transformations")] = (
        describe("For measurements.json: such as none or quantization.")
    )
    settings: Options = describe("The benchmark's settings for creating the model, by name.", {})


class CellGroup(SettingsGroup):
    """One cell: its settings, and fields that only a single cell has."""

    infer_from: fields.OptionalName = describe(
        "Use the runs of another cell of this system, if the round allows it: a scenario such as "
        "SingleStream, or the benchmark's stricter variant such as bert-99.9."
    )
    power: Annotated[fields.Location, RecordedAs("power.path")] = describe(
        "Folder with power/, ranging/ and run_1/ of a power measurement; its files are published unchanged "
        "below performance/. ${NAME} is expanded."
    )


class BenchmarkGroup(SettingsGroup):
    """A benchmark, and settings that all its cells share."""

    as_: Annotated[fields.OptionalName, RecordedAs("benchmark.official")] = Field(
        None, alias="as", description="Official benchmark to submit it as, such as resnet; default: its own name."
    )
    code: fields.Code = describe(
        "A built-in benchmark, or the path of your benchmark's .py file; default: its own name."
    )
    source: Annotated[fields.Locations, RecordedAs("benchmark.source")] = describe(
        "Files and folders published as src/<benchmark>, relative to the repository; ${NAME} is expanded. "
        "Default: the code recorded with each published run: its commands', or the harness and the benchmark."
    )
    excluded_code: Annotated[fields.Patterns, RecordedAs("benchmark.excluded_code")] = describe(
        "Code files to exclude from publication, such as [internal/*, '*.key']: patterns of names below "
        "src/<benchmark>."
    )
    model: Model = describe("The model.", Model())
    dataset: Dataset = describe("The dataset.", Dataset())


if not TYPE_CHECKING:
    BenchmarkGroup = _extend_group(BenchmarkGroup)


class BenchmarkOnSystem(SettingsGroup):
    """A benchmark on one system: settings of all its cells there, and of those of one scenario."""

    SingleStream: SettingsGroup = describe("Settings of its SingleStream cells.", SettingsGroup())
    MultiStream: SettingsGroup = describe("Settings of its MultiStream cells.", SettingsGroup())
    Server: SettingsGroup = describe("Settings of its Server cells.", SettingsGroup())
    Offline: SettingsGroup = describe("Settings of its Offline cells.", SettingsGroup())
    Interactive: SettingsGroup = describe("Settings of its Interactive cells.", SettingsGroup())


Description = Annotated[dict[fields.DescriptionName, fields.DescriptionValue], Empty]


class System(SettingsGroup):
    """A machine, or several identical ones, whose results are submitted under one name, and settings that all its cells
    share."""

    extends: Annotated[fields.Names, UNREAD] = describe(
        "Systems from which it inherits unset values, such as h200x8; later ones win. A base system without "
        "cells needs neither category nor status."
    )
    category: Annotated[fields.Category, RecordedAs("system.category")] = describe(
        "Category of the system: datacenter, edge, or both."
    )
    status: Annotated[fields.Status, RecordedAs("system.status")] = describe(
        "Availability: available, preview or rdi (research, development, internal)."
    )
    hardware: HardwareGroup = describe("Required hardware of the machine.", HardwareGroup())
    launcher: Annotated[fields.Launcher, RecordedAs("system.launcher")] = describe(
        "Launcher: arguments before each command of this system, such as [srun, -N, 2], "
        "[docker, run, name@sha256:…] or [ssh, node]; default: it runs on this machine."
    )
    python: Annotated[fields.OptionalText, RecordedAs("system.python")] = describe(
        "Python interpreter with mlperf-reconciler behind the launcher; default: python3 in a container, else "
        "the running one. none: the image has no mlperf-reconciler; only declared commands start there."
    )
    executor: ExecutorGroup = describe("Queue that runs its steps.", ExecutorGroup())
    power: Annotated[Meter, read_by("power")] = describe("Power meter of the performance runs.", Meter())
    power_state: Annotated[PowerState, read_by("power")] = describe("Power state during its runs.", PowerState())
    description: Description = describe(
        "Fields of systems/<name>.json, such as cooling: air. Fields that identify it come from the spec's "
        "other settings.",
        {},
    )
    node_types: Annotated[dict[fields.Name, Description], Empty] = describe(
        "With program endpoints: node types with names of your choice, such as prefill and decode, each with "
        "number_of_nodes and its own fields; put common fields in the description.",
        {},
    )
    original: Annotated[fields.Location, RecordedAs("system.original")] = describe(
        "A previously published systems/<name>.json: kept byte for byte while it matches the spec."
    )
    nameplate: Annotated[fields.Location, RecordedAs("system.nameplate")] = describe(
        "Capacity of its power supplies, published as systems/<name>_power.yaml from round v6.1 on. A plain "
        "number sets system_power_capacity of its description. With program endpoints: its system_power.json, "
        "instead of a generated one."
    )
    benchmarks: Annotated[dict[fields.Name, BenchmarkOnSystem], Empty] = describe(
        "Settings of its cells by benchmark, and below that by scenario.", {}
    )


class Scenarios(Group):
    """The scenarios of one benchmark on one system; an empty one uses the defaults."""

    SingleStream: CellGroup = describe("One query at a time; latency counts.", CellGroup())
    MultiStream: CellGroup = describe("Eight samples per query, one query at a time; latency counts.", CellGroup())
    Server: CellGroup = describe("Queries arrive at random at target_qps within a latency bound.", CellGroup())
    Offline: CellGroup = describe("All samples at once; throughput counts.", CellGroup())
    Interactive: CellGroup = describe("Like Server, with a stricter latency bound.", CellGroup())


Cells = Annotated[dict[fields.Name, Annotated[dict[fields.Name, Scenarios], Empty]], Empty]


class Divisions(Group):
    """division: system: benchmark: scenario: settings of the cell. With program endpoints: division: system: benchmark:
    the curve."""

    closed: Cells = describe("Cells of the closed division.", {})
    open: Cells = describe("Cells of the open division.", {})
    network: Cells = describe("Cells of the network division.", {})


if not TYPE_CHECKING:
    Divisions = _extend_group(Divisions)


class Metadata(Group):
    name: fields.Name = Field(description="Name of the submission spec, such as acme.")


class Spec(Group):
    program: fields.Program = describe(
        "inference (default): MLPerf Inference; endpoints: MLPerf Endpoints, curves of points."
    )
    round: fields.Round = Field(
        description="MLPerf Inference round, such as v6.1; with program endpoints: version of its rules, such as v1.0."
    )
    submitter: fields.Name = Field(description="Submitter's name in the submission tree, such as ACME.")
    rehearsal: fields.Flag = describe(
        "true: not for submission; every record is marked permanently and cannot be packaged."
    )
    tree: fields.Location = describe("Folder for the rendered submission tree; ${NAME} is expanded.")
    documents: Documents = describe("Documents to publish.", Documents())
    embargo: EmbargoGroup = describe("End of the embargo.", EmbargoGroup())
    signing: Signing = describe("Signing of records, and allowed signers.", Signing())
    stores: Annotated[dict[fields.Name, Store], Empty, read_by("stores")] = describe(
        "Object stores by name, for `push` and `pull`.", {}
    )
    defaults: Annotated[dict[fields.Name, SettingsGroup], Empty] = describe(
        "Reusable blocks of settings, included with `use`.", {}
    )
    systems: Annotated[dict[fields.Name, System], Empty] = describe("Systems by name.", {})
    benchmarks: Annotated[dict[fields.Name, BenchmarkGroup], Empty] = describe("Benchmarks by name.", {})
    divisions: Divisions = describe("The cells: division, system, benchmark, scenario.", Divisions())


class Document(Group):
    """A submission spec."""

    apiVersion: Literal["mlperf-reconciler/v1"] = Field(description="Format of this file.")  # noqa: N815
    kind: Literal["Submission"] = Field(description="Kind of this file.")
    only_when_named: fields.Flag = describe(
        "true: this file is a separate spec, read only if passed to a command and not merged with the other "
        "files in specs/."
    )
    metadata: Metadata = Field(description="Name of the spec.")
    spec: Spec = Field(description="The submission.")
