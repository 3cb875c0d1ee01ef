"""Spec fields of a system: its hardware, its job queue, and its power meter."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import ValidationInfo, field_validator

from reconciler.resource.queues import QUEUES
from reconciler.spec import fields
from reconciler.spec.groups import Empty, Group, Options, describe, read_by

# Fields of every queue.
_STORE = describe(
    "Declared store that transfers attempts to and from nodes without access to the repository's folder. "
    "Default: nodes share that folder."
)
_MACHINES = describe("Maximum jobs of this system queued or running at once; default: 64.")


class Slurm(Group):
    """Run each step that needs the system's machine as a separate job. These settings make no result stale."""

    NAMED: ClassVar[bool] = True

    partition: fields.OptionalText = describe("Partition of its jobs; default: Slurm's own.")
    account: fields.OptionalText = describe("Account to charge; default: Slurm's own.")
    qos: fields.OptionalText = describe("Quality of service of its jobs.")
    constraint: fields.OptionalText = describe("Features that its nodes must have, such as h200.")
    nodes: fields.Count = describe("Nodes of each job; default: hardware.nodes, else 1.")
    exclusive: fields.Flag = describe("false: untimed steps may share nodes; timed runs never do. Default: true.")
    time: fields.Milliseconds = describe("Time limit of each job, such as 6 h; default: Slurm's own.")
    store: fields.OptionalText = _STORE
    machines: fields.Count = _MACHINES
    retries: fields.CountOrNone = describe(
        "Requeues of a step per pass after node failures or preemption, in addition to the cell's attempts; default: 3."
    )
    take_over: fields.Milliseconds = describe(
        "How long a job may also run other waiting steps of the system, so that short runs share a job; 0 to "
        "disable. Default: 10 min."
    )
    options: Options = describe("More sbatch options by long name, such as gres: gpu:8.", {})


class Ray(Group):
    """Run each step that needs the system's machine as a separate job, which occupies the resources below on one node
    while it runs. These settings make no result stale."""

    NAMED: ClassVar[bool] = True

    address: fields.OptionalText = describe(
        "Address of its dashboard, such as http://head:8265; default: RAY_API_SERVER_ADDRESS or "
        "RAY_ADDRESS of the environment, else http://127.0.0.1:8265."
    )
    resources: Annotated[dict[str, fields.Count], Empty] = describe(
        "Custom resources of each step, by name; request all of a node's to use it exclusively. Default: 1 of "
        "the resource with the system's name.",
        {},
    )
    labels: Annotated[dict[fields.LabelName, fields.Text], Empty] = describe(
        "Labels that its nodes must have, such as ray.io/accelerator-type: H200.", {}
    )
    gpus: fields.CountOrNone = describe("GPUs per step; default: hardware.count if an accelerator is declared, else 0.")
    cpus: fields.CountOrNone = describe("Ray CPUs per step; default: 0.")
    store: fields.OptionalText = _STORE
    machines: fields.Count = _MACHINES
    retries: fields.CountOrNone = describe(
        "Requeues of a step per pass after lost nodes, in addition to the cell's attempts; default: 3."
    )


class ExecutorGroup(Group):
    """Executor of the system's commands: at most one of these; default: on this machine, or through the launcher."""

    slurm: Slurm = describe("As Slurm jobs, submitted from this machine.", Slurm())
    ray: Ray = describe("As Ray jobs, submitted through its dashboard.", Ray())

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

    set: fields.Command = describe("Command that sets it, such as [sudo, nvidia-smi, -pl, 400].")
    restore: fields.Command = describe("Command that restores the previous state.")
    read: fields.Command = describe("Command that prints the state, one line per device.")
    expect: fields.OptionalText = describe(
        "Output of `read` for every device while the state is set; checked before and after each run."
    )


class Meter(Group):
    """A power measurement with MLCommons' power kit: its client runs each performance run twice, first to find the
    ranges, then to measure. Adding or removing the meter makes performance runs stale; moving it does not."""

    director: fields.OptionalText = describe(
        "Address of the kit's server on the analyzer's machine: host:port. Adding or removing it makes "
        "results stale; changing it does not."
    )
    ntp: fields.OptionalText = describe("Time server for both machines.")
    kit: fields.Location = describe("Folder of the kit (mlcommons/power-dev), its client and its check.")
    analyzer: fields.OptionalText = describe(
        "Analyzers, by their names in reports; a change makes performance runs stale."
    )


class HardwareGroup(Group):
    """Hardware that the system's cells need. On another machine they are Blocked, not stale."""

    accelerator: fields.Accelerator = describe(
        "Accelerator model as its driver reports it, such as NVIDIA H200; none for a CPU system."
    )
    count: fields.CountOrNone = describe("Accelerators per node, such as 8; 0 for a CPU system.")
    cpu: fields.OptionalText = describe("CPU model, such as AMD EPYC 9654.")
    nodes: fields.Count = describe("Number of nodes.")
    power_limit: fields.Power = describe("Power limit of one accelerator with its unit, such as 300 W.")
    mig: Annotated[fields.Slices, read_by("mig")] = describe(
        "MIG slices of the accelerators that the runs use, such as {profile: 1g.10gb, count: 7}, or a list of "
        "these; count is the total per node."
    )
