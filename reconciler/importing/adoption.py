"""Turns a tree that was read into a valid spec, and records for the runs that fit it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reconciler.desired.checks import check
from reconciler.diff.conditions import trace_lineages
from reconciler.errors import ReconcilerError, RepositoryError, SpecError
from reconciler.importing.adopted_documents import (
    AdoptedDocuments,
    find_documents,
    is_readable,
    refuse_odd_power,
    restore_settings,
    walk_sent,
)
from reconciler.importing.adopted_records import ImportRecorder, TakenRecord
from reconciler.importing.adopted_spec import render_spec
from reconciler.importing.log_folder import refuse_special, refuse_vanished
from reconciler.importing.log_tree import ImportedTree, LogTree
from reconciler.importing.read_tree import TakenTree, find_runs, read_tree
from reconciler.importing.run_import import ImportContext
from reconciler.importing.run_reader import ProgramTree, TakenCell, TakenSubmission
from reconciler.observed.digest_cache import DigestCache
from reconciler.plan.select import find_cell
from reconciler.publish.rendered_tree import assemble_content, find_log
from reconciler.reconcile.desired_cache import compile_sources
from reconciler.reconcile.planning import Options, PlanResult, compute_plan
from reconciler.reconcile.worker import TOOL
from reconciler.record.index import load
from reconciler.resource.kinds import PERFORMANCE, Address, Cell, Kind, RunAddress
from reconciler.resource.settings import RESULTS
from reconciler.rules.programs import find_program_of_tree
from reconciler.rules.rounds import load_ruleset
from reconciler.rules.ruleset import Ruleset
from reconciler.spec.files import Source, compute_blob_id, leads_out, make_written_name, refuse_link
from reconciler.spec.loading import load_sources
from reconciler.storage import git
from reconciler.storage.documents import ResultDocument, parse_json_object, parse_yaml_mapping
from reconciler.storage.files import RepositoryLock, RepositoryPaths, hash_bytes
from reconciler.storage.files import replace as write
from reconciler.storage.leftovers import open_scratch, sweep_folders
from reconciler.tree.content import Content, LogRef, hash_content
from reconciler.tree.documents import read_statements
from reconciler.tree.render import REPRODUCE, render


class Reproduced(Struct, frozen=True):
    """Paths of the adopted tree, each sorted. ``same``: equal bytes, under that name or the proper one.

    ``equal``: JSON or YAML with equal values in another notation. ``differing``: rendered with other content.
    ``missing``: not rendered.
    """

    same: tuple[str, ...]
    equal: tuple[str, ...]
    differing: tuple[str, ...]
    missing: tuple[str, ...]


def compare_with(
    rendered: Mapping[str, Content],
    folders: Mapping[str, Path],
    read: Callable[[LogRef], bytes],
    unreadable: Collection[Path] = (),
) -> Reproduced:
    """Compare a rendering with the adopted tree. ``folders``: division/submitter → its path on disk. ``unreadable``:
    paths in it that are not read."""
    by_name = {path.casefold(): content for path, content in rendered.items()}
    found: dict[str, list[str]] = {"same": [], "equal": [], "differing": [], "missing": []}
    for shown, folder in folders.items():
        for path in sorted(p for p in walk_sent(folder) if is_readable(p, unreadable) and p.is_file()):
            name = f"{shown}/{path.relative_to(folder).as_posix()}"
            content = by_name.get(name.casefold())
            content = _find_renamed(name, rendered) if content is None else content
            found[_compare_file(path, content, read)].append(name)
    return Reproduced(**{kind: tuple(names) for kind, names in found.items()})


def _find_renamed(name: str, rendered: Mapping[str, Content]) -> Content | None:
    """Find the rendered file of a legacy measurements file, which may have any name that begins with the system's."""
    path = PurePosixPath(name)
    if path.suffix != ".json" or "/measurements/" not in name:
        return None
    folder = path.parent.as_posix().casefold()
    jsons = (p for p in rendered if p.endswith(".json"))
    return next((rendered[p] for p in jsons if PurePosixPath(p).parent.as_posix().casefold() == folder), None)


def _compare_file(path: Path, content: Content | None, read: Callable[[LogRef], bytes]) -> str:
    if content is None:
        return "missing"
    data = path.read_bytes()
    if hash_bytes(data) == hash_content(content):
        return "same"
    own = read(content) if isinstance(content, LogRef) else content
    if path.suffix == ".json" and (stated := read_statements(data)) is not None and stated == read_statements(own):
        return "equal"
    parse = {".yaml": parse_yaml_mapping, ".json": parse_json_object}.get(path.suffix)
    return "equal" if parse is not None and _is_equal(parse, data, own) else "differing"


