"""The spec document as pydantic models: what may be written, in which type, with the words an editor shows.

Every model refuses unknown names. A group with nothing under it (``Offline:``) is an empty group.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from reconciler.spec import fields, scalars
from reconciler.spec.endpoints_models import (
    ByConcurrency,
    Endpoint,
    EndpointsClient,
    PointWarmup,
    Shortfall,
    or_list,
)
from reconciler.spec.executor_models import ExecutorGroup, HardwareGroup, Meter, PowerState
from reconciler.spec.groups import Empty, Group, Options
from reconciler.spec.harness_models import Harness
from reconciler.spec.submission_models import Documents, EmbargoGroup, Signing, Store


class Engine(Group):
    """Which backend computes, and how its engine is built. A change makes the engine and its runs stale."""

    backend: fields.Backend = Field(None, description="The library that computes.")
    precision: fields.Precision = Field(
        None, description="Numeric precision of the engine; what a backend supports is checked."
    )
    batch_size: fields.Count = Field(None, description="Samples per batch the engine is built for, such as 32.")
    version: fields.OptionalText = Field(
        None, description='Version of the backend to pin, such as "1.20.1"; default: the installed one.'
    )
    options: Options = Field({}, description="The backend's own build options, by name.")


class Run(Group):
    """How an engine is driven in a run. A change makes runs stale, engines not."""

    streams: fields.Streams = Field(None, description="Batches in flight at once, such as 2.")
    threads: fields.Threads = Field(None, description="Threads that compute one batch; 0 lets the backend decide.")
    batch_size: fields.Count = Field(None, description="Samples sent at once, at most the engine's batch size.")
    queue_delay: fields.Microseconds = Field(
        None, description="How long a partial Server batch may wait, such as 500 us; 0 for not at all."
    )
    stall_timeout: fields.Milliseconds = Field(
        None, description="A run fails when nothing is completed for this long, such as 15 min; 0 for never."
    )
    options: Options = Field({}, description="The backend's own run options, by name.")


class Measurements(Group):
    """Fields of measurements.json that depend on the engine, or that one cell has of its own."""

    input_data_types: fields.OptionalText = Field(None, description="Data types of the inputs, such as fp32.")
    weight_data_types: fields.OptionalText = Field(
        None, description="Data types of the weights, such as int8 or fp8,fp16."
    )
    retraining: fields.OptionalText = Field(None, description="Was the model retrained? Default: what `model` says.")
    starting_weights_filename: fields.OptionalText = Field(
        None, description="File or source of the starting weights. Default: what `model` says."
    )
    weight_transformations: fields.OptionalText = Field(
        None, description="Such as none or quantization. Default: what `model` says."
    )


class Dataset(Group):
    """The data that samples are read from."""

    path: fields.Location = Field(
        None, description="File or folder of the data, relative to the repository; ${NAME} is expanded."
    )
    sha256: fields.Digest = Field(None, description="SHA-256 digest of the data file: 64 of 0-9 a-f.")
    settings: Options = Field({}, description="The benchmark's own preprocessing settings, by name.")


class Audit(Group):
    """Settings of one compliance test. Its runs never touch what is published; by default they are made as the
    performance run is."""

    target_qps: fields.Rate = Field(
        None, description="Target rate of the test alone, where it legitimately needs a lower one than is published."
    )
    target_latency: fields.Latency = Field(
        None, description="Latency bound or expected latency of the test alone, with its unit."
    )
    attempts: fields.Attempts = Field(
        None, description="How often the test is run until its verdict passes, 1 to 10; default: as the cell's runs."
    )
    dtype: fields.Dtype = Field(
        None,
        description="Data type of the answers as the verdict compares them; default: that of the run's "
        "own answers, where the test's script offers it; of a command's, what its scorer reads.",
    )
    dataset: Dataset = Field(
        Dataset(), description="Data of the test alone, where its rules ask for other samples, as TEST07's do."
    )
    eos_token_id: fields.CountOrNone = Field(
        None, description="The tokenizer's end of sequence as a number, where the test asks for it; default: 2."
    )


def _or_list(schema: dict[str, Any]) -> None:
    """An editor takes the names alone, too."""
    mapping = {name: schema.pop(name) for name in ("type", "additionalProperties", "propertyNames") if name in schema}
    names = {"type": "array", "items": {"type": "string", "pattern": "^TEST[0-9]{2}$"}}
    schema["anyOf"] = [names, mapping]


class SettingsGroup(Group):
    """Settings of a cell: written in a cell, in a benchmark (for all its cells), or in a named defaults block."""

    use: fields.Names = Field(
        None,
        description="Names of blocks in spec.defaults, and of presets such as h100/vllm, lowest first; settings "
        "written beside it win.",
    )
    target_qps: fields.Rate = Field(
        None,
        description="Target rate in queries (samples) per second, such as 54 or '54 /s'; Offline: the rate expected.",
    )
    target_latency: fields.Latency = Field(
        None, description="Latency bound or expected latency with its unit, such as 15 ms."
    )
    min_duration: fields.Milliseconds = Field(
        None, description="Shortest duration of a performance run with its unit, such as 600 s; 0 for none."
    )
    max_duration: fields.Milliseconds = Field(
        None, description="Longest duration of a performance run with its unit, such as 20 min; 0 for no bound."
    )
    min_query_count: fields.Count = Field(None, description="Fewest queries of a performance run, such as 24_576.")
    max_query_count: fields.Count = Field(None, description="Most queries of a performance run.")
    performance_sample_count: fields.Count = Field(None, description="Samples in memory during a performance run.")
    accuracy_sample_count: fields.Count = Field(
        None, description="Samples of the accuracy run, when not the whole dataset."
    )
    attempts: fields.Attempts = Field(
        None,
        description="How often a run is tried that is invalid or failed, or from whose speed a compliance test's "
        "differs, 1 to 10.",
    )
    background: fields.Names = Field(
        None,
        description="Cells that compute on further slices (MIG) during performance runs and compliance tests, such "
        "as [bert-99/Offline, resnet50/Offline] of the same division and system.",
    )
    publish: fields.Publish = Field(None, description="Which valid performance run is published.")
    compliance: Annotated[
        dict[fields.TestName, Audit],
        scalars.check_fitting(scalars.parse_tests),
    ] = Field(
        {},
        description="Compliance tests by name, such as [TEST01], or with settings of their own. Tests that the round"
        " requires in a division need not be named.",
        json_schema_extra=_or_list,
    )
    engine: Engine = Field(Engine(), description="The engine of this cell.")
    run: Run = Field(Run(), description="How the engine is driven.")
    harness: Harness = Field(Harness(), description="Your own command in place of the harness of this project.")
    measurements: Measurements = Field(Measurements(), description="Fields of measurements.json.")


class Model(Group):
    """The model that engines are built from."""

    path: fields.Location = Field(
        None, description="File or folder of the model, relative to the repository; ${NAME} is expanded."
    )
    sha256: fields.Digest = Field(None, description="SHA-256 digest of the model file: 64 of 0-9 a-f.")
    retraining: fields.OptionalText = Field(
        None, description='For measurements.json: was the model retrained? Such as "No".'
    )
    starting_weights_filename: fields.OptionalText = Field(
        None, description="For measurements.json: file or source of the starting weights."
    )
    weight_transformations: fields.OptionalText = Field(
        None, description="For measurements.json: such as none or quantization."
    )
    settings: Options = Field({}, description="The benchmark's own settings for making the model, by name.")


class CellGroup(SettingsGroup):
    """One cell: its settings, and what only a single cell can say."""

    infer_from: fields.OptionalName = Field(
        None,
        description="Take the runs of another cell of this system where the round allows it: a scenario such as "
        "SingleStream, or the stricter variant of the benchmark such as bert-99.9.",
    )
    power: fields.Location = Field(
        None,
        description="Folder with power/, ranging/ and run_1/ of a power measurement; its files are published byte by "
        "byte below performance/. ${NAME} is expanded.",
    )


class BenchmarkGroup(SettingsGroup):
    """A benchmark, and settings that all its cells share."""

    as_: fields.OptionalName = Field(
        None, alias="as", description="The official benchmark it is entered as, such as resnet; default: its own name."
    )
    code: fields.Code = Field(
        None,
        description="A built-in benchmark, or the path of your own benchmark's .py file; default: its own name.",
    )
    source: fields.Locations = Field(
        None,
        description="Files and folders published as src/<benchmark>, relative to the repository; ${NAME} is expanded. "
        "Default: the code that each published run kept: that of its commands, or of the harness and the benchmark.",
    )
    excluded_code: fields.Patterns = Field(
        None,
        description="Files of the code of the runs that are not published, such as [internal/*, '*.key']: patterns of "
        "names below src/<benchmark>.",
    )
    model: Model = Field(Model(), description="The model.")
    dataset: Dataset = Field(Dataset(), description="The dataset.")
    client: EndpointsClient = Field(EndpointsClient(), description="With program endpoints: the official client.")
    disclosure: Options = Field(
        {},
        description="With program endpoints: fields of point.yaml that cannot be derived, such as link_to_model, and"
        " fields of system_desc.json that may differ between points, such as tensor_parallel.",
    )
    endpoint: Endpoint = Field(
        Endpoint(),
        description="With program endpoints: an endpoint that is not started here, but for `harness.service`.",
    )


class System(Group):
    """A machine, or several alike, whose results are submitted under one name."""

    PREFIX = "system."

    category: fields.Category = Field(description="The category of the system: datacenter, edge, or both.")
    status: fields.Status = Field(
        description="Availability: available, preview or rdi (research, development, internal)."
    )
    hardware: HardwareGroup = Field(HardwareGroup(), description="What the machine must have.")
    launcher: fields.Launcher = Field(
        None,
        description="Words before each command of this system, such as [srun, -N, 2], [docker, run, name@sha256:…] or "
        "[ssh, node]; default: it runs on this machine.",
    )
    python: fields.OptionalText = Field(
        None,
        description="Interpreter of Python behind the launcher that has mlperf-reconciler; default: python3 in a "
        "container, else the one that is running.",
    )
    executor: ExecutorGroup = Field(
        ExecutorGroup(), description="How its machines are reached where a queue gives them out."
    )
    power: Meter = Field(Meter(), description="The power meter beside it, under which performance runs are made.")
    power_state: PowerState = Field(PowerState(), description="A power state in which its runs are made.")
    description: Annotated[dict[fields.DescriptionName, fields.DescriptionValue], Empty] = Field(
        {},
        description="Fields of systems/<name>.json, such as cooling: air. Identity comes from the spec's other fields.",
    )
    node_types: Annotated[
        dict[fields.Name, Annotated[dict[fields.DescriptionName, fields.DescriptionValue], Empty]], Empty
    ] = Field(
        {},
        description="With program endpoints: the types of node by names of your own, such as prefill and decode, "
        "each with its number_of_nodes and its own fields; common fields are in the description.",
    )
    original: fields.Location = Field(
        None,
        description="A systems/<name>.json that was published before: its bytes are kept as long as it says what the "
        "spec says.",
    )
    nameplate: fields.Location = Field(
        None,
        description="Capacity of its power supplies, published as systems/<name>_power.yaml from round v6.1 on. A "
        "number alone is system_power_capacity of its description. With program endpoints: its "
        "system_power.json, instead of the one made from its description.",
    )


class Scenarios(Group):
    """The scenarios of one benchmark on one system; an empty one takes the defaults."""

    SingleStream: CellGroup = Field(CellGroup(), description="One query at a time; latency counts.")
    MultiStream: CellGroup = Field(
        CellGroup(), description="Eight samples per query, one query at a time; latency counts."
    )
    Server: CellGroup = Field(CellGroup(), description="Queries arrive at random at target_qps within a latency bound.")
    Offline: CellGroup = Field(CellGroup(), description="All samples at once; throughput counts.")
    Interactive: CellGroup = Field(CellGroup(), description="As Server, with a stricter latency bound.")


Cells = Annotated[
    dict[fields.Name, Annotated[dict[fields.Name, Scenarios], Empty]],
    Empty,
]


class PointGroup(SettingsGroup):
    """One point of a curve: settings that the others do not have. Whatever belongs to the stack is one for all."""

    client: EndpointsClient = Field(EndpointsClient(), description="The official client, for this point.")
    disclosure: Options = Field({}, description="Fields of point.yaml and system_desc.json that only this point has.")
    nodes_used: Annotated[dict[fields.Name, fields.Count], Empty] = Field(
        {}, description="Nodes that a point engages, by their name among the system's `node_types`; default: all."
    )
    dp_shortfall: Shortfall = Field(Shortfall(), description="Why fewer replicas ran than the system holds.")
    warmup: PointWarmup = Field(
        PointWarmup(), description="What happened before the run, beyond the warm-up that the client was told."
    )
    speculative_decoding: Options = Field(
        {}, description="Fields of speculative_decoding in point.yaml, such as model_id and weight_checksum."
    )


class CurveGroup(PointGroup):
    """The points of one benchmark on one system, with program endpoints. What is set beside `points` holds for each."""

    max_supported_concurrency: fields.Count = Field(
        None, description="The most requests at a time that the system supports (C_max), more than 32."
    )
    min_concurrency: fields.Count = Field(
        None,
        description="A lowest concurrency from 1 to 32 from which the regions are derived (c_min_override), at which "
        "there is a point; default: that of the lowest point.",
    )
    points: Annotated[dict[fields.Concurrency, PointGroup], ByConcurrency, Empty] = Field(
        {},
        description="Requests at a time of each point, such as [1, 8, 40], or by number with settings of their own; "
        "auto: as many as the rules ask, placed by region, with or without numbers; offline among them: "
        "a dedicated Offline run.",
        json_schema_extra=or_list,
    )
    accuracy_points: fields.Concurrencies = Field(
        None,
        description="Points with an accuracy run of their own, such as [1, 3, 10, 64]: one in each region at least. "
        "Default: as the rules place them.",
    )
    point_count: fields.Count = Field(
        None, description="How many points `auto` places, a dedicated Offline run among them; default: the fewest."
    )
    seed_set: fields.OptionalName = Field(
        None, description="The published set of seeds that the curve is bound to, such as A; default: the newest."
    )
    client: EndpointsClient = Field(EndpointsClient(), description="The official client.")
    disclosure: Options = Field(
        {}, description="Fields of point.yaml and system_desc.json that cannot be derived and apply to all points."
    )
    endpoint: Endpoint = Field(Endpoint(), description="An endpoint that is not started here.")


Curves = Annotated[
    dict[fields.Name, Annotated[dict[fields.Name, CurveGroup], Empty]],
    Empty,
]


class Divisions(Group):
    """division: system: benchmark: scenario: settings of the cell. With program endpoints: division: system:
    benchmark: the curve."""

    closed: Cells = Field({}, description="Cells of the closed division.")
    open: Cells = Field({}, description="Cells of the open division.")
    network: Cells = Field({}, description="Cells of the network division.")
    standardized: Curves = Field({}, description="With program endpoints: curves of the Standardized division.")
    serviced: Curves = Field({}, description="With program endpoints: curves of the Serviced division.")
    rdi: Curves = Field({}, description="With program endpoints: curves of the RDI division.")


class Metadata(Group):
    name: fields.Name = Field(description="Name of the submission spec, such as acme.")


class Spec(Group):
    program: fields.Program = Field(
        None, description="inference (default): MLPerf Inference; endpoints: MLPerf Endpoints, curves of points."
    )
    round: fields.Round = Field(
        description="MLPerf Inference round, such as v6.1; with program endpoints the version of its rules, as v1.0."
    )
    submitter: fields.Name = Field(description="Submitter as the submission tree names it, such as ACME.")
    rehearsal: fields.Flag = Field(
        None, description="true: not for submission; every record says so permanently, and nothing can be packaged."
    )
    tree: fields.Location = Field(None, description="Folder the submission tree is rendered into; ${NAME} is expanded.")
    documents: Documents = Field(Documents(), description="Documents that the tree carries.")
    embargo: EmbargoGroup = Field(EmbargoGroup(), description="Until when results are secret.")
    signing: Signing = Field(Signing(), description="Whether records are signed, and by whom.")
    stores: Annotated[dict[fields.Name, Store], Empty] = Field(
        {}, description="Object stores by name, for `push` and `pull`."
    )
    defaults: Annotated[dict[fields.Name, SettingsGroup], Empty] = Field(
        {}, description="Named blocks of settings, taken with use."
    )
    systems: Annotated[dict[fields.Name, System], Empty] = Field({}, description="Systems by name.")
    benchmarks: Annotated[dict[fields.Name, BenchmarkGroup], Empty] = Field({}, description="Benchmarks by name.")
    divisions: Divisions = Field(Divisions(), description="The cells: division, system, benchmark, scenario.")


class Document(Group):
    """A submission spec."""

    apiVersion: Literal["mlperf-reconciler/v1"] = Field(description="Format of this file.")  # noqa: N815
    kind: Literal["Submission"] = Field(description="What this file declares.")
    only_when_named: fields.Flag = Field(
        None,
        description="true: this file is a spec of its own, read where a command names it and left out of what all "
        "files in specs/ declare together.",
    )
    metadata: Metadata = Field(description="What the spec is called.")
    spec: Spec = Field(description="The submission.")
