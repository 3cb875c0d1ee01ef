"""What a spec says of a queue that gives a system's machines out, and of a power meter beside one of them."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from reconciler.spec import fields
from reconciler.spec.groups import Group, Options


class Slurm(Group):
    """Each step of the system that needs its machine is a job of its own. Nothing here makes a result stale."""

    NAMED: ClassVar[bool] = True

    partition: fields.OptionalText = Field(None, description="Partition of its jobs; default: Slurm's own.")
    account: fields.OptionalText = Field(None, description="Account that is charged; default: Slurm's own.")
    qos: fields.OptionalText = Field(None, description="Quality of service of its jobs.")
    constraint: fields.OptionalText = Field(None, description="Features that its nodes must have, such as h200.")
    nodes: fields.Count = Field(None, description="Nodes of each job; default: hardware.nodes, else 1.")
    exclusive: fields.Flag = Field(
        None,
        description="false lets steps that are not timed share their nodes; runs that are timed never do. Default: "
        "every step has its nodes alone.",
    )
    time: fields.Milliseconds = Field(None, description="Time limit of each job, such as 6 h; default: Slurm's own.")
    machines: fields.Count = Field(
        None, description="How many jobs of this system may be queued or running at a time; default: 64."
    )
    retries: fields.CountOrNone = Field(
        None,
        description="How often a step is queued again within a pass when a node failed or its job was preempted, "
        "beside the attempts of the cell; default: 3.",
    )
    options: Options = Field({}, description="More options of sbatch by their long names, such as gres: gpu:8.")


class ExecutorGroup(Group):
    """Where commands of the system run: at most one of these; default: on this machine, or behind the launcher."""

    slurm: Slurm = Field(Slurm(), description="As jobs of Slurm, submitted from this machine.")


def list_queue_groups() -> dict[str, type[Group]]:
    """Name of a queue, as in ``executor: {slurm: …}`` → the group of its settings."""
    return {name: type(field.default) for name, field in ExecutorGroup.model_fields.items()}


class Meter(Group):
    """A power measurement with MLCommons' power kit: performance runs are made twice under its client, for the ranges
    and to be measured. With a meter or without one, runs are different measurements; where it stands counts for
    nothing."""

    director: fields.OptionalText = Field(
        None, description="Where the kit's server listens: host:port, on the machine of the analyzer's daemon."
    )
    ntp: fields.OptionalText = Field(None, description="Time server by which both machines are checked.")
    kit: fields.Location = Field(None, description="Folder of the kit (mlcommons/power-dev), its client and its check.")
    analyzer: fields.OptionalText = Field(
        None, description="Analyzers that measure, as a report names them; another one makes performance runs stale."
    )