def _is_equal(parse: Callable[[bytes], ResultDocument], data: bytes, own: bytes) -> bool:
    """Return True if two documents have equal values, in any order."""
    try:
        return parse(data).values == parse(own).values
    except (ValueError, RecursionError):
        return False


# (cells to declare, cell or file → why it is left out) → the spec
RenderSpec = Callable[[list[TakenCell], Mapping[str, str]], str]


class DeclaredTree(Struct, frozen=True):
    """The spec of an adopted tree. ``left_out``: cell or file → why it is not in the spec; ``refused``: benchmark → why
    the settings that the tree states for its measurement may not be in it."""

    tree: TakenSubmission
    text: str
    cells: tuple[TakenCell, ...]
    left_out: Mapping[str, str]
    refused: Mapping[str, str] = {}


class Adoption(Struct, frozen=True):
    """The result of recording a tree's runs. ``another_round``: the round in the spec, if it is not the tree's;
    ``unused``: each REPRODUCE.md that could not be used → why."""

    round: str
    text: str
    cells: int
    systems: int
    taken: tuple[TakenRecord, ...]
    left_out: Mapping[str, str]
    another_round: str = ""
    unused: Mapping[str, str] = {}


def declare(tree: TakenSubmission, ruleset: Ruleset, name: str, root: Path, render: RenderSpec) -> DeclaredTree:
    """Return the spec with as many cells as the round accepts. ``name``: of the spec file, relative to the
    repository."""
    left_out = {problem.partition(": ")[0]: problem.partition(": ")[2] for problem in tree.problems}
    left_out |= {str(item.cell): "; ".join(item.problems) for item in tree.cells if item.is_nothing}
    cells = [item for item in tree.cells if str(item.cell) not in left_out]
    refused: dict[str, str] = {}
    while cells:
        text = render(cells, left_out)
        wrong = _find_refused(text, ruleset, name, root, cells)
        if not wrong and not tree.rehearsal:  # keep the mark of a rehearsal
            why = "its tree is a rehearsal; adopt it with `--rehearsal`"
            wrong = {str(item.cell): why for item in cells if item.rehearsal}
        if not wrong:
            return DeclaredTree(tree, text, tuple(cells), left_out, refused)
        asked = [item.cell for item in cells if item.measured_with and str(item.cell) in wrong]
        if doubted := {cell.benchmark: wrong[str(cell)] for cell in reversed(asked)}:
            refused |= doubted
            known = (item.cell.benchmark not in doubted for item in cells)
            cells = [i if ok else replace(i, measured_with={}, hardware={}) for i, ok in zip(cells, known, strict=True)]
            continue
        left_out |= wrong
        cells = [item for item in cells if str(item.cell) not in wrong and str(item.source) not in wrong]
    raise ReconcilerError(
        f"cannot adopt anything from {tree.submitter} into round {ruleset.round}:\n"
        + "\n".join(f"  {cell}: {why}" for cell, why in sorted(left_out.items())),
        fix="see each cell's reason, or use another round: --round",
    )


def _find_refused(text: str, ruleset: Ruleset, name: str, root: Path, cells: list[TakenCell]) -> dict[str, str]:
    """Return cell → why the spec may not declare it. A problem outside the cells counts for all cells that it
    affects."""
    try:
        check(load_sources([Source(name, text, compute_blob_id(text.encode()))], root, {}), ruleset)
    except SpecError as error:
        wrong: dict[str, str] = {}
        for problem in error.problems:
            for cell in _list_touched(problem.path, [item.cell for item in cells]):
                wrong.setdefault(str(cell), problem.message)
        return wrong or {str(item.cell): str(error.problems[0]) for item in cells}
    return {}


def _list_touched(path: str, cells: list[Cell]) -> list[Cell]:
    exact = [c for c in cells if f"{path}.".startswith(f"spec.divisions.{str(c).replace('/', '.')}.")]
    curve = [c for c in cells if f"{path}.".startswith(f"spec.divisions.{c.division}.{c.system}.{c.benchmark}.")]
    return exact or curve or [
        c for c in cells
        if f"{path}.".startswith((f"spec.benchmarks.{c.benchmark}.", f"spec.systems.{c.system}."))
    ]  # fmt: skip


def adopt_runs(declared: DeclaredTree, recorder: ImportRecorder) -> Adoption:
    """Record every run that its cell requests; the others are listed, and `plan` shows them as due."""
    taken: list[TakenRecord] = []
    left_out = dict(declared.left_out)
    for item in declared.cells:
        for problem in item.problems:
            left_out[f"{item.cell} ({problem.partition(':')[0]})"] = problem.partition(": ")[2]
        for run in item.runs:
            try:
                taken += recorder.record_run(item.cell, run, requirements=item.requirements)
            except ReconcilerError as error:
                left_out[f"{item.cell} ({run.mode} run)"] = error.message
                if run.format.TIES_ACCURACY:
                    break  # the accuracy run belongs to the performance run before it
        if item.runs:
            for name, files in item.tests.items():
                recorder.record_test(item.cell, name, files, item.runs[-1], item.failing.get(name, ""))
    systems = {item.cell.system for item in declared.cells}
    own = declared.tree.ruleset.round
    return Adoption(own, declared.text, len(declared.cells), len(systems), tuple(taken), left_out)


