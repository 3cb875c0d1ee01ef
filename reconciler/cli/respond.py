"""`reconcile respond CELL`: the evidence for a result that somebody objects to."""

from __future__ import annotations

import re
from pathlib import Path

import click

from reconciler.cli.shared.cells import find_cell
from reconciler.cli.shared.options import cell_argument, complete_refs, json_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import IN_SYNC, NOT_IN_SYNC, ReconcilerError
from reconciler.history.response import count_unproven, gather_evidence
from reconciler.history.response_text import render_response
from reconciler.history.snapshot import read_snapshot
from reconciler.render.documents import render_document
from reconciler.resource.quantities import show_count
from reconciler.storage import git
from reconciler.storage.files import replace
from reconciler.storage.leftovers import make_folder
from reconciler.storage.storage_errors import convert_storage_errors

_AT = click.Option(
    ["--at"],
    default="HEAD",
    metavar="COMMIT",
    shell_complete=complete_refs,
    help="The commit that was submitted. Default: HEAD.",
)
_OBJECTION = click.Option(
    ["--objection"], default="", metavar="TEXT", help="The objection, or where it was filed; quoted in README.md."
)
_INTO = click.Option(
    ["-o", "--output", "folder"],
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The folder to write, which must be empty or not there. Default: response-CELL.",
)


@click.command("respond")
@takes([cell_argument(), _AT, _OBJECTION, _INTO, json_option()])
def command(cell: str, at: str, objection: str, folder: Path | None, as_json: bool) -> int:
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
            replace(aside / name, content, durable=False)
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
