"""The review of a round: `objections`, `respond` and `amend`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from reconciler.cli.decisions import add_commit_option, add_reason_option, describe_damaged, render_decision, say_next
from reconciler.cli.shared.options import cell_argument, complete_refs, json_option, spec_option, takes
from reconciler.cli.shared.output import say, say_json, say_report
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import IN_SYNC, NOT_IN_SYNC, ReconcilerError
from reconciler.history.response import amend, count_unproven, gather_evidence, render_response
from reconciler.history.snapshot import read_snapshot
from reconciler.plan.select import find_cell
from reconciler.reconcile.decisions import read_decisions
from reconciler.render.documents import render_document
from reconciler.resource.codec import make_versioned
from reconciler.resource.decisions import FORMAT, Amendment
from reconciler.resource.quantities import show_count
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.files import replace as replace_file
from reconciler.storage.leftovers import make_folder
from reconciler.storage.storage_errors import convert_storage_errors

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
    claims = [{"what": c.what, "proof": c.proof, "detail": c.detail} for c in evidence.claims]
    runs = [{"name": run.name, "id": run.id, "commit": run.brought, "missing": run.missing} for run in evidence.runs]
    document = render_document("respond", cell=found, commit=seen.commit, folder=target, runs=runs, claims=claims)
    said = f"{show_count(unproven, 'claim')} of the audit not proven" if unproven else "the audit proves all of it"
    wrote = f"Wrote {show_count(len(files), 'file')} to {target}: {show_count(len(evidence.runs), 'record')}; {said}."
    say_report(document, f"{wrote}\nWrite the answer into {target / 'README.md'}.", as_json=as_json)
    return NOT_IN_SYNC if unproven else IN_SYNC


_CELL = cell_argument(required=False)
_SINCE = click.Option(
    ["--since"], metavar="COMMIT", shell_complete=complete_refs, help="The commit that was submitted."
)
_OBJECTION_FILED = click.Option(["--objection"], metavar="TEXT", help="Where the objection is filed, or what it says.")
_LIST = click.Option(["--list", "listing"], is_flag=True, help="List every amendment.")


@click.command("amend")
@takes([_CELL, _SINCE, _OBJECTION_FILED, add_reason_option(), _LIST, add_commit_option(), spec_option(), json_option()])
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
    """Record that the submitted result of CELL was corrected: for which objection, what differs, what was repeated.

    The decision is a file in state/amended. Refused are results that are incomplete, do not differ, or count by
    `accept`, and runs repeated although no input differs. `package --amends COMMIT` packs a corrected submission. A
    result that is withdrawn or moved to the open division needs no amendment.
    """
    paths, options = find_asked_cells(specs)
    if listing:
        return _list_amendments(paths, as_json=as_json)
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
    say(f"Repeated: {', '.join(item.repeated) or 'nothing'}")
    if all(item.metric) and item.metric[0] != item.metric[1]:
        say(f"Result: {item.metric[0]} → {item.metric[1]}; the review committee decides whether the fix may change it")


def _list_amendments(paths: RepositoryPaths, *, as_json: bool) -> int:
    decisions = read_decisions(paths)
    rows = [{"file": path, **make_versioned(FORMAT, item)} for path, item in decisions.amendments.items()]
    lines = [
        f"{item.cell}: {item.reason} (objection: {item.objection}; since {item.commit[:12]})\n    {path}"
        for path, item in decisions.amendments.items()
    ]
    lines += [*describe_damaged(decisions.damaged), *([] if decisions.amendments else ["Nothing is amended."])]
    document = render_document("amend", amendments=rows, damaged=decisions.damaged)
    say_report(document, "\n".join(lines), as_json=as_json)
    return IN_SYNC
