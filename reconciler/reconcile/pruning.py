"""Remove what no spec declares: find it, check for reasons against removal, and remove it."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from reconciler.diff.pruning import Prunable, list_prunable
from reconciler.observed.rendered import SHARED, read_rendered
from reconciler.publish.rendered_tree import forget_cells
from reconciler.reconcile.desired_cache import list_spec_paths
from reconciler.reconcile.planning import Options, PlanResult, compute_plan
from reconciler.record.index import locate_record
from reconciler.record.signing import list_signature_paths
from reconciler.record.store import find_object
from reconciler.resource.decisions import find_freeze
from reconciler.resource.kinds import Kind
from reconciler.resource.quantities import join_listing, show_count
from reconciler.spec.files import compute_blob_id
from reconciler.spec.loading import list_left_out
from reconciler.storage import git
from reconciler.storage.files import RECORDS, RepositoryPaths, remove


def find_prunable(paths: RepositoryPaths, options: Options, *, measured: bool) -> tuple[PlanResult, Prunable]:
    """Find what neither the specs declare nor those that a plain pass leaves out."""
    seen = compute_plan(paths, options)
    rendered = read_rendered(paths)
    cells = frozenset(rendered.cells) - {SHARED} if seen.observed.tree_present else frozenset()
    stored = frozenset(path.name for path in paths.objects.glob("*/*"))
    apart = [structs.replace(options, specs=(name,)) for name in list_left_out(list_spec_paths(paths, ()), paths.root)]
    declared = [seen.desired, *(compute_plan(paths, alone).desired for alone in apart)]
    return seen, list_prunable(declared, seen.recorded, seen.decisions, cells, stored, measured=measured)


def find_refusals(seen: PlanResult, found: Prunable, max_share: float) -> list[tuple[str, str]]:
    """Return (why, fix) for every reason against removal."""
    if not any(r.kind is Kind.RESULT for r in seen.desired.resources):
        return [("the spec declares no cell", "declare the cells to keep; an empty spec prunes nothing")]
    if frozen := find_freeze(None, seen.difference.frozen):
        return [(f"the whole submission is {frozen}", "reconcile unfreeze --all")]
    refused = []
    over = [(what, gone, of) for what, gone, of in found.list_shares() if gone > max_share * of]
    if over:
        counts = join_listing(f"{gone} of {show_count(of, what)}" for what, gone, of in over)
        share = _round_up(max(gone / of for _, gone, of in over))
        why = f"it would remove {counts}, more than the share of {max_share:g} that is allowed"
        refused.append((why, f"check that the spec is complete; then allow it: --max-share {share}"))
    if not found.empty and (uncommitted := _list_uncommitted(seen, found)):
        why = f"{join_listing(uncommitted, most=3)}: differs from the last commit, so it could not be restored"
        refused.append((why, "commit specs/ and state/ first"))
    return refused


def _round_up(share: float) -> str:
    return f"{min(1.0, int(share * 100 + 1) / 100):g}"


def _list_uncommitted(seen: PlanResult, found: Prunable) -> list[str]:
    """List specs and records that git could not restore."""
    root = seen.paths.root
    head = git.find_head(root)
    known = git.list_files_at(root, head, ["specs", RECORDS]) if head else {}
    specs = {path for path in known if path.startswith("specs/") and path.endswith((".yaml", ".yml"))}
    paths = [*sorted(specs | set(seen.spec)), *(f"{RECORDS}/{s.id}.json" for s in found.records)]
    return [path for path in paths if path not in known or not _is_unchanged(root / path, known[path][0])]


def _is_unchanged(path: Path, blob: str) -> bool:
    return path.is_file() and compute_blob_id(path.read_bytes()) == blob


def remove_prunable(seen: PlanResult, found: Prunable) -> None:
    """Remove files before the records that name them, so that the next call completes an interrupted removal."""
    for _, artifact in found.files:
        remove(find_object(seen.paths, artifact.sha256))
    for summary in found.records:
        for path in (*list_signature_paths(seen.paths, summary.id), locate_record(seen.paths, summary.id)):
            remove(path)
    if found.cells:
        forget_cells(seen.paths, seen.tree, found.cells)
