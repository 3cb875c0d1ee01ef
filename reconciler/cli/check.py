"""`reconcile check [PATH]`: apply the submission rules to the rendered tree or any other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from reconciler.check.engine import check_tree
from reconciler.check.official import run_official
from reconciler.cli.shared.options import ExistingPath, json_option, spec_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.tree_options import (
    all_option,
    open_archive,
    originals_option,
    round_option,
    show_progress,
    sort_option,
)
from reconciler.diff.change import Finding
from reconciler.errors import IN_SYNC, NOT_IN_SYNC, ReconcilerError
from reconciler.reconcile.planning import PlanResult, compute_plan
from reconciler.reconcile.rendered_check import find_contradicted, find_stored_logs, point_to_settings, trace_cells
from reconciler.render.documents import render_document
from reconciler.render.findings import LIMIT, render_findings_part, render_findings_text
from reconciler.rules.programs import PublishedLists, find_program_of_tree
from reconciler.storage.files import replace
from reconciler.tree.findings import TreeReport
from reconciler.tree.layout import CHECKER_LOG
from reconciler.tree.reading.places import find_roots

_OUTPUT = "official-checks"
_PATH = click.Argument(["path"], required=False, type=ExistingPath(path_type=Path))
_OFFICIAL = click.Option(
    ["--official"],
    type=ExistingPath(file_okay=False, path_type=Path),
    metavar="FOLDER",
    is_flag=False,
    flag_value=".",
    help="Also run the official checkers of FOLDER, a checkout of the inference repository; for MLPerf "
    "Endpoints the one installed here, or in FOLDER, a virtual environment.",
)
_OUTPUT_OPTION = click.Option(
    ["--output"],
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help=f"Where the official checkers' output goes. Default: .reconcile/{_OUTPUT}, or ./{_OUTPUT} with a PATH.",
)
_CARRY = click.Option(
    ["--carry-log"],
    is_flag=True,
    help=f"Also publish the newest checker's output as results/{CHECKER_LOG}: written to documents.checker_log "
    "of the spec, or into the tree at PATH.",
)
_LISTS = tuple(
    click.Option(
        [f"--{name}"],
        type=ExistingPath(dir_okay=False, path_type=Path),
        metavar="FILE",
        envvar=f"MLPERF_ENDPOINTS_{name.upper().replace('-', '_')}",
        help=f"With MLPerf Endpoints: the {what} that MLCommons published, instead of the list of this release.",
    )
    for name, what in {"seed-sets": "seed sets", "approved-drafters": "approved drafters"}.items()
)


@click.command("check")
@takes(
    [
        *(_PATH, spec_option(), round_option(), originals_option(), _OFFICIAL, _OUTPUT_OPTION, _CARRY, *_LISTS),
        *(sort_option(), json_option(), all_option()),
    ]
)
def command(
    path: Path | None,
    specs: tuple[str, ...],
    round_name: str,
    originals: Path | None,
    official: Path | None,
    output: Path | None,
    carry_log: bool,
    seed_sets: Path | None,
    approved_drafters: Path | None,
    by: str,
    as_json: bool,
    show_all: bool,
) -> int:
    """Check the rendered tree, or the tree at PATH, against the submission rules.

    Applies all checks of both official checkers, and stricter ones where those miss errors. The submission may be one
    of MLPerf Endpoints.
    """
    original, lists = open_archive(originals), PublishedLists(seed_sets, approved_drafters)
    origin: Callable[[str], str] | None = None
    seen: PlanResult | None = None
    withheld: tuple[Finding, ...] = ()
    carried: Path | None = None
    if path is None:
        seen = _compute_rendered_plan(specs)
        carried = _find_log(seen) if carry_log else None
        withheld = find_contradicted(seen)
        path, round_name = seen.tree, round_name or seen.desired.submission.round
        original, origin = original or find_stored_logs(seen), trace_cells(seen)
        output = output or seen.paths.work / _OUTPUT
    with show_progress(quiet=as_json) as report:
        tree_report = check_tree(
            path, round_name=round_name, original=original, origin=origin, progress=report, lists=lists
        )
    tree_report = point_to_settings(tree_report, seen) if seen is not None else tree_report
    if official is not None and (program := find_program_of_tree(path)) is not None:
        tree_report = program.run_official_checker(tree_report, path, official, output or Path(_OUTPUT), lists)
    elif official is not None:
        tree_report = _run_official(tree_report, path, official, output or Path(_OUTPUT))
        if carry_log:
            _carry_log(tree_report, path, carried)
    if as_json:
        say_json(render_document("check", **render_findings_part(tree_report, by), withheld=withheld))
    else:
        for finding in withheld:
            say(f"not in the tree: {finding.where}: {finding.kind}: {finding.message}")
        say(render_findings_text(tree_report, by=by, limit=None if show_all else LIMIT, paint=choose_paint()))
        if seen is not None and not seen.plan.in_sync:
            say("The tree is not in sync with the spec and the records: `reconcile plan` lists the differences.")
    return IN_SYNC if tree_report.clean and not withheld else NOT_IN_SYNC


def _compute_rendered_plan(specs: tuple[str, ...]) -> PlanResult:
    seen = compute_plan(*find_asked_cells(specs))
    if not seen.tree.is_dir():
        fix = next((f"{f.where}: {f.message}; {f.fix}" for f in find_contradicted(seen)), "`reconcile` renders it")
        raise ReconcilerError(f"there is no rendered tree at {seen.tree}", fix=f"{fix}, or name another tree")
    return seen


def _find_log(seen: PlanResult) -> Path:
    """Return the repository's path for the checker output that its tree includes."""
    if not (location := seen.desired.submission.checker_log):
        raise ReconcilerError(
            "the spec does not declare the checker's log",
            fix=f"declare it: documents: {{checker_log: documents/{CHECKER_LOG}}}",
        )
    return seen.paths.root / location


def _run_official(tree_report: TreeReport, path: Path, checkout: Path, output: Path) -> TreeReport:
    roots = find_roots(path)
    if len(roots) != 1:
        raise ReconcilerError(f"{path} contains {len(roots)} trees", fix="the official checkers take one: name it")
    from reconciler.storage.git import find_head

    return run_official(tree_report, roots[0].path, checkout, find_head(checkout) or "", output)


def _carry_log(checked: TreeReport, path: Path, own: Path | None) -> None:
    """``own``: paths of the repository that rendered the tree; None for another submitter's tree."""
    (root,) = find_roots(path)
    text = Path(checked.official[0].output).read_text(encoding="utf-8", errors="replace")
    data = text.replace(f"{root.path.resolve()}/", "").encode()  # independent of the machine
    folders = [place.path / "results" for place in root.submitters]
    for target in [own] if own else [folder / CHECKER_LOG for folder in folders if folder.is_dir()]:
        replace(target, data)
