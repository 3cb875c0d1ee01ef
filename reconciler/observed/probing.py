"""Looks at the machines that only a probe can tell of, and keeps what it saw for every look after that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from harness.contract import ProbeRequest
from reconciler.errors import ReconcilerError
from reconciler.files import Places
from reconciler.launch.known import Launcher, launcher_of
from reconciler.launch.nodes import probe_nodes
from reconciler.observed.reached import Seen, asks_probe, brief, name_of, read_reached, write_reached


def look_at(places: Places, systems: Mapping[str, Any], due: Collection[str], tell: Callable[[str], None]) -> bool:
    """Whether any machine of these systems was looked at. What cannot be reached is kept as such, and blocks."""
    reached = dict(read_reached(places))
    found: dict[str, Seen] = {}
    for system in sorted(due):
        settings = systems[system]["settings"]
        if asks_probe(settings) and name_of(settings) not in found:
            launcher = launcher_of(settings)
            if launcher is not None:
                tell(f"looking at {system} through {launcher.words[0]}")
            found[name_of(settings)] = _seen(places, system, launcher or Launcher())
    if found:
        write_reached(places, {**reached, **found})
    return bool(found)


def _seen(places: Places, system: str, launcher: Launcher) -> Seen:
    try:
        nodes = probe_nodes(ProbeRequest(), launcher, places.work, (places.root.resolve(),))
    except ReconcilerError as error:
        said = "; ".join(line.strip() for line in error.message.splitlines() if line.strip())
        return Seen(problem=f"{system} cannot be looked at: {said}", fix=error.fix)
    return Seen(tuple(map(brief, nodes)))
