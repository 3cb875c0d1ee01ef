"""Results in git: `diff`, `compare`, `history` and `blame`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from reconciler.cli.shared.options import cell_argument, complete_refs, json_option, reporting_options, takes
from reconciler.cli.shared.output import choose_paint, say, say_commands, say_json, say_report
from reconciler.cli.shared.plan_options import list_declared_cells
from reconciler.cli.shared.repository import find_repository
from reconciler.diff.timeline import Side
from reconciler.errors import ERROR, IN_SYNC, NOT_IN_SYNC, ReconcilerError, RepositoryError
from reconciler.history.compare import compare, compare_commits, read_own_sides, read_tree_sides
from reconciler.history.pull_request import assess_merge
from reconciler.history.record_history import RecordHistory, read_record_history
from reconciler.history.snapshot import Shared, read_snapshot
from reconciler.plan.select import find_cell, find_measured_cell
from reconciler.render import pull_request as views
from reconciler.render.documents import convert_plain_value, make_metric_document, render_document
from reconciler.render.timeline import (
    render_blame_text,
    render_changes_text,
    render_comparison_text,
    render_history_text,
    report_comparison,
)
from reconciler.resource.kinds import Cell
from reconciler.resource.quantities import show_count
from reconciler.storage import git
from reconciler.storage.collector import pause_collector
from reconciler.storage.files import RECORDS, RepositoryPaths
from reconciler.storage.leftovers import write_output
from reconciler.tune.records import list_trials
from reconciler.tune.report import render_trial_part, render_trials_text

# `reconcile pr`: the effects of merging one commit into another.

_BASE = click.Option(
    ["--base"],
    metavar="REF",
    shell_complete=complete_refs,
    help="The branch or commit to merge into. Default: the remote's main branch, else main or master.",
)
_HEAD = click.Option(
    ["--head"], default="HEAD", metavar="REF", shell_complete=complete_refs, help="The commit to merge. Default: HEAD."
)
_MARKDOWN = click.Option(
    ["--markdown"],
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a comment as Markdown; - prints only the comment.",
)
_ANNOTATE = click.Option(
    ["--annotate/--no-annotate"], default=None, help="Print GitHub annotations. Default: inside a GitHub workflow."
)
_FAIL_ON = click.Option(
    ["--fail-on"],
    type=click.Choice(["errors", "work"]),
    default="work",
    show_default=True,
    help="Exit with 2 if merging adds work, or only with 1 on errors.",
)


@click.command("pr")
@takes([_BASE, _HEAD, _MARKDOWN, _ANNOTATE, _FAIL_ON, *reporting_options()])
def pr_command(
    base: str | None,
    head: str,
    markdown: Path | None,
    annotate: bool | None,
    fail_on: str,
    as_json: bool,
    show_all: bool,
) -> int:
    """Compare two commits: cells added, removed, made stale or unaffected, what merging makes due, and what is wrong.

    Needs no GPU, no backend library and no artifact. A commit that only adds records makes nothing due. Under an
    embargo that does not allow the repository's address, nothing measured is published.
    """
    paths = find_repository(())
    base = base or git.find_main_branch(paths.root)
    if base is None:
        raise click.UsageError("name the branch to merge into: --base REF")
    with pause_collector():
        compared = assess_merge(paths, base, head)
    # A workflow's output is shown on its page, too.
    found = compared.outside if os.environ.get("CI") else compared.impact
    if markdown not in (None, Path("-")):
        write_output(markdown.absolute(), views.render_markdown(compared.outside).encode())
    if markdown == Path("-"):
        say(views.render_markdown(compared.outside).removesuffix("\n"), is_folded=False)
    elif as_json:
        say_json(views.render_impact(found))
    else:
        say(views.render_text(found, paint=choose_paint(), limit=None if show_all else views.LIMIT))
    if annotate if annotate is not None else os.environ.get("GITHUB_ACTIONS") == "true" and not as_json:
        say_commands(views.render_annotation_lines(compared.outside, git.find_prefix(paths.root)))
    if found.errors:
        return ERROR
    return NOT_IN_SYNC if found.adds_work and fail_on == "work" else IN_SYNC


def read_past(paths: RepositoryPaths) -> RecordHistory:
    """Read the history of HEAD; it is empty before the first commit."""
    try:
        tip = git.resolve(paths.root, "HEAD")
    except RepositoryError:
        return RecordHistory(paths.root, "", {}, {}, frozenset(), {})
    return read_record_history(paths.root, tip)


@click.command("diff")
@takes(
    [
        click.Argument(["commits"], metavar="A[..B]", shell_complete=complete_refs),
        click.Argument(["other"], metavar="[B]", required=False, shell_complete=complete_refs),
        json_option(),
    ]
)
def diff_command(commits: str, other: str | None, as_json: bool) -> int:
    """Show what differs between two commits, written A..B or A B: the inputs of every cell, and its result. B is HEAD
    when left out.

    Exits with 0 when nothing differs, else with 2.
    """
    root = find_repository().root
    if "..." in commits:
        raise ReconcilerError(f"{commits!r} does not name two commits", fix=f"write {commits.replace('...', '..')}")
    first, dots, second = commits.partition("..")
    if other is not None and dots:
        raise ReconcilerError(f"{commits} names two commits already, and {other!r} a third", fix="write A..B, or A B")
    second = other or second
    names = git.resolve(root, first or "HEAD"), git.resolve(root, second or "HEAD")
    shared = Shared()
    found = compare_commits(read_snapshot(root, names[0], shared=shared), read_snapshot(root, names[1], shared=shared))
    if as_json:
        results = [{side: make_metric_document(getattr(item, side)) for side in ("before", "after")} for item in found]
        cells = [{**convert_plain_value(item), **result} for item, result in zip(found, results, strict=True)]
        say_json(render_document("diff", before=names[0], after=names[1], cells=cells))
    else:
        say(render_changes_text(names, found, choose_paint()))
    return IN_SYNC if all(item.same for item in found) else NOT_IN_SYNC


_ONE = click.Argument(["one"], metavar="A", shell_complete=complete_refs)
_OTHER = click.Argument(["other"], metavar="B", required=False, shell_complete=complete_refs)


@click.command("compare")
@takes([_ONE, _OTHER, json_option()])
def compare_command(one: str, other: str | None, as_json: bool) -> int:
    """Compare the results of A and B. Each is a submission tree, a system of this repository, or a commit.

    Results are matched by benchmark and scenario, and if several systems fit, by division, accelerator and count. A
    ratio above 1 means that B is larger. The headroom is that of the latency bound. For curves of MLPerf Endpoints it
    lists the points that the other beats on both axes.
    """
    if other is None:
        one, dots, other = one.partition("..")
        if not dots or not one or not other:
            raise click.UsageError("name two: reconcile compare A B, or A..B of two commits")
    found = compare((one, other), _read_sides(one), _read_sides(other))
    say_report(report_comparison(found), render_comparison_text(found, choose_paint()), as_json=as_json)
    return IN_SYNC


def _read_sides(name: str) -> dict[Cell, Side]:
    """Read the cells of one side: a folder is a submission tree, any other word belongs to this repository."""
    return read_tree_sides(Path(name)) if Path(name).is_dir() else read_own_sides(find_repository().root, name)


_TRIALS = click.Option(["--trials"], is_flag=True, help="List the trials of `try` and `tune` on this machine instead.")


@click.command("history")
@takes([cell_argument(), _TRIALS, json_option()])
def history_command(cell: str, trials: bool, as_json: bool) -> int:
    """List every committed result of CELL with its commit, value and validity, and plot the performance.

    Results that were removed since are listed, too. `plot CELL --of history` writes the plot to a file.
    """
    paths = find_repository()
    if trials:
        found = find_cell(cell, list_declared_cells(paths))
        runs = list_trials(paths, found)
        document = render_document("history", cell=found, trials=[render_trial_part(run) for run in runs])
        say_report(document, render_trials_text(str(found), runs, choose_paint()), as_json=as_json)
        return IN_SYNC
    past = read_past(paths)
    found = find_measured_cell(cell, past.cells, lambda: list_declared_cells(paths))
    results = past.list_measured(found)
    if as_json:
        say_json(render_document("history", cell=found, results=results))
    else:
        say(render_history_text(found, results, choose_paint()))
        _say_gaps(paths)
    return IN_SYNC


def _say_gaps(paths: RepositoryPaths) -> None:
    if count := count_uncommitted(paths):
        say(f"{describe_uncommitted(count)}, and not shown: git add state && git commit")
    if git.is_shallow(paths.root):
        say("this clone is shallow, so the commits of earlier results and edits are unknown: git fetch --unshallow")


def count_uncommitted(paths: RepositoryPaths) -> int:
    return git.count_new_files(paths.root, [RECORDS])


def describe_uncommitted(count: int) -> str:
    return f"{show_count(count, 'record')} in state/ not committed yet"


@click.command("blame")
@takes([cell_argument(), json_option()])
def blame_command(cell: str, as_json: bool) -> int:
    """Show which inputs changed from each committed result of CELL to the next, by which commit, and with what effect.

    Includes the inputs of engine, model and dataset, and any evidence that differs (driver, code, machine).
    """
    paths = find_repository()
    past = read_past(paths)
    found = find_measured_cell(cell, past.cells, lambda: list_declared_cells(paths))
    steps = past.list_steps(found)
    if as_json:
        parts = [{**convert_plain_value(step), "change": step.change} for step in steps]
        say_json(render_document("blame", cell=found, steps=parts))
    else:
        say(render_blame_text(found, steps, choose_paint()))
        _say_gaps(paths)
    return IN_SYNC
