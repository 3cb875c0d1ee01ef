"""`reconcile objections TREE`: drafts of objections for the review period."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec.structs import replace

from reconciler.check.demands import OURS
from reconciler.check.engine import check_tree
from reconciler.cli.shared.existing_path import ExistingPath
from reconciler.cli.shared.options import json_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.tree_options import open_archive, originals_option, round_option, show_progress
from reconciler.errors import IN_SYNC, NOT_IN_SYNC, ReconcilerError
from reconciler.render.documents import render_document
from reconciler.render.findings_tables import render_objections
from reconciler.resource.quantities import show_count
from reconciler.resource.rules import Severity
from reconciler.storage.leftovers import write_output
from reconciler.tree.findings import TreeFinding, TreeReport
from reconciler.verify.engine import verify_tree

_PATH = click.Argument(["path"], type=ExistingPath(path_type=Path), metavar="TREE")
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
    help="Who objects: tags each draft; NAME's own are left out.",
)


@click.command("objections")
@takes([_PATH, _INTO, _AGAINST, _BY, round_option(), originals_option(), json_option()])
def command(
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
    rules of `check`, no notes. Read a draft and ask the submitter before you file it. Exits with 2 when there is
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
    """Join objections: one place is objected to once, and submitters are not blamed for rules that are only ours."""
    known = {_name_found(finding) for finding in verified.findings}
    more = (f for f in checked.findings if _name_found(f) not in known)
    asked = (f for f in more if f.severity is Severity.ERROR or f.rule.sources != (OURS,))
    return replace(verified, findings=(*verified.findings, *map(_deny, asked)))


def _name_found(finding: TreeFinding) -> tuple[str, str, str]:
    return finding.cell, str(finding.complaint.place), finding.complaint.found


def _deny(finding: TreeFinding) -> TreeFinding:
    """The title of a rule of `check` is what it asks for; an objection says that it is not so."""
    title = f"a rule is not kept ({finding.rule.title})"
    return replace(finding, rule=replace(finding.rule, title=title))


def _choose(report: TreeReport, against: tuple[str, ...]) -> TreeReport:
    known = {facts.submitter for facts in report.facts} | {finding.submitter for finding in report.findings}
    if unknown := [name for name in against if name not in known]:
        fix = f"one of {', '.join(sorted(filter(None, known)))}"
        raise ReconcilerError(f"{unknown[0]} has no results in this tree", fix=fix)
    if not against:
        return report
    return replace(report, findings=tuple(f for f in report.findings if f.submitter in against))
