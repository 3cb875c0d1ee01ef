"""Inside, values have types: mappings from text to anything stand where documents are read and written."""

from __future__ import annotations

from tests.architecture.source import modules

UNTYPED = "Mapping[str, Any]"
MOST = 20  # lines outside the edges

# Modules whose business is a YAML or JSON document: they parse one, write one, or carry one as it came.
EDGES = (
    "reconciler.resource.codec",
    "reconciler.desired.cache_file",
    "reconciler.endpoints",
    "reconciler.execute.attempt",
    "reconciler.importing.adopted_spec",
    "reconciler.storage.launch.nodes",
    "reconciler.rules.benchmark_facts",
    "reconciler.rules.benchmark_files",
    "reconciler.storage.documents",
    "reconciler.rules",
    "reconciler.observed.probed_nodes",
    "reconciler.plan.saved",
    "reconciler.publish.archive",
    "reconciler.publish.unpacking",
    "reconciler.record.codec",
    "reconciler.record.decisions",
    "reconciler.record.index",
    "reconciler.render.documents",
    "reconciler.page",
    "reconciler.spec",
    "reconciler.tree.documents",
)


def test_what_is_read_at_the_edges_has_types_inside() -> None:
    lines = [
        f"{module.file}:{number}"
        for module in modules().values()
        if module.name.startswith("reconciler.") and not _is_edge(module.name)
        for number, line in enumerate(module.text.splitlines(), start=1)
        if UNTYPED in line
    ]
    assert len(lines) <= MOST, "\n".join(["give these a type, or read them at an edge:", *lines])


def test_every_edge_is_a_module_or_folder() -> None:
    known = modules()
    assert [edge for edge in EDGES if edge not in known] == []


def _is_edge(name: str) -> bool:
    return any(name == edge or name.startswith(f"{edge}.") for edge in EDGES)
