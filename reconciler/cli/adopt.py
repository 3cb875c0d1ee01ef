"""`adopt` and `import`: take in results that were made elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from reconciler.cli.shared.options import ExistingPath, file_option, json_option, spec_option, takes
from reconciler.cli.shared.output import say_report
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import IN_SYNC, NOT_IN_SYNC
from reconciler.importing.adopted_records import TakenRecord
from reconciler.importing.adoption import AdoptedTree, DueSteps, adopt_tree, import_runs, import_trees
from reconciler.importing.log_tree import ImportedTree
from reconciler.importing.run_import import UNKNOWABLE, check_declared
from reconciler.render.documents import render_document
from reconciler.resource.kinds import Cell
from reconciler.resource.quantities import show_count

_FOLDERS = click.Argument(
    ["folders"], nargs=-1, metavar="[LOGDIR]...", type=ExistingPath(file_okay=False, path_type=Path)
)
_CELL = click.Option(
    ["--cell"],
    default="",
    metavar="CELL",
    help="The declared cell whose run this is. By default, folders and logs determine it.",
)
_CONF = click.Option(
    ["--user-conf"],
    metavar="FILE",
    type=ExistingPath(dir_okay=False, path_type=Path),
    help="The user.conf of this run, with --cell; by default the one in LOGDIR.",
)


def _declare_option() -> click.Option:
    return click.Option(
        ["--declare"],
        multiple=True,
        metavar="NAME=VALUE",
        help=f"Declare facts that logs cannot prove ({', '.join(UNKNOWABLE)}); unknown ones cannot be packed.",
    )


@click.command("import")
@takes([_FOLDERS, _CELL, _declare_option(), _CONF, spec_option(), json_option()])
def import_command(
    folders: tuple[Path, ...],
    cell: str,
    declare: tuple[str, ...],
    user_conf: Path | None,
    specs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Record LoadGen runs that a colleague, another machine or another harness made: with --cell the one in LOGDIR,
    else all below each LOGDIR, such as `build/logs`.

    Mode, scenario, settings, seeds and result are read from LoadGen's logs, which must agree with the spec. With --cell
    and no LOGDIR, --declare adds facts to runs that were imported before.
    """
    declared = _parse_declarations(declare)
    if not cell:
        if not folders or user_conf is not None:
            raise click.UsageError("name the folders with the logs, or the --cell that is meant")
        paths, options = find_asked_cells(specs)
        tree, due = import_trees(paths, options, folders, declared)
        say_report(_render_tree(tree, due), "\n".join(_describe_tree(tree, due)), as_json=as_json)
        invalid = any(item.validity == "INVALID" for items in tree.taken.values() for item in items)
        return NOT_IN_SYNC if invalid or tree.refused else IN_SYNC
    if len(folders) > 1:
        raise click.UsageError("name one folder with --cell, or omit --cell")
    folder = next(iter(folders), None)
    if folder is None and not declared:
        raise click.UsageError("name the folder with the logs, or --declare something of runs imported before")
    paths, options = find_asked_cells(specs)
    chosen, taken = import_runs(paths, options, cell, folder, user_conf, declared)
    text = "\n".join([*_describe_import(taken), _describe_next_step(str(chosen), taken)])
    document = render_document("import", cell=chosen, records=[_render_record(item) for item in taken])
    say_report(document, text, as_json=as_json)
    return NOT_IN_SYNC if any(item.validity == "INVALID" for item in taken) else IN_SYNC


def _describe_tree(tree: ImportedTree, due: Mapping[Cell, DueSteps]) -> list[str]:
    lines = []
    for cell, taken in tree.taken.items():
        lines += [str(cell), *(f"  {line}" for line in _describe_import(taken))]
    if tree.refused:
        lines.append(f"Not imported ({len(tree.refused)}):")
    for item in tree.refused:
        lines += [f"  {line}" for line in item.message.splitlines()]
        lines += [f"    fix: {item.fix}"] if item.fix else []
    runs = {cell: found for cell, (found, _) in due.items() if found}
    if runs:
        lines.append("Missing runs:")
        lines += [f"  {cell}: {', '.join(found)}" for cell, found in runs.items()]
    rest = sum(len(found) for _, found in due.values())
    steps = [show_count(sum(map(len, runs.values())), "run")] if runs else []
    steps += [show_count(rest, "score or verdict", "scores and verdicts")] if rest else []
    lines.append(f"`reconcile` makes {' and '.join(steps)}." if steps else "Nothing else is due.")
    taken = tuple(item for items in tree.taken.values() for item in items)
    return [*lines, *([_describe_next_step("CELL", taken)] if any(item.unknown for item in taken) else [])]


def _render_tree(tree: ImportedTree, due: Mapping[Cell, DueSteps]) -> dict[str, object]:
    cells = [
        {
            "cell": cell,
            "records": [_render_record(item) for item in tree.taken.get(cell, ())],
            "missing": runs,
            "due": others,
        }
        for cell, (runs, others) in due.items()
    ]
    refused = [{"log": item.log, "message": item.message, "fix": item.fix} for item in tree.refused]
    return render_document("import", cells=cells, refused=refused)