def import_runs(
    paths: RepositoryPaths,
    options: Options,
    cell: str,
    folder: Path | None,
    user_conf: Path | None,
    declared: Mapping[str, str],
) -> tuple[Cell, tuple[TakenRecord, ...]]:
    """Record the runs in a folder as those of a cell; without a folder, declare more about runs imported earlier.

    Raises ReconcilerError, or LogError if the logs are not what the cell requests.
    """
    if folder is not None:
        refuse_special(folder)
    with RepositoryLock(paths, purpose="import").acquire(), open_scratch(paths) as scratch:
        seen = compute_plan(paths, options)
        chosen = find_cell(cell, trace_lineages(seen.desired))
        result = seen.desired.by_address.get(Address(Kind.RESULT, str(chosen)))
        results = seen.desired.detail(result.address).settings.get_text(RESULTS) if result is not None else ""
        recorder = _open_recorder(paths, seen, scratch, declared)
        if folder is None:
            recorder.require(chosen, ())
            return chosen, recorder.redeclare(chosen)
        with refuse_vanished(folder):
            found = find_runs(folder, user_conf, results)
            recorder.require(chosen, found)
            return chosen, tuple(item for run in found for item in recorder.record_run(chosen, run))


class DueSteps(NamedTuple):
    """The steps that a pass still runs for a cell: runs, and steps that follow from runs only."""

    runs: list[str]
    others: list[str]


def import_trees(
    paths: RepositoryPaths, options: Options, folders: Iterable[Path], declared: Mapping[str, str]
) -> tuple[ImportedTree, dict[Cell, DueSteps]]:
    """Record all runs below the folders; return the steps still due for the cells of the systems that made them."""
    with RepositoryLock(paths, purpose="import").acquire(), open_scratch(paths) as scratch:
        seen = compute_plan(paths, options)
        known = seen.desired.by_address
        cells = [cell for cell in trace_lineages(seen.desired) if RunAddress(cell, PERFORMANCE).address in known]
        tree = LogTree(_open_recorder(paths, seen, scratch, declared), cells).record(folders)
        systems = {cell.system for cell in tree.taken}
        due = {cell: DueSteps([], []) for cell in cells if cell.system in systems}
        for step in compute_plan(paths, options).plan.steps:
            at = step.change.address
            if at.cell in due and at.kind is not Kind.RESULT:
                due[at.cell][at.kind not in (Kind.RUN, Kind.COMPLIANCE_TEST)].append(at.label)
    return tree, due


def _open_recorder(
    paths: RepositoryPaths, seen: PlanResult, scratch: Path, declared: Mapping[str, str]
) -> ImportRecorder:
    context = ImportContext(scratch, TOOL, seen.spec, bool(git.list_dirty(paths.root, seen.spec)), declared)
    return ImportRecorder(paths, seen.desired, seen.recorded, context)


class AdoptedTree(Struct, frozen=True):
    """The result of adopting a tree. ``spec``: the written file, relative to the repository. ``reproduced``: the
    comparison of the records' rendering with the tree; None if they are declared for another round. ``round_evidence``:
    how its round was recognised, "" if the user named it."""

    spec: str
    adoption: Adoption
    reproduced: Reproduced | None
    round_evidence: str


def adopt_tree(
    paths: RepositoryPaths,
    path: Path,
    *,
    submitter: str,
    round_name: str,
    rehearsal: bool,
    output: Path | None,
    declared: Mapping[str, str],
) -> AdoptedTree:
    """Turn a submission tree into a spec and imported records. Raises ReconcilerError if nothing can be adopted,
    RepositoryError if the repository has specs."""
    tree = _read_submission(path, submitter, round_name, rehearsal=rehearsal)
    target = output.resolve() if output else paths.specs / f"{tree.submitter.lower()}.yaml"
    name = target.relative_to(paths.root).as_posix() if target.is_relative_to(paths.root) else str(target)
    _refuse_others(paths, target)
    with RepositoryLock(paths, purpose="adoption").acquire(), open_scratch(paths) as scratch:
        adoption, seen = _record_adoption(paths, tree, target, name, round_name, scratch, declared)
        reproduced = None if adoption.another_round else _compare_rendering(paths, tree, seen)
    recognised = tree.recognised if isinstance(tree, TakenTree) else None
    evidence = f"{recognised.name}, by {recognised.evidence}" if recognised else ""
    return AdoptedTree(name, adoption, reproduced, evidence)


