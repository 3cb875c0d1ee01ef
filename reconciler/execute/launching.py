"""Puts the child of an attempt behind the launcher of its system."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.contract import BuildRequest, CommandRequest, LaunchRequest, Message, RunRequest, ServiceRequest
from reconciler.execute.attempt import Attempt
from reconciler.files import RepositoryPaths
from reconciler.launch.adapters import build_launch, choose_interpreter, find_outermost
from reconciler.process import build_elsewhere_environment, build_harness_command
from reconciler.resource.kinds import Kind

_MARGIN = 5.0  # seconds beyond those that a server may take to end, for its end to be told
# What belongs to the machine of a system. Data sets, models and scores are the same wherever they are made; a command
# that scores, or a server, comes with the image of the command that runs.
_OF_THE_MACHINE = (Kind.ENGINE, Kind.RUN, Kind.COMPLIANCE_TEST)


def launch_behind(attempt: Attempt, request: Message, places: RepositoryPaths) -> Message:
    """The request as it is, or one that starts its child behind the launcher of the attempt's system."""
    users = isinstance(request, CommandRequest | ServiceRequest)
    of_the_machine = attempt.intent.address.kind in _OF_THE_MACHINE or users
    launcher = attempt.intent.settings.launcher if of_the_machine else None
    if launcher is None:
        return request
    counter_there = attempt.counter.with_name("counter-there")
    inner: Any = dataclasses.replace(request, counter=str(counter_there))  # type: ignore[call-arg]
    if isinstance(inner, CommandRequest) and inner.lock:  # where each node, and a container, sees it
        inner = dataclasses.replace(inner, lock=str(places.work / "locks" / Path(inner.lock).name))
    inner.write(attempt.request)
    child = build_harness_command(
        inner.verb, attempt.request, attempt.answer, choose_interpreter(launcher, sys.executable)
    )
    seen = find_outermost([places.root, places.work, *_locations(request)])
    name = f"reconcile-{attempt.intent.id}"
    started = build_launch(launcher, child, build_elsewhere_environment(), name, seen)
    return LaunchRequest(
        command=started.command,
        answer=str(attempt.answer),
        counter=str(attempt.counter),
        counter_there=str(counter_there),
        cwd=str(places.root),
        ending=started.ending,
        secrets=dict(request.secrets) if isinstance(request, CommandRequest | ServiceRequest) else {},
        stop_grace=request.stop_grace + _MARGIN if isinstance(request, ServiceRequest) else 0.0,
    )


def _locations(request: Message) -> Iterator[Path]:
    """What a request names outside the repository."""
    if isinstance(request, BuildRequest | RunRequest) and request.benchmark.path:
        yield Path(request.benchmark.path)
    if isinstance(request, BuildRequest) and request.source:
        yield Path(request.source)
    if isinstance(request, CommandRequest | ServiceRequest):
        own = (request.logs, request.user_conf_at) if isinstance(request, CommandRequest) else ()
        yield from (Path(name) for name in (request.cwd, request.code, *own) if name)