def _parse_declarations(words: Iterable[str]) -> dict[str, str]:
    """Raises UsageError or ReconcilerError for an argument that is not a declaration."""
    declared = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise click.UsageError(f"--declare {word}: write NAME=VALUE")
        declared[name] = value
    check_declared(declared)
    return declared


def _describe_import(taken: Iterable[TakenRecord]) -> list[str]:
    lines = []
    for item in taken:
        result = ", ".join(part for part in (item.metric, item.validity) if part)
        how = "already recorded as" if item.known else "recorded as"
        lines.append(f"{item.address}: {how} {item.identity}{f', {result}' if result else ''}")
        lines += [f"  {note}" for note in item.notes]
    return lines


def _describe_next_step(cell: str, taken: tuple[TakenRecord, ...]) -> str:
    unknown = sorted({name for item in taken for name in item.unknown})
    if not unknown:
        return "Nothing about it is unknown. `reconcile plan` shows what is left to do."
    wanted = " ".join(f"--declare {name}=…" for name in unknown)
    return f"Unknown, and to be declared before packing: reconcile import --cell {cell} {wanted}"


def _render_record(item: TakenRecord) -> dict[str, object]:
    return {
        "address": item.address,
        "record": item.identity,
        "validity": item.validity,
        "metric": item.metric,
        "notes": item.notes,
        "unknown": item.unknown,
        "known": item.known,
    }


_LISTED = 12
_PATH = click.Argument(["path"], metavar="PATH", type=ExistingPath(file_okay=False, path_type=Path))
_SUBMITTER = click.Option(
    ["--submitter"], default="", metavar="NAME", help="Whose results to adopt if the tree has several submitters."
)
_ROUND = click.Option(
    ["--round", "round_name"],
    default="",
    metavar="ROUND",
    help="Declare them for this round instead: settings stay, every performance run is stale. For a tree "
    "of an unknown round: its round.",
)
_REHEARSAL = click.Option(
    ["--rehearsal"], is_flag=True, help="Also take runs that the round would refuse; none of it can be packed."
)
_OUTPUT = file_option("The spec to write; by default specs/<submitter>.yaml.")


@click.command("adopt")
@takes([_PATH, _SUBMITTER, _ROUND, _REHEARSAL, _OUTPUT, _declare_option(), json_option()])
def adopt_command(
    path: Path,
    submitter: str,
    round_name: str,
    rehearsal: bool,
    output: Path | None,
    declare: tuple[str, ...],
    as_json: bool,
) -> int:
    """Turn the submission tree at PATH, in any layout, into a spec and imported records in this repository; or a
    folder of MLPerf Endpoints.

    Settings are read from the logs. Afterwards `plan` has nothing to run, and the tree is rendered from the records;
    files that cannot be derived are listed.
    """
    paths = find_repository()
    adopted = adopt_tree(
        paths,
        path,
        submitter=submitter,
        round_name=round_name,
        rehearsal=rehearsal,
        output=output,
        declared=_parse_declarations(declare),
    )
    say_report(_render_adopted(adopted), _render_adopted_text(adopted), as_json=as_json)
    return NOT_IN_SYNC if adopted.adoption.left_out else IN_SYNC


def _render_adopted_text(adopted: AdoptedTree) -> str:
    adoption, reproduced = adopted.adoption, adopted.reproduced
    lines = [f"Its round is {adopted.round_evidence}."] if adopted.round_evidence else []
    lines += [
        f"Wrote {adopted.spec}: {show_count(adoption.cells, 'cell')} of {show_count(adoption.systems, 'system')}."
    ]
    lines.append(f"Recorded {show_count(len(adoption.taken), 'run and score', 'runs and scores')}, marked imported.")
    lines += [f"  {item.address}: {note}" for item in adoption.taken for note in item.notes][:_LISTED]
    if adoption.left_out:
        lines.append(f"Not adopted ({len(adoption.left_out)}):")
        lines += [f"  {name}: {why}" for name, why in sorted(adoption.left_out.items())]
    lines += [f"Not used: {name}: {why}" for name, why in sorted(adoption.unused.items())]
    if reproduced is not None:
        lines.append(
            f"The render reproduces {show_count(len(reproduced.same), 'file')} byte for byte "
            f"and {len(reproduced.equal)} in content; {len(reproduced.differing)} differ, "
            f"{len(reproduced.missing)} are not derived."
        )
        lines += _list_first("differs", reproduced.differing) + _list_first("not derived", reproduced.missing)
    if adoption.another_round:
        lines.append(f"Declared for round {adoption.another_round}: the settings stay, every performance run is stale.")
    lines.append("Next: reconcile plan")
    return "\n".join(lines)


def _list_first(word: str, names: tuple[str, ...]) -> list[str]:
    more = [f"  … and {len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return [f"  {word}: {name}" for name in names[:_LISTED]] + more


def _render_adopted(adopted: AdoptedTree) -> dict[str, object]:
    adoption = adopted.adoption
    return render_document(
        "adopt",
        spec=adopted.spec,
        cells=adoption.cells,
        records=[{"address": i.address, "record": i.identity, "notes": i.notes} for i in adoption.taken],
        left_out=adoption.left_out,
        unused=adoption.unused,
        round=adoption.another_round or adoption.round,
        reproduced=adopted.reproduced,
    )
