"""`adopt` and `import`: results that were made elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import click
from msgspec.structs import replace

from reconciler.cli.shared.existing_path import ExistingPath
from reconciler.cli.shared.options import json_option, spec_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.repository import find_repository
from reconciler.desired.state import Desired
from reconciler.diff.conditions import trace_lineages
from reconciler.errors import IN_SYNC, NOT_IN_SYNC, RepositoryError, SpecError
from reconciler.importing.adopted_documents import AdoptedDocuments, find_documents, refuse_odd_power, restore_settings
from reconciler.importing.adopted_records import ImportRecorder, TakenRecord
from reconciler.importing.adopted_spec import render_spec
from reconciler.importing.adoption import Adoption, DeclaredTree, ProgramTree, adopt_runs, declare
from reconciler.importing.log_folder import refuse_special
from reconciler.importing.log_tree import ImportedTree, LogTree
from reconciler.importing.read_tree import TakenTree, read_tree
from reconciler.importing.readers import find_runs
from reconciler.importing.run_import import UNKNOWABLE, ImportContext, check_declared
from reconciler.importing.run_reader import TakenCell
from reconciler.importing.tree_comparison import Reproduced, compare_with
from reconciler.observed.digest_cache import DigestCache
from reconciler.plan.cell_names import find_cell
from reconciler.publish.rendered_tree import assemble_content
from reconciler.reconcile.desired_cache import compile_sources
from reconciler.reconcile.planning import Options, PlanResult, compute_plan
from reconciler.reconcile.worker import TOOL
from reconciler.record.index import load, load_record
from reconciler.record.store import find_readable
from reconciler.render.documents import render_document
from reconciler.resource.kinds import PERFORMANCE, Address, Cell, Kind, RunAddress
from reconciler.resource.quantities import show_count
from reconciler.resource.records import Artifact
from reconciler.resource.settings import RESULTS
from reconciler.rules.programs import find_program_of_tree
from reconciler.rules.rounds import load_ruleset
from reconciler.rules.ruleset import Ruleset
from reconciler.spec.files import Source, compute_blob_id, leads_out, make_written_name, refuse_link
from reconciler.storage import git
from reconciler.storage.files import Lock, RepositoryPaths
from reconciler.storage.files import replace as write
from reconciler.storage.leftovers import open_scratch, sweep_folders
from reconciler.tree.content import LogRef
from reconciler.tree.render import render

_FOLDERS = click.Argument(
    ["folders"], nargs=-1, metavar="[LOGDIR]...", type=ExistingPath(file_okay=False, path_type=Path)
)
_CELL = click.Option(
    ["--cell"],
    default="",
    metavar="CELL",
    help="The declared cell whose run this is. By default, folders and logs say of which cell each run is.",
)
_CONF = click.Option(
    ["--user-conf"],
    metavar="FILE",
    type=ExistingPath(dir_okay=False, path_type=Path),
    help="The user.conf of this run, with --cell; by default the one in LOGDIR.",
)


def declare_option() -> click.Option:
    return click.Option(
        ["--declare"],
        multiple=True,
        metavar="NAME=VALUE",
        help=f"Say what no log can prove ({', '.join(UNKNOWABLE)}). Unknown ones keep results from being packed.",
    )


@click.command("import")
@takes([_FOLDERS, _CELL, declare_option(), _CONF, spec_option(), json_option()])
def import_command(
    folders: tuple[Path, ...],
    cell: str,
    declare: tuple[str, ...],
    user_conf: Path | None,
    specs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Record LoadGen runs that a colleague, another machine or another harness made: with --cell the one in LOGDIR,
    else all below each LOGDIR, such as `build/logs` of an afternoon.

    Mode, scenario, settings, seeds and result are read from LoadGen's logs, which must agree with the spec. With --cell
    and no LOGDIR, --declare adds facts to runs that were imported before.
    """
    declared = parse_declarations(declare)
    if not cell:
        if not folders or user_conf is not None:
            raise click.UsageError("name the folders with the logs, or the --cell that is meant")
        return _import_trees(folders, declared, specs, as_json=as_json)
    if len(folders) > 1:
        raise click.UsageError("name one folder with --cell, or leave --cell out")
    folder = next(iter(folders), None)
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
        say(_next(str(chosen), taken))
    return NOT_IN_SYNC if any(item.validity == "INVALID" for item in taken) else IN_SYNC


