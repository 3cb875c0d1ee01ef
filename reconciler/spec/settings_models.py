"""The settings of a cell as pydantic models: engine, run, harness, compliance tests, and the group that contains
them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from reconciler.spec import fields, scalars
from reconciler.spec.groups import UNREAD, Empty, Group, Options, RecordedAs, describe, read_by

# Spec fields of a harness command: the ``harness`` group.

Variables = Annotated[dict[fields.VariableName, fields.Variable], Empty]


class Score(Group):
    """The command that scores an accuracy log, if the benchmark has no built-in scorer."""

    command: fields.CommandOfHarness = describe(
        "Program and arguments; prints or writes accuracy.txt in {run_dir}, from {accuracy_log}."
    )


class Build(Group):
    """A command that builds the engine, which runs receive as {engine}. A change makes the engine and its runs
    stale."""

    command: fields.CommandOfHarness = describe(
        'Program and arguments, such as ["python", "build.py", "{model}", "{run_dir}"].'
    )
    outputs: fields.Locations = describe(
        "Files and folders of the engine, relative to cwd; default: everything in {run_dir}."
    )
    env: Variables = describe("Environment variables of the build: text, or {from_env: NAME}.", {})
    cwd: fields.Location = describe("Working directory; default: the folder of its code.")
    image: fields.Image = describe("Container image; default: the harness's.")
    code: fields.Location = describe("File or folder of its code; default: the harness's.")
    configs: fields.Locations = describe("More input files and folders.")
    timeout: fields.Milliseconds = describe("Time limit of the build, such as 2 h; default: no limit.")


class ReadyGroup(Group):
    """Readiness check of a service: at most one of url, tcp and log; default: it accepts a connection at {port}."""

    url: fields.OptionalText = describe('Ready if a GET of this URL succeeds, such as "{service_url}/health".')
    tcp: fields.OptionalText = describe('Ready if this address accepts a connection, such as "127.0.0.1:{port}".')
    log: fields.OptionalText = describe("Ready if it printed a line with this text.")
    timeout: fields.Milliseconds = describe("Time limit for it to be ready; default: 30 min.")
    unanswered: fields.Milliseconds = describe(
        "A run fails if its service does not answer url or tcp probes for this long; 0: no probes during "
        "runs. Default: 2 min."
    )


class Stop(Group):
    """How a service is stopped."""

    signal: fields.StopSignal = describe("Signal to stop its processes; default: SIGTERM.")
    timeout: fields.Milliseconds = describe("Time before processes are killed; default: 30 s.")


class Service(Group):
    """A server that the command uses, started once for all runs that share it. A change makes their runs stale."""

    command: fields.CommandOfHarness = describe(
        'Program and arguments, such as ["python", "server.py", "--port", "{port}"].'
    )
    env: Variables = describe("Environment variables of the service: text, or {from_env: NAME}.", {})
    cwd: fields.Location = describe("Working directory; default: the folder of its code.")
    image: fields.Image = describe("Container image; default: the harness's.")
    code: fields.Location = describe("File or folder of its code; default: the harness's.")
    configs: fields.Locations = describe("More input files and folders.")
    ready: ReadyGroup = describe("Readiness and liveness checks.", ReadyGroup())
    stop: Stop = describe("How to stop it.", Stop())


class Harness(Group):
    """Your own command, which runs the benchmark instead of this project's harness. Placeholders: {run_dir} and others.
    A change makes runs stale, but nothing else."""

    adapter: fields.OptionalText = describe(
        "Adapter for a published harness, such as nvidia-v5.1; settings here override it."
    )
    command: fields.CommandOfHarness = describe(
        'Program and arguments of one LoadGen run, such as ["python", "run.py", "{run_dir}"].'
    )
    env: Variables = describe("Environment variables of the command: text, or {from_env: NAME} for a secret.", {})
    cwd: fields.Location = describe(
        "Working directory of the command; default: the folder of `code`. ${NAME} is expanded."
    )
    image: fields.Image = describe("Container image of the command, as name@sha256:….")
    results: fields.HarnessResults = describe(
        "Kind of its results: loadgen (default): LoadGen's logs; endpoints: files of MLCommons' endpoints harness."
    )
    model_name: fields.OptionalText = describe("With results endpoints: the expected model_params.name.")
    code: fields.Location = describe("File or folder of the command's code, without ignored files and outputs.")
    configs: fields.Locations = describe("More input files and folders of the command.")
    logs: fields.Location = describe("Folder for the command's LoadGen logs; default: {run_dir}.")
    outputs: fields.Locations = describe("More files to keep with the run's record, relative to cwd.")
    user_conf: fields.UserConf = describe(
        "written (default): the command receives {user_conf}; harvested: it writes its own."
    )
    user_conf_at: fields.Location = describe("Path of a harvested user.conf; default: next to the logs.")
    audit_config: fields.AuditConfig = describe(
        "path (default): the command receives {audit_config}; placed: audit.config is copied to cwd for a "
        "test; any audit.config there is removed after each run."
    )
    timeout: fields.Milliseconds = describe("Time limit of the command, such as 2 h; default: no limit.")
    build: Build = describe("Your command that builds the engine.", Build())
    service: Service = describe("Server for the command, shared by runs.", Service())
    score: Score = describe("How to score an accuracy log.", Score())


class Engine(Group):
    """The backend that computes, and how its engine is built. A change makes the engine and its runs stale."""

    backend: fields.Backend = describe("Inference library.")
    precision: fields.Precision = describe("Numeric precision of the engine; must be supported by the backend.")
    batch_size: fields.Count = describe("Samples per batch of the engine, such as 32.")
    version: fields.OptionalText = describe(
        'Version of the backend to pin, such as "1.20.1"; default: the installed one.'
    )
    options: Options = describe("The backend's own build options, by name.", {})


class Run(Group):
    """How an engine is driven in a run. A change makes runs stale, but not engines."""

    streams: fields.Streams = describe("Batches in flight at once, such as 2.")
    threads: fields.Threads = describe("Threads that compute one batch; 0 lets the backend decide.")
    batch_size: fields.Count = describe("Samples per batch of the run, at most the engine's batch size.")
    queue_delay: fields.Microseconds = describe("Maximum wait of a partial Server batch, such as 500 us; 0: no wait.")
    stall_timeout: Annotated[fields.Milliseconds, UNREAD] = describe(
        "A run fails if no query completes for this long, such as 15 min; 0: never."
    )
    options: Options = describe("The backend's own run options, by name.", {})


class Measurements(Group):
    """Fields of measurements.json that depend on the engine, or that a single cell sets."""

    input_data_types: fields.OptionalText = describe("Data types of the inputs, such as fp32.")
    weight_data_types: fields.OptionalText = describe("Data types of the weights, such as int8 or fp8,fp16.")
    retraining: fields.OptionalText = describe("Whether the model was retrained. Default: from `model`.")
    starting_weights_filename: fields.OptionalText = describe(
        "File or source of the starting weights. Default: from `model`."
    )
    weight_transformations: fields.OptionalText = describe("Such as none or quantization. Default: from `model`.")


class Dataset(Group):
    """The data that samples are read from."""

    path: fields.Location = describe("File or folder of the data, relative to the repository; ${NAME} is expanded.")
    sha256: fields.Digest = describe("SHA-256 digest of the data file: 64 of 0-9 a-f.")
    settings: Options = describe("The benchmark's own preprocessing settings, by name.", {})


class Audit(Group):
    """Settings of one compliance test. Its runs never affect published ones; by default, they are made like the
    performance run."""

    target_qps: fields.Rate = describe("Target rate of the test, if it legitimately needs a lower one.")
    target_latency: fields.Latency = describe("Latency bound or expected latency of the test, with its unit.")
    attempts: Annotated[fields.Attempts, UNREAD] = describe(
        "Maximum attempts of the test, 1 to 10; default: the cell's."
    )
    dtype: fields.Dtype = describe(
        "Data type of the compared answers; default: the run's answer type if the test's script supports it; "
        "for a command: the type that its scorer reads."
    )
    dataset: Dataset = describe("Data of the test, if its rules require other samples, as for TEST07.", Dataset())
    eos_token_id: fields.CountOrNone = describe(
        "The tokenizer's end-of-sequence id, if the test requires it; default: 2."
    )


def _allow_list(schema: dict[str, Any]) -> None:
    """Let editors also accept a list of names."""
    mapping = {name: schema.pop(name) for name in ("type", "additionalProperties", "propertyNames") if name in schema}
    names = {"type": "array", "items": {"type": "string", "pattern": "^TEST[0-9]{2}$"}}
    schema["anyOf"] = [names, mapping]


class SettingsGroup(Group):
    """Settings of a cell: written in a cell, in a benchmark (for all its cells), or in a named defaults block."""

    use: fields.Names = describe(
        "Names of blocks in spec.defaults, and of presets such as h100/vllm, lowest priority first; explicit "
        "settings override them."
    )
    target_qps: fields.Rate = describe(
        "Target rate in queries (samples) per second, such as 54, '54 /s' or '6.75 per accelerator'; "
        "Offline: the rate expected."
    )
    target_latency: fields.Latency = describe("Latency bound or expected latency with its unit, such as 15 ms.")
    min_duration: fields.Milliseconds = describe(
        "Shortest duration of a performance run with its unit, such as 600 s; 0 for none."
    )
    max_duration: fields.Milliseconds = describe(
        "Longest duration of a performance run with its unit, such as 20 min; 0: no limit."
    )
    min_query_count: fields.Count = describe("Fewest queries of a performance run, such as 24_576.")
    max_query_count: fields.Count = describe("Most queries of a performance run.")
    performance_sample_count: fields.Count = describe("Samples in memory during a performance run.")
    accuracy_sample_count: fields.Count = describe("Samples of the accuracy run; default: the complete dataset.")
    attempts: Annotated[fields.Attempts, UNREAD] = describe(
        "Maximum attempts of a run that is invalid, fails, or differs in speed from a compliance test, 1 to 10."
    )
    background: Annotated[fields.Names, read_by("mig")] = describe(
        "Cells of the same division and system that run on other MIG slices during performance runs and "
        "compliance tests, such as [bert-99/Offline, resnet50/Offline]."
    )
    publish: Annotated[fields.Publish, RecordedAs("policy.publish")] = describe("Valid performance run to publish.")
    compliance: Annotated[dict[fields.TestName, Audit], scalars.FieldReader(scalars.parse_tests)] = Field(
        {},
        description=(
            "Compliance tests by name, such as [TEST01], or with their own settings. Required tests need not be listed."
        ),
        json_schema_extra=_allow_list,
    )
    engine: Engine = describe("The engine of this cell.", Engine())
    run: Run = describe("How the engine is run.", Run())
    harness: Harness = describe("Your own command instead of the built-in harness.", Harness())
    measurements: Measurements = describe("Fields of measurements.json.", Measurements())
