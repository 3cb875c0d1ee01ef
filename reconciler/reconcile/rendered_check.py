"""Check the rendered tree by the round's rules, with facts that only its repository has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from reconciler.check.engine import check_tree
from reconciler.diff.change import CONTRADICTED, Finding
from reconciler.loadgen.log_files import ACCURACY_LOG
from reconciler.reconcile.planning import PlanResult
from reconciler.record.store import find_artifact
from reconciler.resource.kinds import PERFORMANCE, Address, Cell, Kind
from reconciler.tree.findings import TreeReport


def find_contradicted(seen: PlanResult) -> tuple[Finding, ...]:
    """Return findings for cells left out of the rendered tree because their kept logs contradict themselves."""
    return tuple(finding for finding in seen.plan.findings if finding.kind == CONTRADICTED)


def check_rendered(seen: PlanResult) -> TreeReport:
    """Check the rendered tree, with the facts that only its repository has."""
    checked = check_tree(
        seen.tree, round_name=seen.desired.submission.round, original=find_stored_logs(seen), origin=trace_cells(seen)
    )
    return point_to_settings(checked, seen)


def find_stored_logs(seen: PlanResult) -> Callable[[str], Path | None] | None:
    """Return a lookup of untruncated accuracy logs, stored under their own digests. None if some are stored elsewhere,
    as in a clone, since a missing log then proves nothing."""

    def find(digest: str) -> Path | None:
        paths = (find_artifact(seen.paths, place, digest) for place in ("logs", "objects"))
        return next((path for path in paths if path.is_file()), None)

    used = set(seen.difference.recorded_as.values())
    summaries = (summary for group in seen.recorded.by_key.values() for summary in group if summary.id in used)
    whole = (
        artifact.sha256 for summary in summaries for artifact in summary.artifacts if artifact.name == ACCURACY_LOG
    )
    return find if all(find(digest) for digest in whole) else None


def trace_cells(seen: PlanResult) -> Callable[[str], str]:
    """Return a function that maps a cell of a tree, or a prefix of its name, to the spec line that declares that cell,
    benchmark or system."""
    found: dict[str, str] = {}
    for resource in seen.desired.resources:
        inputs = seen.desired.detail(resource.address).inputs
        lines = {item.name: str(item.origin) for item in inputs if item.origin.line}
        if resource.kind is Kind.SUBMISSION:
            named = [item for item in inputs if item.origin.line and item.name.startswith("systems.")]
            named.sort(key=lambda item: -item.origin.line)  # the first line of each
            systems = {item.name.split(".")[1]: str(item.origin) for item in named}
        elif resource.kind is Kind.RESULT and resource.cell is not None:
            for cell in _list_names(seen, resource.cell):
                found.setdefault(f"{cell.division}/{cell.system}/{cell.benchmark}", lines.get("benchmark.official", ""))
                found.setdefault(str(cell), lines.get("benchmark.official", ""))
        elif resource.kind is Kind.RUN and resource.cell is not None:
            found |= {str(cell): lines.get("scenario", "") for cell in _list_names(seen, resource.cell)}

    def find_origin(cell: str) -> str:
        division, _, rest = cell.partition("/")
        return found.get(cell, "") or (systems.get(rest, "") if division in ("closed", "open", "network") else "")

    return find_origin


def _list_names(seen: PlanResult, cell: Cell) -> tuple[Cell, ...]:
    """Return the cell's name in the spec and in its folder, which may use the round's name of the benchmark."""
    inputs = seen.desired.detail(Address(Kind.RESULT, str(cell))).inputs
    official = next((str(item.value) for item in inputs if item.name == "benchmark.official"), cell.benchmark)
    return cell, replace(cell, benchmark=official)


def point_to_settings(report: TreeReport, seen: PlanResult) -> TreeReport:
    """Move each finding caused by a setting to that setting's line in the spec."""
    lines: dict[tuple[str, str], str] = {}
    for resource in seen.desired.resources:
        if resource.address.mode == PERFORMANCE and resource.cell is not None:
            for item in seen.desired.detail(resource.address).inputs:
                if item.origin.line:
                    named = _list_names(seen, resource.cell)
                    lines |= {(str(cell), item.name): str(item.origin) for cell in named}
    found = [replace(f, origin=lines.get((f.cell, f.rule.setting), f.origin)) for f in report.findings]
    return replace(report, findings=tuple(found))