def _import_trees(folders: Iterable[Path], declared: dict[str, str], specs: tuple[str, ...], *, as_json: bool) -> int:
    paths, options = find_asked_cells(specs)
    with Lock(paths.pass_lock, purpose="import").acquire(), open_scratch(paths) as scratch:
        seen = compute_plan(paths, options)
        known = seen.desired.by_address
        cells = [cell for cell in trace_lineages(seen.desired) if RunAddress(cell, PERFORMANCE).address in known]
        tree = LogTree(open_recorder(paths, seen, scratch, declared), cells).record(folders)
        systems = {cell.system for cell in tree.taken}
        due = _list_due(compute_plan(paths, options), [cell for cell in cells if cell.system in systems])
    if as_json:
        say_json(_import_document(tree, due))
    else:
        say("\n".join(_describe_tree(tree, due)))
    invalid = any(item.validity == "INVALID" for taken in tree.taken.values() for item in taken)
    return NOT_IN_SYNC if invalid or tree.refused else IN_SYNC


def _list_due(seen: PlanResult, cells: Iterable[Cell]) -> dict[Cell, tuple[list[str], list[str]]]:
    """What a pass still makes of each cell: runs, and what follows from runs alone."""
    due: dict[Cell, tuple[list[str], list[str]]] = {cell: ([], []) for cell in cells}
    for step in seen.plan.steps:
        at = step.change.address
        if at.cell in due and at.kind is not Kind.RESULT:
            due[at.cell][at.kind not in (Kind.RUN, Kind.COMPLIANCE_TEST)].append(at.label)
    return due


def _describe_tree(tree: ImportedTree, due: Mapping[Cell, tuple[list[str], list[str]]]) -> list[str]:
    lines = []
    for cell, taken in tree.taken.items():
        lines += [str(cell), *(f"  {line}" for line in describe_import(taken))]
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
    return [*lines, *([_next("CELL", taken)] if any(item.unknown for item in taken) else [])]


def _import_document(tree: ImportedTree, due: Mapping[Cell, tuple[list[str], list[str]]]) -> dict[str, object]:
    cells = [
        {
            "cell": str(cell),
            "records": [_part(item) for item in tree.taken.get(cell, ())],
            "missing": runs,
            "due": others,
        }
        for cell, (runs, others) in due.items()
    ]
    refused = [{"log": str(item.log), "message": item.message, "fix": item.fix} for item in tree.refused]
    return render_document("import", cells=cells, refused=refused)


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


def _next(cell: str, taken: tuple[TakenRecord, ...]) -> str:
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


