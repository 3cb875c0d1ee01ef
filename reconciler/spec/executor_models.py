"""Spec fields of a system: its hardware, its job queue, and its power meter."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, ValidationInfo, field_validator

from reconciler.resource.queues import QUEUES
from reconciler.spec import fields
from reconciler.spec.groups import Empty, Group, Options, read_by

# Fields of every queue.
_STORE = Field(
    None,
    description=(
        "Declared store that transfers attempts to and from nodes without access to the repository's folder. "
        "Default: nodes share that folder."
    ),
)
_MACHINES = Field(None, description="Maximum jobs of this system queued or running at once; default: 64.")


class Slurm(Group):
    """Run each step that needs the system's machine as a separate job. These settings make no result stale."""

    NAMED: ClassVar[bool] = True

    partition: fields.OptionalText = Field(None, description="Partition of its jobs; default: Slurm's own.")
    account: fields.OptionalText = Field(None, description="Account to charge; default: Slurm's own.")
    qos: fields.OptionalText = Field(None, description="Quality of service of its jobs.")
    constraint: fields.OptionalText = Field(None, description="Features that its nodes must have, such as h200.")
    nodes: fields.Count = Field(None, description="Nodes of each job; default: hardware.nodes, else 1.")
    exclusive: fields.Flag = Field(
        None,
        description="false: untimed steps may share nodes; timed runs never do. Default: true.",
    )
    time: fields.Milliseconds = Field(None, description="Time limit of each job, such as 6 h; default: Slurm's own.")
    store: fields.OptionalText = _STORE
    machines: fields.Count = _MACHINES
    retries: fields.CountOrNone = Field(
        None,
        description=(
            "Requeues of a step per pass after node failures or preemption, in addition to the cell's attempts; "
            "default: 3."
        ),
    )
    take_over: fields.Milliseconds = Field(
        None,
        description=(
            "How long a job may also run other waiting steps of the system, so that short runs share a job; 0 to "
            "disable. Default: 10 min."
        ),
    )
    options: Options = Field({}, description="More sbatch options by long name, such as gres: gpu:8.")


class Ray(Group):
    """Run each step that needs the system's machine as a separate job, which occupies the resources below on one node
    while it runs. These settings make no result stale."""

    NAMED: ClassVar[bool] = True

    address: fields.OptionalText = Field(
        None,
        description="Address of its dashboard, such as http://head:8265; default: RAY_API_SERVER_ADDRESS or "
        "RAY_ADDRESS of the environment, else http://127.0.0.1:8265.",
    )
    resources: Annotated[dict[str, fields.Count], Empty] = Field(
        {},
        description=(
            "Custom resources of each step, by name; request all of a node's to use it exclusively. Default: 1 of "
            "the resource with the system's name."
        ),
    )
    labels: Annotated[dict[fields.LabelName, fields.Text], Empty] = Field(
        {}, description="Labels that its nodes must have, such as ray.io/accelerator-type: H200."
    )
    gpus: fields.CountOrNone = Field(
        None, description="GPUs per step; default: hardware.count if an accelerator is declared, else 0."
    )
    cpus: fields.CountOrNone = Field(None, description="Ray CPUs per step; default: 0.")
    store: fields.OptionalText = _STORE
    machines: fields.Count = _MACHINES
    retries: fields.CountOrNone = Field(
        None,
        description="Requeues of a step per pass after lost nodes, in addition to the cell's attempts; default: 3.",
    )


class ExecutorGroup(Group):
    """Executor of the system's commands: at most one of these; default: on this machine, or through the launcher."""

    slurm: Slurm = Field(Slurm(), description="As Slurm jobs, submitted from this machine.")
    ray: Ray = Field(Ray(), description="As Ray jobs, submitted through its dashboard.")

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
    restore: fields.Command = Field(None, description="Command that restores the previous state.")
    read: fields.Command = Field(None, description="Command that prints the state, one line per device.")
    expect: fields.OptionalText = Field(
        None, description="Output of `read` for every device while the state is set; checked before and after each run."
    )


class Meter(Group):
    """A power measurement with MLCommons' power kit: its client runs each performance run twice, first to find the
    ranges, then to measure. Adding or removing the meter makes performance runs stale; moving it does not."""

    director: fields.OptionalText = Field(
        None,
        description=(
            "Address of the kit's server on the analyzer's machine: host:port. Adding or removing it makes "
            "results stale; changing it does not."
        ),
    )
    ntp: fields.OptionalText = Field(None, description="Time server for both machines.")
    kit: fields.Location = Field(None, description="Folder of the kit (mlcommons/power-dev), its client and its check.")
    analyzer: fields.OptionalText = Field(
        None, description="Analyzers, by their names in reports; a change makes performance runs stale."
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
        description=(
            "MIG slices of the accelerators that the runs use, such as {profile: 1g.10gb, count: 7}, or a list of "
            "these; count is the total per node."
        ),
    )
