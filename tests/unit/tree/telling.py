"""All that a finding about a tree says, in one line that is the same for every run of LoadGen."""

from __future__ import annotations

import re
from pathlib import Path

from reconciler.mlperf.log_files import DETAIL
from reconciler.tree.findings import Place, TreeFinding

# Who may demand what a rule says, before a colon and the part of it.
SOURCES = frozenset(
    {
        *(
            "inference rules",
            "submission rules",
            "submission checker",
            "older submission checker",
            "compliance scripts",
        ),
        *("LoadGen", "mlperf.conf", "power checker", "power kit", "ours"),
    }
)


def tell(finding: TreeFinding, root: Path) -> str:
    said = finding.complaint
    about = [finding.severity, finding.rule.id, finding.submitter, finding.cell, _show(said.place, root)]
    parts = [f"{' '.join(filter(None, about))}: {said.found}", f"wanted {said.wanted}"]
    parts += [f"beside {_show(said.other, root)}"] if said.other else []
    named = {"because": said.cause, "to mend": said.fix, "mechanism": said.mechanism, "from": finding.origin}
    return "; ".join(parts + [f"{name}: {text}" for name, text in named.items() if text])


def _show(place: Place, root: Path) -> str:
    """A line of a detail log by its key: how many come before it is LoadGen's affair."""
    if not place.line or not place.file.endswith(DETAIL):
        return str(place)
    path = root / place.file
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    key = re.search(r'"key": "([^"]+)"', lines[place.line - 1]) if place.line <= len(lines) else None
    return f"{place.file}:{key[1] if key else place.line}"
