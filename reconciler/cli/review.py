"""The review of a round: `objections`, `respond` and `amend`."""

from __future__ import annotations

import re
from pathlib import Path

import click
from msgspec.structs import replace

from reconciler.check.demands import OURS
from reconciler.check.engine import check_tree
from reconciler.cli.decisions import add_commit_option, add_reason_option, render_decision, say_damaged, say_next
from reconciler.cli.shared.existing_path import ExistingPath
from reconciler.cli.shared.options import cell_argument, complete_refs, json_option, spec_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.repository import find_repository
from reconciler.cli.shared.tree_options import open_archive, originals_option, round_option, show_progress
from reconciler.errors import IN_SYNC, NOT_IN_SYNC, ReconcilerError
from reconciler.history.response import amend, count_unproven, gather_evidence, render_response
from reconciler.history.snapshot import read_snapshot
from reconciler.plan.cell_names import find_cell
from reconciler.reconcile.decisions import read_decisions
from reconciler.render.documents import render_document
from reconciler.render.findings_tables import render_objections
from reconciler.resource.codec import make_versioned
from reconciler.resource.decisions import FORMAT, Amendment
from reconciler.resource.quantities import show_count
from reconciler.resource.rules import Severity
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.files import replace as replace_file
from reconciler.storage.leftovers import make_folder, write_output
from reconciler.storage.storage_errors import convert_storage_errors
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


_AT = click.Option(
    ["--at"],
    default="HEAD",
    metavar="COMMIT",
    shell_complete=complete_refs,
    help="The commit that was submitted. Default: HEAD.",
)
_DISPUTED_IN = click.Option(
    ["--objection"], default="", metavar="TEXT", help="The objection, or where it was filed; quoted in README.md."
)
_EVIDENCE_INTO = click.Option(
    ["-o", "--output", "folder"],
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The folder to write, which must be empty or not there. Default: response-CELL.",
)


@click.command("respond")
@takes([cell_argument(), _AT, _DISPUTED_IN, _EVIDENCE_INTO, json_option()])
def respond_command(cell: str, at: str, objection: str, folder: Path | None, as_json: bool) -> int:
    """Gather the evidence for the result of CELL: records, logs, commits, settings with their lines, and the audit.

    Writes a README.md with room for the answer, and the record and logs of each run, all from one commit. Exits with 2
    when any of it is missing or contradicted.
    """
    paths = find_repository()
    seen = read_snapshot(paths.root, git.resolve(paths.root, at))
    found = find_cell(cell, seen.difference.chosen)
    target = folder or Path(f"response-{re.sub(r'[^A-Za-z0-9.-]+', '_', str(found))}")
    if target.is_dir() and any(target.iterdir()):
        raise ReconcilerError(f"{target} is not empty", fix="name another folder: -o DIR")
    evidence = gather_evidence(paths.root, seen, found)
    files = {**evidence.files, "README.md": render_response(evidence, objection).encode()}
    with convert_storage_errors(target), make_folder(target.absolute()) as aside:
        for name, content in files.items():
            replace_file(aside / name, content, durable=False)
    unproven = count_unproven(evidence.claims)
    if as_json:
        claims = [{"what": c.what, "proof": str(c.proof), "detail": c.detail} for c in evidence.claims]
        runs = [
            {"name": run.name, "id": run.id, "commit": run.brought, "missing": run.missing} for run in evidence.runs
        ]
        say_json(
            render_document("respond", cell=found, commit=seen.commit, folder=str(target), runs=runs, claims=claims)
        )
    else:
        said = f"{show_count(unproven, 'claim')} of the audit not proven" if unproven else "the audit proves all of it"
        say(f"Wrote {show_count(len(files), 'file')} to {target}: {show_count(len(evidence.runs), 'record')}; {said}.")
        say(f"Write the answer into {target / 'README.md'}.")
    return NOT_IN_SYNC if unproven else IN_SYNC


_CELL = cell_argument(required=False)
_SINCE = click.Option(
    ["--since"], metavar="COMMIT", shell_complete=complete_refs, help="The commit that was submitted."
)
_OBJECTION_FILED = click.Option(["--objection"], metavar="TEXT", help="Where the objection is filed, or what it says.")
_LIST = click.Option(["--list", "listing"], is_flag=True, help="List every amendment.")


@click.command("amend")
@takes(
    [_CELL, _SINCE, _OBJECTION_FILED, add_reason_option(), _LIST, add_commit_option(), spec_option(), json_option()],
)
def amend_command(
    cell: str | None,
    since: str | None,
    objection: str | None,
    reason: str | None,
    listing: bool,
    commit: bool,
    specs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Record that the submitted result of CELL was corrected: for which objection, what differs, what was made again.

    The decision is a file in state/amended. Refused are results that are incomplete, do not differ, or count by
    `accept`, and runs made again although no input differs. `package --amends COMMIT` packs a corrected submission. A
    result that is withdrawn or moved to the open division needs no amendment.
    """
    paths, options = find_asked_cells(specs)
    if listing:
        return _list(paths, as_json=as_json)
    if cell is None or not since or not objection:
        raise click.UsageError("name the cell, --since COMMIT and --objection TEXT; or --list")
    made = amend(paths, options, cell, since, objection, reason, commit=commit)
    if as_json:
        say_json(render_decision("amend", made))
        return IN_SYNC
    _print_amendment(made.decision)
    say_next(paths, made.commit, [made.path])
    return IN_SYNC


def _print_amendment(item: Amendment) -> None:
    say(f"{item.cell} is amended: {item.reason} (objection: {item.objection})")
    for name, changed in item.inputs.items():
        say(f"    {name}: {changed.before} → {changed.after}  {changed.origin}")
    say(f"Made again: {', '.join(item.repeated) or 'nothing'}")
    if all(item.metric) and item.metric[0] != item.metric[1]:
        say(f"Result: {item.metric[0]} → {item.metric[1]}; the review committee decides whether the fix may change it")


def _list(paths: RepositoryPaths, *, as_json: bool) -> int:
    decisions = read_decisions(paths)
    if as_json:
        rows = [{"file": path, **make_versioned(FORMAT, item)} for path, item in decisions.amendments.items()]
        say_json(render_document("amend", amendments=rows, damaged=decisions.damaged))
        return IN_SYNC
    for path, item in decisions.amendments.items():
        say(f"{item.cell}: {item.reason} (objection: {item.objection}; since {item.commit[:12]})\n    {path}")
    say_damaged(decisions.damaged)
    if not decisions.amendments:
        say("Nothing is amended.")
    return IN_SYNC
