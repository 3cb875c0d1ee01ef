"""Job queues that allocate a system's machines: their names, how settings select one, and what submitting requires."""

from __future__ import annotations

from collections.abc import Container, Mapping

from msgspec import Struct

EXECUTOR = "executor"  # setting of a system: the queue's name, with its settings below it


class QueueFacts(Struct, frozen=True):
    """``name``: the name below ``executor`` in a spec, of the executor that submits jobs, and of the extra that
    installs its ``library``. ``title``: its common name. ``queue``: module and class of its ``JobQueue``, as in entry
    points. ``program`` and ``library``: required on a machine that submits jobs, "" for none."""

    name: str
    title: str
    queue: str
    program: str = ""
    library: str = ""


# To remove a queue, delete its package and its entry.
QUEUES: Mapping[str, QueueFacts] = {
    "slurm": QueueFacts("slurm", "Slurm", "reconciler.execute.executors.slurm.queue:SlurmQueue", "sbatch", "submitit"),
    "ray": QueueFacts("ray", "Ray", "reconciler.execute.executors.ray.queue:RayQueue"),
}
_SWITCHES = tuple((f"{EXECUTOR}.{name}", name) for name in QUEUES)


def find_queue(settings: Container[str]) -> str:
    """Return the queue that a system's settings select; "" for none."""
    return next(iter(find_queues(settings)), "")


def find_queues(settings: Container[str]) -> list[str]:
    """Return all queues that a system's settings select; more than one is an error."""
    return [name for switch, name in _SWITCHES if switch in settings]
