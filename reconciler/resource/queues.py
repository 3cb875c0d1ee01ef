"""Queues that give a system's machines out: which there are, how settings choose one, and what submitting takes."""

from __future__ import annotations

from collections.abc import Container, Mapping

from msgspec import Struct

EXECUTOR = "executor"  # of a system: the queue's name, and its settings below that


class QueueFacts(Struct, frozen=True):
    """``name``: below ``executor`` in a spec, of the executor that submits to it, and of the extra that brings its
    ``library``. ``title``: as people call it. ``queue``: module and class of its ``JobQueue``, as entry points name
    objects. ``program`` and ``library``: what a machine that submits must have, "" where it needs none."""

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
    """The queue that the settings of a system ask for, by flat name; "" for none."""
    return next(iter(find_queues(settings)), "")


def find_queues(settings: Container[str]) -> list[str]:
    """All that they ask for, of which a system can have one."""
    return [name for switch, name in _SWITCHES if switch in settings]
