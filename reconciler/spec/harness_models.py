"""Spec fields of a harness command: the ``harness`` group."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from reconciler.spec import fields
from reconciler.spec.groups import Empty, Group

Variables = Annotated[dict[fields.VariableName, fields.Variable], Empty]


class Score(Group):
    """The command that scores an accuracy log, where the benchmark has no scorer of its own here."""

    command: fields.CommandOfHarness = Field(
        None, description="Program and arguments; prints or writes accuracy.txt in {run_dir}, from {accuracy_log}."
    )


class Build(Group):
    """A command that builds the engine which the runs are given as {engine}. A change makes the engine and its runs
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
    """When a service is ready: at most one of url, tcp and log; default: it takes a connection at {port}."""

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
    """How a service is ended."""

    signal: fields.StopSignal = Field(None, description="The signal that asks its processes to end; default: SIGTERM.")
    timeout: fields.Milliseconds = Field(
        None, description="A process that has not ended after this long is killed; default: 30 s."
    )


class Service(Group):
    """A server that the command asks, started once for all runs that share it. A change makes their runs stale."""

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
    """Your own command runs the benchmark in place of the harness of this project. Placeholders: {run_dir} and others.
    A change makes runs stale, and only them."""

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
        None,
        description="File or folder of the command's code; what git ignores, builds and runs write is no code.",
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
