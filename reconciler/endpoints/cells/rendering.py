"""The results of the endpoints harness in a scenario folder, as they are rendered."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.loadgen.log_files import CONFIG
from reconciler.rules.ruleset import Ruleset
from reconciler.tree.content import CellContent, Rendered
from reconciler.tree.layout import Layout, MakePath

DESCRIBED = """\
- performance run: `performance/`, with the configuration in `config.yaml`, which is that of this very run
- accuracy run: `accuracy/`, scored by the endpoints harness"""


def render_runs(content: CellContent, _: Ruleset, layout: Layout, at: MakePath) -> Iterator[Rendered]:
    """Byte for byte: the checker reads them beside the measurements."""
    assert content.configuration is not None
    yield at(layout.cell_file, file=CONFIG), content.configuration
    for folder, files in (("performance", content.performance), ("accuracy", content.accuracy)):
        for name, file in files.items():
            yield at(layout.cell_file, file=f"{folder}/{name}"), file
    for folder, files in content.compliance.items():
        for name, file in files.items():
            yield at(layout.cell_file, file=f"{folder}/{name}"), file
