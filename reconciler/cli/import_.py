"""`reconcile import LOGDIR --cell C`: record one run that was made elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from reconciler.cli.shared.cells import find_cell
from reconciler.cli.shared.existing_path import ExistingPath
from reconciler.cli.shared.options import json_option, spec_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.desired.state import Desired
from reconciler.diff.conditions import trace_lineages
from reconciler.errors import IN_SYNC, NOT_IN_SYNC
from reconciler.importing.adopted_records import ImportRecorder, TakenRecord
from reconciler.importing.log_folder import refuse_special
from reconciler.importing.readers import find_runs
from reconciler.importing.run_import import UNKNOWABLE, ImportContext, check_declared
from reconciler.loadgen.settings import RESULTS
from reconciler.reconcile.planning import PlanResult, compute_plan
from reconciler.reconcile.worker import TOOL
from reconciler.render.documents import render_document
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.storage import git
from reconciler.storage.files import Lock, RepositoryPaths
from reconciler.storage.leftovers import open_scratch

_FOLDER = click.Argument(
    ["folder"], required=False, metavar="[LOGDIR]", type=ExistingPath(file_okay=False, path_type=Path)
)
_CELL = click.Option(["--cell"], required=True, metavar="CELL", help="The declared cell whose run this is.")
_CONF = click.Option(
    ["--user-conf"],
    metavar="FILE",
    type=ExistingPath(dir_okay=False, path_type=Path),
    help="The user.conf of this run; by default the one in LOGDIR.",
)


def declare_option() -> click.Option:
    return click.Option(
        ["--declare"],
        multiple=True,
        metavar="NAME=VALUE",
        help=f"Say what no log can prove ({', '.join(UNKNOWABLE)}). Unknown ones keep results from being packed.",
    )


@click.command("import")
@takes([_FOLDER, _CELL, declare_option(), _CONF, spec_option(), json_option()])
def command(
    folder: Path | None,
    cell: str,
    declare: tuple[str, ...],
    user_conf: Path | None,
    specs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Record the LoadGen run in LOGDIR as a run of CELL: one made by a colleague, another machine or another harness.

    Mode, scenario, settings, seeds and result are read from LoadGen's logs, which must agree with the spec. Without
    LOGDIR, --declare adds facts to runs that were imported before.
    """
    declared = parse_declarations(declare)
    if folder is None and not declared:
        raise click.UsageError("name the folder with the logs, or --declare something of runs imported before")
    if folder is not None:
        refuse_special(folder)
    paths, options = find_asked_cells(specs)
    with Lock(paths.pass_lock, purpose="import").acquire(), open_scratch(paths) as scratch:
        seen = compute_plan(paths, options)
        chosen = find_cell(cell, trace_lineages(seen.desired))
        found = find_runs(folder, user_conf, find_result_format(chosen, seen.desired)) if folder is not None else ()
        recorder = open_recorder(paths, seen, scratch, declared)
        recorder.require(chosen, found)
        taken = tuple(item for run in found for item in recorder.run(chosen, run)) or recorder.redeclare(chosen)
    if as_json:
        say_json(render_document("import", cell=str(chosen), records=[_part(item) for item in taken]))
    else:
        say("\n".join(describe_import(taken)))
        say(_next(chosen, taken))
    return NOT_IN_SYNC if any(item.validity == "INVALID" for item in taken) else IN_SYNC


def find_result_format(cell: Cell, desired: Desired) -> str:
    """The name of the format of results that a cell is measured by; "" for the usual one."""
    result = Address(Kind.RESULT, str(cell))
    return desired.detail(result).settings.get_text(RESULTS) if result in desired.by_address else ""


def parse_declarations(words: Iterable[str]) -> dict[str, str]:
    """Raises UsageError or ReconcilerError for what declares nothing."""
    declared = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise click.UsageError(f"--declare {word}: write NAME=VALUE")
        declared[name] = value
    check_declared(declared)
    return declared


def open_recorder(
    paths: RepositoryPaths, seen: PlanResult, scratch: Path, declared: dict[str, str], desired: Desired | None = None
) -> ImportRecorder:
    context = ImportContext(scratch, TOOL, seen.spec, git.is_dirty(paths.root, list(seen.spec)), declared)
    return ImportRecorder(paths, desired or seen.desired, seen.recorded, context)


def describe_import(taken: Iterable[TakenRecord]) -> list[str]:
    lines = []
    for item in taken:
        result = ", ".join(part for part in (item.metric, item.validity) if part)
        lines.append(f"{item.address}: recorded as {item.identity}{f', {result}' if result else ''}")
        lines += [f"  {note}" for note in item.notes]
    return lines


def _next(cell: Cell, taken: tuple[TakenRecord, ...]) -> str:
    unknown = sorted({name for item in taken for name in item.unknown})
    if not unknown:
        return "Nothing about it is unknown. `reconcile plan` shows what is left to do."
    wanted = " ".join(f"--declare {name}=…" for name in unknown)
    return f"Unknown, and to be declared before packing: reconcile import --cell {cell} {wanted}"


def _part(item: TakenRecord) -> dict[str, object]:
    return {
        "address": str(item.address),
        "record": item.identity,
        "validity": item.validity,
        "metric": item.metric,
        "notes": list(item.notes),
        "unknown": list(item.unknown),
    }
