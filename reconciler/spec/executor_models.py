"""Spec fields of a system: its hardware, its job queue, and its power meter."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, ValidationInfo, field_validator

from reconciler.resource.queues import QUEUES
from reconciler.spec import fields
from reconciler.spec.groups import Empty, Group, Options, read_by


class Slurm(Group):
    """Run each step that needs the system's machine as a separate job. These settings make no result stale."""

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
    store: fields.OptionalText = Field(
        None,
        description="Name of a declared store through which attempts travel to its nodes and back, where these do not "
        "see the repository's folder; default: they see it.",
    )
    machines: fields.Count = Field(
        None, description="How many jobs of this system may be queued or running at a time; default: 64."
    )
    retries: fields.CountOrNone = Field(
        None,
        description="How often a step is queued again within a pass when a node failed or its job was preempted, in "
        "addition to the attempts of the cell; default: 3.",
    )
    take_over: fields.Milliseconds = Field(
        None,
        description="How long a job may take over waiting steps of the system that are expected to end within that "
        "time, so that short runs share a job; 0 for never. Default: 10 min.",
    )
    options: Options = Field({}, description="More options of sbatch by their long names, such as gres: gpu:8.")


class Ray(Group):
    """Run each step that needs the system's machine as a separate job, which holds the resources below on one node
    while it runs. These settings make no result stale."""

    NAMED: ClassVar[bool] = True

    address: fields.OptionalText = Field(
        None,
        description="Where its dashboard answers, such as http://head:8265; default: RAY_API_SERVER_ADDRESS or "
        "RAY_ADDRESS of the environment, else http://127.0.0.1:8265.",
    )
    resources: Annotated[dict[str, fields.Count], Empty] = Field(
        {},
        description="Custom resources that each step holds, by name: all that a node offers of one, to have the "
        "node alone. Default: 1 of the resource that is named like the system.",
    )
    labels: Annotated[dict[fields.LabelName, fields.Text], Empty] = Field(
        {}, description="Labels that its nodes must have, such as ray.io/accelerator-type: H200."
    )
    gpus: fields.CountOrNone = Field(
        None, description="GPUs that each step holds; default: hardware.count where an accelerator is declared, else 0."
    )
    cpus: fields.CountOrNone = Field(None, description="CPUs, as Ray counts them, that each step holds; default: 0.")
    store: fields.OptionalText = Field(
        None,
        description="Name of a declared store through which attempts travel to its nodes and back, where these do not "
        "see the repository's folder; default: they see it.",
    )
    machines: fields.Count = Field(
        None, description="How many jobs of this system may be queued or running at a time; default: 64."
    )
    retries: fields.CountOrNone = Field(
        None,
        description="How often a step is queued again within a pass when its node was lost, in addition to the "
        "attempts of the cell; default: 3.",
    )


class ExecutorGroup(Group):
    """Executor of the system's commands: at most one of these; default: on this machine, or through the launcher."""

    slurm: Slurm = Field(Slurm(), description="As jobs of Slurm, submitted from this machine.")
    ray: Ray = Field(Ray(), description="As jobs of Ray, submitted through its dashboard.")

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_removed_queue(cls, value: object, info: ValidationInfo) -> object:
        if info.field_name not in QUEUES:
            raise ValueError(f"this installation has no queue {info.field_name}")
        return value


def list_queue_groups() -> dict[str, type[Group]]:
    """Map each queue's name, as in ``executor: {slurm: …}``, to the group of its settings."""
    return {name: type(ExecutorGroup.model_fields[name].default) for name in QUEUES}


class PowerState(Group):
    """A power state of the machine, such as MaxQ, for the system's runs and compliance tests. Declare all four fields
    or none. The state read back is evidence of each run, and a change makes runs stale."""

    set: fields.Command = Field(None, description="Command that sets it, such as [sudo, nvidia-smi, -pl, 400].")
    restore: fields.Command = Field(None, description="Command that puts the machine back as it was.")
    read: fields.Command = Field(None, description="Command that prints it, a line for each device.")
    expect: fields.OptionalText = Field(
        None, description="Output of `read` once the state is set, for every device, before and after each run."
    )


class Meter(Group):
    """A power measurement with MLCommons' power kit: its client runs each performance run twice, first to find the
    ranges, then to measure. Adding or removing the meter makes performance runs stale; moving it does not."""

    director: fields.OptionalText = Field(
        None,
        description="Where the kit's server listens: host:port, on the machine of the analyzer's daemon. That there is "
        "one makes stale; another one does not.",
    )
    ntp: fields.OptionalText = Field(None, description="Time server by which both machines are checked.")
    kit: fields.Location = Field(None, description="Folder of the kit (mlcommons/power-dev), its client and its check.")
    analyzer: fields.OptionalText = Field(
        None, description="Analyzers that measure, as a report names them; another one makes performance runs stale."
    )


class HardwareGroup(Group):
    """Hardware that the system's cells need. On another machine they are Blocked, not stale."""

    accelerator: fields.Accelerator = Field(
        None, description="Accelerator model as its driver reports it, such as NVIDIA H200; none for a CPU system."
    )
    count: fields.CountOrNone = Field(None, description="Accelerators per node, such as 8; 0 for a CPU system.")
    cpu: fields.OptionalText = Field(None, description="CPU model, such as AMD EPYC 9654.")
    nodes: fields.Count = Field(None, description="Number of nodes.")
    power_limit: fields.Power = Field(None, description="Power limit of one accelerator with its unit, such as 300 W.")
    mig: Annotated[fields.Slices, read_by("mig")] = Field(
        None,
        description="Slices (MIG) into which the accelerators are cut and which the runs take, such as "
        "{profile: 1g.10gb, count: 7}, or a list of such; their count is of all accelerators of a node together.",
    )
