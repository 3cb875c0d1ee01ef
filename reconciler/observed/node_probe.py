"""Probe machines that this process cannot observe itself, and keep the results for later looks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from harness.contract import ProbeRequest
from reconciler.errors import ReconcilerError
from reconciler.observed.probed_nodes import (
    NodeFacts,
    name_nodes,
    needs_probe,
    read_probed_nodes,
    summarise_node,
    write_probed_nodes,
)
from reconciler.resource.settings import SystemSettings
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.launch.launcher import Launcher
from reconciler.storage.launch.nodes import probe_nodes


def probe_machines(
    paths: RepositoryPaths, systems: Mapping[str, SystemSettings], due: Collection[str], report: Callable[[str], None]
) -> bool:
    """Probe the machines; return True if any was reached. A failed probe is kept as such, and blocks."""
    reached = dict(read_probed_nodes(paths))
    found: dict[str, NodeFacts] = {}
    for system in sorted(due):
        settings = systems[system]
        if needs_probe(settings) and name_nodes(settings) not in found:
            if settings.launcher.words:
                report(f"probing {system} through {settings.launcher.words[0]}")
            found[name_nodes(settings)] = _probe(paths, system, settings.launcher)
    if found:
        write_probed_nodes(paths, {**reached, **found})
    return bool(found)


def _probe(paths: RepositoryPaths, system: str, launcher: Launcher) -> NodeFacts:
    try:
        nodes = probe_nodes(ProbeRequest(), launcher, paths.work, (paths.root.resolve(),))
    except ReconcilerError as error:
        said = "; ".join(line.strip() for line in error.message.splitlines() if line.strip())
        return NodeFacts(problem=f"{system} cannot be probed: {said}", fix=error.fix)
    return NodeFacts(tuple(map(summarise_node, nodes)))
