"""The settings of a cell as pydantic models: engine, run, harness, compliance tests, and the group that contains
them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from reconciler.spec import fields, scalars
from reconciler.spec.groups import UNREAD, Empty, Group, Options, RecordedAs, read_by

# Spec fields of a harness command: the ``harness`` group.

Variables = Annotated[dict[fields.VariableName, fields.Variable], Empty]


class Score(Group):
    """The command that scores an accuracy log, if the benchmark has no built-in scorer."""

    command: fields.CommandOfHarness = Field(
        None, description="Program and arguments; prints or writes accuracy.txt in {run_dir}, from {accuracy_log}."
    )


class Build(Group):
    """A command that builds the engine, which runs receive as {engine}. A change makes the engine and its runs
    stale."""

    command: fields.CommandOfHarness = Field(
        None, description='Program and arguments, such as ["python", "build.py", "{model}", "{run_dir}"].'
    )
    outputs: fields.Locations = Field(
        None, description="Files and folders that are the engine, from cwd; default: everything in {run_dir}."
    )
    env: Variables = Field({}, description="Environment variables of the build: text, or {from_env: NAME}.")
    cwd: fields.Location = Field(None, description="Folder it starts in; default: that of its code.")
    image: fields.Image = Field(None, description="Container image that it uses; default: that of the harness.")
    code: fields.Location = Field(None, description="File or folder of its code; default: that of the harness.")
    configs: fields.Locations = Field(None, description="More files and folders that decide what it builds.")
    timeout: fields.Milliseconds = Field(
        None, description="The build fails if it takes longer, such as 2 h; default: no limit."
    )


class ReadyGroup(Group):
    """Readiness check of a service: at most one of url, tcp and log; default: it accepts a connection at {port}."""

    url: fields.OptionalText = Field(None, description='A GET of it succeeds, such as "{service_url}/health".')
    tcp: fields.OptionalText = Field(None, description='It accepts a connection there, such as "127.0.0.1:{port}".')
    log: fields.OptionalText = Field(None, description="It has printed a line that contains this text.")
    timeout: fields.Milliseconds = Field(
        None, description="The service fails if it is not ready after this long; default: 30 min."
    )
    unanswered: fields.Milliseconds = Field(
        None,
        description="A run has failed when its service answers no probe of url or tcp for so long, such as 2 min, the "
        "default; 0: it is not asked during runs.",
    )


class Stop(Group):
    """How a service is stopped."""

    signal: fields.StopSignal = Field(None, description="The signal that asks its processes to end; default: SIGTERM.")
    timeout: fields.Milliseconds = Field(
        None, description="A process that has not ended after this long is killed; default: 30 s."
    )


class Service(Group):
    """A server that the command uses, started once for all runs that share it. A change makes their runs stale."""

    command: fields.CommandOfHarness = Field(
        None, description='Program and arguments, such as ["python", "server.py", "--port", "{port}"].'
    )
    env: Variables = Field({}, description="Environment variables of the service: text, or {from_env: NAME}.")
    cwd: fields.Location = Field(None, description="Folder it starts in; default: that of its code.")
    image: fields.Image = Field(None, description="Container image that it uses; default: that of the harness.")
    code: fields.Location = Field(None, description="File or folder of its code; default: that of the harness.")
    configs: fields.Locations = Field(None, description="More files and folders that decide what it does.")
    ready: ReadyGroup = Field(ReadyGroup(), description="When it is ready, and whether it still answers.")
    stop: Stop = Field(Stop(), description="How it is ended.")


class Harness(Group):
    """Your own command, which runs the benchmark instead of this project's harness. Placeholders: {run_dir} and others.
    A change makes runs stale, but nothing else."""

    adapter: fields.OptionalText = Field(
        None,
        description="A published harness whose command and habits are known, such as nvidia-v5.1; settings here win.",
    )
    command: fields.CommandOfHarness = Field(
        None, description='Program and arguments of one LoadGen run, such as ["python", "run.py", "{run_dir}"].'
    )
    env: Variables = Field(
        {}, description="Environment variables of the command: text, or {from_env: NAME} for a secret."
    )
    cwd: fields.Location = Field(
        None, description="Folder the command starts in; default: that of `code`. ${NAME} is expanded."
    )
    image: fields.Image = Field(None, description="Container image that the command uses, as name@sha256:….")
    results: fields.HarnessResults = Field(
        None,
        description="Kind of its results: loadgen (default): LoadGen's logs; endpoints: files of MLCommons' "
        "endpoints harness.",
    )
    model_name: fields.OptionalText = Field(
        None, description="With results endpoints: the model that they must be of, as model_params.name names it."
    )
    code: fields.Location = Field(
        None, description="File or folder of the command's code; what git ignores, builds and runs write is no code."
    )
    configs: fields.Locations = Field(None, description="More files and folders that decide what the command does.")
    logs: fields.Location = Field(
        None, description="Folder below which the command leaves its LoadGen logs; default: {run_dir}."
    )
    outputs: fields.Locations = Field(None, description="More files of a run to keep with its record, from cwd.")
    user_conf: fields.UserConf = Field(
        None, description="written (default): the command is given {user_conf}; harvested: it writes its own."
    )
    user_conf_at: fields.Location = Field(
        None, description="Where a harvested user.conf is written; default: next to the logs."
    )
    audit_config: fields.AuditConfig = Field(
        None,
        description="path (default): the command is given {audit_config}; placed: audit.config is put into cwd for a "
        "test and cleared after each run, also one of the command's own.",
    )
    timeout: fields.Milliseconds = Field(
        None, description="The command fails if it takes longer, such as 2 h; default: no limit."
    )
    build: Build = Field(Build(), description="How an engine for it is built by a command of your own.")
    service: Service = Field(
        Service(), description="A server that the command uses, kept running for all runs that share it."
    )
    score: Score = Field(Score(), description="How an accuracy log is scored.")


class Engine(Group):
    """The backend that computes, and how its engine is built. A change makes the engine and its runs stale."""

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
    """How an engine is driven in a run. A change makes runs stale, but not engines."""

    streams: fields.Streams = Field(None, description="Batches in flight at once, such as 2.")
    threads: fields.Threads = Field(None, description="Threads that compute one batch; 0 lets the backend decide.")
    batch_size: fields.Count = Field(None, description="Samples sent at once, at most the engine's batch size.")
    queue_delay: fields.Microseconds = Field(
        None, description="How long a partial Server batch may wait, such as 500 us; 0 for not at all."
    )
    stall_timeout: Annotated[fields.Milliseconds, UNREAD] = Field(
        None, description="A run fails when nothing is completed for this long, such as 15 min; 0 for never."
    )
    options: Options = Field({}, description="The backend's own run options, by name.")


class Measurements(Group):
    """Fields of measurements.json that depend on the engine, or that a single cell sets."""

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
    """Settings of one compliance test. Its runs never affect published ones; by default, they are made like the
    performance run."""

    target_qps: fields.Rate = Field(
        None, description="Target rate of the test alone, where it legitimately needs a lower one than is published."
    )
    target_latency: fields.Latency = Field(
        None, description="Latency bound or expected latency of the test alone, with its unit."
    )
    attempts: Annotated[fields.Attempts, UNREAD] = Field(
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
    """Let editors also accept a list of names."""
    mapping = {name: schema.pop(name) for name in ("type", "additionalProperties", "propertyNames") if name in schema}
    names = {"type": "array", "items": {"type": "string", "pattern": "^TEST[0-9]{2}$"}}
    schema["anyOf"] = [names, mapping]


class SettingsGroup(Group):
    """Settings of a cell: written in a cell, in a benchmark (for all its cells), or in a named defaults block."""

    use: fields.Names = Field(
        None,
        description="Names of blocks in spec.defaults, and of presets such as h100/vllm, lowest first; settings "
        "written next to it win.",
    )
    target_qps: fields.Rate = Field(
        None,
        description="Target rate in queries (samples) per second, such as 54, '54 /s' or '6.75 per accelerator'; "
        "Offline: the rate expected.",
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
    attempts: Annotated[fields.Attempts, UNREAD] = Field(
        None,
        description="How often a run is tried that is invalid or failed, or from whose speed a compliance test's "
        "differs, 1 to 10.",
    )
    background: Annotated[fields.Names, read_by("mig")] = Field(
        None,
        description="Cells that compute on further slices (MIG) during performance runs and compliance tests, such "
        "as [bert-99/Offline, resnet50/Offline] of the same division and system.",
    )
    publish: Annotated[fields.Publish, RecordedAs("policy.publish")] = Field(
        None, description="Which valid performance run is published."
    )
    compliance: Annotated[dict[fields.TestName, Audit], scalars.FieldReader(scalars.parse_tests)] = Field(
        {},
        description="Compliance tests by name, such as [TEST01], or with settings of their own. Tests that the round"
        " requires in a division need not be named.",
        json_schema_extra=_or_list,
    )
    engine: Engine = Field(Engine(), description="The engine of this cell.")
    run: Run = Field(Run(), description="How the engine is driven.")
    harness: Harness = Field(Harness(), description="Your own command in place of the harness of this project.")
    measurements: Measurements = Field(Measurements(), description="Fields of measurements.json.")
