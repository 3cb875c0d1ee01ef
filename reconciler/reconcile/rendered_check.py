"""The round's rules over the rendered tree, with the facts that only its own repository has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reconciler.check.engine import check_tree
from reconciler.diff.change import CONTRADICTED, Finding
from reconciler.loadgen.log_files import ACCURACY_LOG
from reconciler.reconcile.planning import PlanResult
from reconciler.record.store import find_artifact
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import Kind
from reconciler.tree.findings import TreeReport


def find_contradicted(seen: PlanResult) -> tuple[Finding, ...]:
    """Why cells are left out of the rendered tree whose kept logs contradict themselves."""
    return tuple(finding for finding in seen.plan.findings if finding.kind == CONTRADICTED)


def check_rendered(seen: PlanResult) -> TreeReport:
    """The rendered tree, with what only its own repository knows of it."""
    return check_tree(seen.tree, round_name=read_round(seen), original=find_stored_logs(seen), origin=trace_cells(seen))


def read_round(seen: PlanResult) -> str:
    return seen.desired.submission.round


def find_stored_logs(seen: PlanResult) -> Callable[[str], Path | None] | None:
    """Untruncated accuracy logs are in storage under their own digest. None where some are elsewhere, as in a
    clone: then a log that is not found here proves nothing."""

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
    """Cell, or the beginning of one → the spec line that declares it."""
    found: dict[str, Origin] = {}
    for resource in seen.desired.resources:
        if resource.kind is Kind.RESULT:
            inputs = seen.desired.detail(resource.address).inputs
            line = next((item.origin for item in inputs if item.origin.line), None)
            if line is not None:
                found[str(resource.cell)] = line

    def origin(cell: str) -> str:
        exact = found.get(cell) or next((line for name, line in found.items() if name.startswith(f"{cell}/")), None)
        return str(exact) if exact else ""

    return origin
