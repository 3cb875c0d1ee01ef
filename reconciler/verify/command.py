"""The commands `verify-tree` and `objections`: find contradictions in a submission tree, and draft objections to
them."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec.structs import replace

from reconciler.check.demands import OURS
from reconciler.check.engine import check_tree
from reconciler.cli.shared.options import ExistingPath, json_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.cli.shared.tree_options import (
    all_option,
    open_archive,
    originals_option,
    round_option,
    show_progress,
    sort_option,
)
from reconciler.errors import IN_SYNC, NOT_IN_SYNC, ReconcilerError
from reconciler.render.documents import render_document
from reconciler.render.findings import (
    render_findings_csv,
    render_findings_part,
    render_objections,
    render_verified_text,
)
from reconciler.resource.quantities import show_count
from reconciler.resource.rules import Severity
from reconciler.storage.json_files import read_json
from reconciler.storage.leftovers import write_output
from reconciler.storage.untrusted_files import LARGEST
from reconciler.tree.findings import TreeFinding, TreeReport
from reconciler.verify.engine import verify_tree

# A baseline is an earlier report of verify-tree. Findings in it are not shown again.

# Fields that identify a finding in another report. Lines are left out, because they can move.
_FIELDS = ("rule", "submitter", "cell", "file", "found", "wanted")
Known = frozenset[tuple[str, ...]]


def read_baseline(file: Path) -> Known:
    """Read the findings in an output of `verify-tree --json`. Raises ReconcilerError for any other file."""
    try:
        document = read_json(file, LARGEST)
        return frozenset(tuple(str(part[name]) for name in _FIELDS) for part in document["findings"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"{file} is not a verify-tree report: {error}"
        raise ReconcilerError(problem, fix="create one with: reconcile verify-tree PATH --json > FILE") from error


def leave_out_known(report: TreeReport, known: Known) -> TreeReport:
    complaints = ((item, item.complaint) for item in report.findings)
    named = ((f, (f.rule.id, f.submitter, f.cell, c.place.file, c.found, c.wanted)) for f, c in complaints)
    return replace(report, findings=tuple(finding for finding, name in named if name not in known))


_PATH = click.Argument(["path"], type=ExistingPath(path_type=Path))
_CSV = click.Option(
    ["--csv", "csv_file"], type=click.Path(path_type=Path), metavar="FILE", help="Also write the findings as CSV."
)
_OBJECTIONS = click.Option(
    ["--objections"],
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also write Markdown for the review, one file per submitter.",
)
_BASELINE = click.Option(
    ["--baseline"],
    type=ExistingPath(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Show only findings that FILE, an earlier --json report, does not contain.",
)
_HTML = click.Option(
    ["--html", "html_file"], type=click.Path(path_type=Path), metavar="FILE", help="Also write a page with plots."
)


@click.command("verify-tree")
@takes(
    [
        _PATH,
        round_option(),
        originals_option(),
        sort_option(),
        _BASELINE,
        _CSV,
        _OBJECTIONS,
        _HTML,
        json_option(),
        all_option(),
    ]
)
def verify_tree_command(
    path: Path,
    round_name: str,
    originals: Path | None,
    by: str,
    baseline: Path | None,
    csv_file: Path | None,
    objections: Path | None,
    html_file: Path | None,
    as_json: bool,
    show_all: bool,
) -> int:
    """Find contradictions in the submission tree at PATH.

    PATH is a tree, a repository of results, a division, a submitter, or a part of one; layouts of v0.7 to v6.1. The
    detail logs show what ran; user.conf, measurements, summaries, system descriptions, accuracy and compliance files
    are compared with them. In a submission of MLPerf Endpoints, each point.yaml is compared with the client's files.
    """
    with show_progress(quiet=as_json) as report:
        tree_report = verify_tree(path, round_name=round_name, original=open_archive(originals), progress=report)
    if baseline is not None:
        tree_report = leave_out_known(tree_report, read_baseline(baseline))
    _write(tree_report, by, csv_file, objections, html_file)
    if as_json:
        say_json(render_document("verify-tree", **render_findings_part(tree_report, by)))
    else:
        say(render_verified_text(tree_report, by=by, every=show_all, paint=choose_paint()))
    return IN_SYNC if tree_report.clean else NOT_IN_SYNC


def _write(
    tree_report: TreeReport, by: str, csv_file: Path | None, folder: Path | None, html_file: Path | None
) -> None:
    if csv_file is not None:
        write_output(csv_file, render_findings_csv(tree_report, by).encode())
    if folder is not None:
        for name, content in render_objections(tree_report).items():
            write_output(folder / name, content.encode())
    if html_file is not None:
        from reconciler.render.findings_page import render_findings_page

        write_output(html_file, render_findings_page(tree_report, "Contradictions in a submission tree").encode())


_TREE = click.Argument(["path"], type=ExistingPath(path_type=Path), metavar="TREE")
_INTO = click.Option(
    ["-o", "--output", "folder"],
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write one file per submitter into DIR. Default: print them.",
)
_AGAINST = click.Option(
    ["--against"], multiple=True, metavar="SUBMITTER", help="Only this submitter. May be repeated. Default: all."
)
_BY = click.Option(
    ["--by", "objector"],
    metavar="NAME",
    default="",
    help="Submitter who objects: marks each draft, and leaves out NAME's own results.",
)


@click.command("objections")
@takes([_TREE, _INTO, _AGAINST, _BY, round_option(), originals_option(), json_option()])
def objections_command(
    path: Path,
    folder: Path | None,
    against: tuple[str, ...],
    objector: str,
    round_name: str,
    originals: Path | None,
    as_json: bool,
) -> int:
    """Draft objections to the results in TREE: per submitter a paragraph for each cause, then each file, line and rule.

    TREE is a tree, a repository of results, or a part of one. Includes errors and warnings of `verify-tree` and broken
    rules of `check`, but no notes. Read a draft and ask the submitter before you file it. Exits with 2 if there is
    anything to object to.
    """
    with show_progress(quiet=as_json) as report:
        original = open_archive(originals)
        verified = verify_tree(path, round_name=round_name, original=original, progress=report)
        checked = check_tree(path, round_name=round_name, original=original, progress=report)
    drafts = render_objections(_choose(_join(verified, checked), against), objector)
    if folder is not None:
        for name, text in drafts.items():
            write_output(folder / name, text.encode())
    if as_json:
        say_json(render_document("objections", drafts=drafts))
    elif folder is not None:
        say(f"Wrote {show_count(len(drafts), 'draft')} to {folder}: {', '.join(drafts) or 'nothing to object to'}")
    else:
        say("\n".join(drafts.values()) or "Nothing to object to.")
    return NOT_IN_SYNC if drafts else IN_SYNC


def _join(verified: TreeReport, checked: TreeReport) -> TreeReport:
    """Join the findings into one objection per place. Broken rules of this project only are included if they are
    errors."""
    known = {_make_key(finding) for finding in verified.findings}
    more = (f for f in checked.findings if _make_key(f) not in known)
    asked = (f for f in more if f.severity is Severity.ERROR or f.rule.sources != (OURS,))
    # The title of a rule of `check` states the requirement.
    denied = (replace(f, rule=replace(f.rule, title=f"a rule is violated ({f.rule.title})")) for f in asked)
    return replace(verified, findings=(*verified.findings, *denied))


def _make_key(finding: TreeFinding) -> tuple[str, str, str]:
    return finding.cell, str(finding.complaint.place), finding.complaint.found


def _choose(report: TreeReport, against: tuple[str, ...]) -> TreeReport:
    known = {facts.submitter for facts in report.facts} | {finding.submitter for finding in report.findings}
    if unknown := [name for name in against if name not in known]:
        fix = f"one of {', '.join(sorted(filter(None, known)))}"
        raise ReconcilerError(f"{unknown[0]} has no results in this tree", fix=fix)
    if not against:
        return report
    return replace(report, findings=tuple(f for f in report.findings if f.submitter in against))
