"""The status of queues: the steps that passes have submitted to them, and their progress."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from harness.contract import read_progress
from reconciler.execute.attempt import read, read_placement
from reconciler.execute.executors.executor import JOB_COUNTER, State, open_transport, read_handle
from reconciler.execute.executors.table import Executors
from reconciler.execute.outcome import QueuedStep
from reconciler.resource.queues import QUEUES
from reconciler.storage.files import RepositoryPaths


def watch_jobs(paths: RepositoryPaths) -> Callable[[], tuple[QueuedStep, ...]]:
    """Return a function that lists the jobs, whether a pass follows them or not. If it is called repeatedly, its
    executors remember the last answer of a queue or store, and query as rarely as those of a pass. It takes no results
    from a transport where a pass waits for them."""
    open_executors = cache(lambda: Executors.make(paths, open_transport(paths, only_looks=True)))
    return lambda: list_under_way(paths, open_executors)


def list_under_way(paths: RepositoryPaths, open_executors: Callable[[], Executors]) -> tuple[QueuedStep, ...]:
    """List the steps, oldest first. ``open_executors`` is called only if something was submitted to a queue."""
    found: list[QueuedStep] = []
    executors: Executors | None = None
    for folder in sorted(paths.attempts.glob("*")):
        handle = read_handle(folder)
        attempt = read(folder) if handle is not None and handle.executor in QUEUES else None
        if handle is None or attempt is None:
            continue
        executors = executors or open_executors()
        polled = executors.by_name[handle.executor].poll(handle)
        if not polled.goes_on:
            continue
        progress = read_progress(folder / JOB_COUNTER) if polled.state is State.RUNNING else None
        found.append(
            QueuedStep(
                attempt.intent.address,
                polled.state,
                polled.note,
                read_placement(attempt.placed).nodes,
                progress.done if progress else 0,
                progress.expected if progress else 0,
            )
        )
    return tuple(found)


def find_submitted(paths: RepositoryPaths) -> tuple[Path, ...]:
    """List the folders of attempts submitted to a queue, whatever their state: the next pass queries the queue and
    removes the lost ones."""
    handles = {folder: read_handle(folder) for folder in paths.attempts.glob("*")}
    return tuple(folder for folder, handle in handles.items() if handle is not None and handle.executor in QUEUES)