def _read_submission(path: Path, submitter: str, round_name: str, *, rehearsal: bool) -> TakenTree | ProgramTree:
    if (program := find_program_of_tree(path)) is not None:
        tree: ProgramTree = program.read_submission(path, submitter, rehearsal=rehearsal)
        return tree
    return replace(read_tree(path, submitter, round_name), rehearsal=rehearsal)


def _refuse_others(paths: RepositoryPaths, target: Path) -> None:
    if leads_out(target, paths.root):
        raise SpecError([refuse_link(make_written_name(target, paths.root))])
    others = [p for p in paths.specs.glob("**/*") if p.suffix in (".yaml", ".yml") and not p.name.startswith(".")]
    if found := sorted(path for path in others if path != target):
        raise _make_specs_error([*found, *([target] if target.exists() else [])])


def _make_specs_error(paths: list[Path]) -> RepositoryError:
    return RepositoryError(
        f"this repository already has specs: {', '.join(p.name for p in paths[:4])}",
        fix="adopt in an empty repository: mkdir DIR && cd DIR && git init, then adopt; nothing was written",
    )


def _record_adoption(
    paths: RepositoryPaths,
    tree: TakenTree | ProgramTree,
    target: Path,
    name: str,
    round_name: str,
    scratch: Path,
    declared: Mapping[str, str],
) -> tuple[Adoption, PlanResult]:
    """Make the records under the tree's own round; the spec may then name another one. It is written last, so that a
    killed adoption declares nothing, and the next one makes the same records again."""
    if isinstance(tree, TakenTree):
        tree = refuse_odd_power(tree)
        documents = find_documents(tree)
        tree, unused = restore_settings(tree, documents)
    else:
        documents, unused = AdoptedDocuments({}, tree.find_files()), {}
    root = paths.root
    if any(item.measured_with for item in tree.cells):  # specs that name code are checked next to the code
        root = scratch / "repository"
        documents.copy(root)
    own = final = _declare_tree(tree, tree.ruleset, name, root, documents)
    if another := _find_another(tree, round_name):
        final = _declare_tree(tree, load_ruleset(another), name, root, documents)
    # The spec is written last: one with exactly this text comes from an adoption that was killed in its last moments,
    # or whose report was lost.
    if target.exists() and target.read_bytes() != final.text.encode():
        raise _make_specs_error([target])
    sweep_folders(documents.list_folders(paths.root))
    documents.copy(paths.root)
    recorded, stamps = load(paths).recorded, DigestCache(paths)
    compiled = compile_sources(paths, [Source(name, own.text, compute_blob_id(own.text.encode()))], recorded, stamps)
    context = ImportContext(scratch, TOOL, dict(compiled.spec), dirty=True, declared=declared)
    adoption = adopt_runs(own, ImportRecorder(paths, compiled.desired, recorded, context))
    unused |= {f"src/{benchmark}/{REPRODUCE}": why for benchmark, why in {**own.refused, **final.refused}.items()}
    adoption = replace(adoption, unused=unused)
    write(target, final.text.encode())
    if another:
        left = {**adoption.left_out, **final.left_out}
        adoption = replace(adoption, left_out=left, another_round=another, text=final.text)
    return adoption, compute_plan(paths, Options(specs=(name,)))


def _find_another(tree: TakenTree | ProgramTree, round_name: str) -> str:
    """Return the round for which to declare the results, if it is not their own."""
    if not isinstance(tree, TakenTree):
        tree.refuse_round(round_name)
        return ""
    return "" if round_name == tree.ruleset.round else round_name


def _declare_tree(
    tree: TakenTree | ProgramTree, ruleset: Ruleset, name: str, root: Path, documents: AdoptedDocuments
) -> DeclaredTree:
    def render(cells: list[TakenCell], left_out: Mapping[str, str]) -> str:
        if isinstance(tree, TakenTree):
            lines = render_spec(tree, ruleset, cells, left_out, documents.published)
            return "".join(f"{line}\n" for line in lines)
        return tree.render_spec(cells, left_out, documents.files)

    return declare(tree, ruleset, name, root, render)


def _compare_rendering(paths: RepositoryPaths, tree: TakenTree | ProgramTree, seen: PlanResult) -> Reproduced:
    content, ruleset = assemble_content(paths, seen.desired, seen.difference)
    if isinstance(tree, TakenTree):
        # The tree's layout may differ from its round's: its files' actual content decides.
        ruleset = replace(ruleset, layout=tree.places[0].layout)
    files = dict(render(content, ruleset))
    return compare_with(files, tree.folders, lambda ref: find_log(paths, ref).read_bytes(), tree.unreadable)