_LISTED = 12
_PATH = click.Argument(["path"], metavar="PATH", type=ExistingPath(file_okay=False, path_type=Path))
_SUBMITTER = click.Option(
    ["--submitter"], default="", metavar="NAME", help="Whose results to adopt, where the tree has several submitters."
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
_OUTPUT = click.Option(
    ["-o", "--output"],
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The spec to write; by default specs/<submitter>.yaml.",
)


@click.command("adopt")
@takes([_PATH, _SUBMITTER, _ROUND, _REHEARSAL, _OUTPUT, declare_option(), json_option()])
def adopt_command(
    path: Path,
    submitter: str,
    round_name: str,
    rehearsal: bool,
    output: Path | None,
    declare: tuple[str, ...],
    as_json: bool,
) -> int:
    """Turn the submission tree at PATH, of whatever layout, into a spec and imported records in this repository; or a
    folder of MLPerf Endpoints.

    Settings are read from the logs. Afterwards `plan` has nothing to run, and the tree is rendered from the records;
    files that cannot be derived are listed.
    """
    declared = parse_declarations(declare)
    paths = find_repository()
    tree = _read(path, submitter, round_name, rehearsal=rehearsal)
    target = output.resolve() if output else paths.specs / f"{tree.submitter.lower()}.yaml"
    _refuse_others(paths, target)
    with Lock(paths.pass_lock, purpose="adoption").acquire(), open_scratch(paths) as scratch:
        adoption, seen = _adopt(paths, tree, target, round_name, scratch, declared)
        reproduced = None if adoption.another_round else _reproduced(paths, tree, seen)
    if as_json:
        say_json(_document(adoption, reproduced, paths, target))
    else:
        say(_text(adoption, reproduced, paths, target, _explain_round(tree)))
    return NOT_IN_SYNC if adoption.left_out else IN_SYNC


def _read(path: Path, submitter: str, round_name: str, *, rehearsal: bool) -> TakenTree | ProgramTree:
    if (program := find_program_of_tree(path)) is not None:
        tree: ProgramTree = program.read_submission(path, submitter, rehearsal=rehearsal)
        return tree
    return replace(read_tree(path, submitter, round_name), rehearsal=rehearsal)


def _refuse_others(paths: RepositoryPaths, target: Path) -> None:
    if leads_out(target, paths.root):
        raise SpecError([refuse_link(make_written_name(target, paths.root))])
    others = [p for p in paths.specs.glob("**/*") if p.suffix in (".yaml", ".yml") and not p.name.startswith(".")]
    if found := sorted(path for path in others if path != target):
        raise _has_specs([*found, *([target] if target.exists() else [])])


def _refuse_another(target: Path, text: str) -> None:
    """The spec comes last: one that holds exactly this text is that of an adoption which was killed in its last
    moments, or whose report was lost."""
    if target.exists() and target.read_bytes() != text.encode():
        raise _has_specs([target])


def _has_specs(paths: list[Path]) -> RepositoryError:
    return RepositoryError(
        f"this repository has specs already: {', '.join(p.name for p in paths[:4])}",
        fix="adopt in a repository without any: mkdir DIR && cd DIR && git init, then adopt; nothing was written",
    )


def _adopt(
    paths: RepositoryPaths,
    tree: TakenTree | ProgramTree,
    target: Path,
    round_name: str,
    scratch: Path,
    declared: dict[str, str],
) -> tuple[Adoption, PlanResult]:
    """The records are made under the tree's own round; the spec may then name another one. It is written last, so that
    an adoption which is killed declares nothing, and another one makes the same records again."""
    name = target.relative_to(paths.root).as_posix() if target.is_relative_to(paths.root) else str(target)
    if isinstance(tree, TakenTree):
        tree = refuse_odd_power(tree)
        documents = find_documents(tree)
        tree = restore_settings(tree, documents)
    else:
        documents = AdoptedDocuments({}, tree.find_files())
    root = paths.root
    if any(item.measured_with for item in tree.cells):  # specs that name code are checked next to it
        root = scratch / "repository"
        documents.copy(root)
    own = final = _declare(tree, tree.ruleset, name, root, documents)
    if another := _find_another(tree, round_name):
        final = _declare(tree, load_ruleset(another), name, root, documents)
    _refuse_another(target, final.text)
    sweep_folders(documents.list_folders(paths.root))
    documents.copy(paths.root)
    recorded, stamps = load(paths).recorded, DigestCache(paths)
    compiled = compile_sources(paths, [Source(name, own.text, compute_blob_id(own.text.encode()))], recorded, stamps)
    context = ImportContext(scratch, TOOL, dict(compiled.spec), dirty=True, declared=declared)
    adoption = adopt_runs(own, ImportRecorder(paths, compiled.desired, recorded, context))
    write(target, final.text.encode())
    if another:
        left = {**adoption.left_out, **final.left_out}
        adoption = replace(adoption, left_out=left, another_round=another, text=final.text)
    return adoption, compute_plan(paths, Options(specs=(name,)))


def _find_another(tree: TakenTree | ProgramTree, round_name: str) -> str:
    """The round to declare the results for, where it is not their own."""
    if not isinstance(tree, TakenTree):
        tree.refuse_round(round_name)
        return ""
    return "" if round_name == tree.ruleset.round else round_name


def _declare(
    tree: TakenTree | ProgramTree, ruleset: Ruleset, name: str, root: Path, documents: AdoptedDocuments
) -> DeclaredTree:
    def render(cells: list[TakenCell], left_out: Mapping[str, str]) -> str:
        if isinstance(tree, TakenTree):
            return render_spec(tree, ruleset, cells, left_out, documents.published)
        return tree.render_spec(cells, left_out, documents.files)

    return declare(tree, ruleset, name, root, render)


def _reproduced(paths: RepositoryPaths, tree: TakenTree | ProgramTree, seen: PlanResult) -> Reproduced:
    def stored(ref: LogRef) -> Path:
        return find_readable(paths, Artifact("", ref.sha256, ref.size, "logs"))

    content, ruleset = assemble_content(
        paths, seen.desired, seen.difference, lambda identity: load_record(paths, identity), stored
    )
    if isinstance(tree, TakenTree):
        # The tree may have another layout than its round: what counts is what its files hold.
        ruleset = replace(ruleset, layout=tree.places[0].layout)
    files = dict(render(content, ruleset))
    return compare_with(files, tree.folders, lambda ref: stored(ref).read_bytes(), tree.unreadable)


def _explain_round(tree: TakenTree | ProgramTree) -> str:
    """How the round of the tree was learned, where it was."""
    recognised = tree.recognised if isinstance(tree, TakenTree) else None
    return f"Its round is {recognised.name}, by {recognised.evidence}." if recognised else ""


def _text(
    adoption: Adoption, reproduced: Reproduced | None, paths: RepositoryPaths, target: Path, about_round: str
) -> str:
    lines = [about_round] if about_round else []
    lines += [
        f"Wrote {_shown(target, paths)}: {show_count(adoption.cells, 'cell')} "
        f"of {show_count(adoption.systems, 'system')}."
    ]
    lines.append(f"Recorded {show_count(len(adoption.taken), 'run and score', 'runs and scores')}, marked imported.")
    lines += [f"  {item.address}: {note}" for item in adoption.taken for note in item.notes][:_LISTED]
    if adoption.left_out:
        lines.append(f"Not adopted ({len(adoption.left_out)}):")
        lines += [f"  {name}: {why}" for name, why in sorted(adoption.left_out.items())]
    if reproduced is not None:
        lines.append(
            f"The render reproduces {show_count(len(reproduced.same), 'file')} byte for byte "
            f"and {len(reproduced.equal)} in content; {len(reproduced.differing)} differ, "
            f"{len(reproduced.missing)} are not derived."
        )
        lines += _listed("differs", reproduced.differing) + _listed("not derived", reproduced.missing)
    if adoption.another_round:
        lines.append(f"Declared for round {adoption.another_round}: the settings stay, every performance run is stale.")
    lines.append("Next: reconcile plan")
    return "\n".join(lines)


def _listed(word: str, names: tuple[str, ...]) -> list[str]:
    more = [f"  … and {len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return [f"  {word}: {name}" for name in names[:_LISTED]] + more


def _shown(path: Path, paths: RepositoryPaths) -> str:
    return path.relative_to(paths.root).as_posix() if path.is_relative_to(paths.root) else str(path)


def _document(
    adoption: Adoption, reproduced: Reproduced | None, paths: RepositoryPaths, target: Path
) -> dict[str, object]:
    return render_document(
        "adopt",
        spec=_shown(target, paths),
        cells=adoption.cells,
        records=[{"address": str(i.address), "record": i.identity, "notes": list(i.notes)} for i in adoption.taken],
        left_out=dict(adoption.left_out),
        round=adoption.another_round or adoption.round,
        reproduced=None
        if reproduced is None
        else {
            "same": list(reproduced.same),
            "equal": list(reproduced.equal),
            "differing": list(reproduced.differing),
            "missing": list(reproduced.missing),
        },
    )
