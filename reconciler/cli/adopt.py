"""`reconcile adopt PATH`: a whole submission tree becomes a spec and records."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import click

from reconciler.cli.import_ import declare_option, open_recorder, parse_declarations
from reconciler.cli.shared.options import json_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import IN_SYNC, NOT_IN_SYNC, RepositoryError
from reconciler.files import Lock, RepositoryPaths
from reconciler.files import replace as write
from reconciler.importing.adoption import Adoption, adopt_runs, copy_documents, copy_power, declare
from reconciler.importing.read_tree import TakenTree, read_tree
from reconciler.importing.tree_comparison import Reproduced, compare_with
from reconciler.mlperf.rules.rounds import load_ruleset
from reconciler.planning import Options, PlanResult, compute_plan
from reconciler.publishing.rendered_tree import assemble_content
from reconciler.quantities import show_count
from reconciler.record.index import load_record
from reconciler.record.store import find_readable
from reconciler.render.documents import render_document
from reconciler.resource.records import Artifact
from reconciler.tree.content import LogRef
from reconciler.tree.render import render

_LISTED = 12
_PATH = click.Argument(["path"], metavar="PATH", type=click.Path(exists=True, file_okay=False, path_type=Path))
_SUBMITTER = click.Option(["--submitter"], default="", metavar="NAME", help="Whose results, where there are several.")
_ROUND = click.Option(
    ["--round", "round_name"],
    default="",
    metavar="ROUND",
    help="Declare them for this round instead: settings stay, every performance run is stale.",
)
_REHEARSAL = click.Option(
    ["--rehearsal"], is_flag=True, help="Take runs that the round would refuse too; nothing of it can be packed."
)
_OUTPUT = click.Option(
    ["-o", "--output"],
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The spec to write; by default specs/<submitter>.yaml.",
)


@click.command("adopt")
@takes([_PATH, _SUBMITTER, _ROUND, _REHEARSAL, _OUTPUT, declare_option(), json_option()])
def command(
    path: Path,
    submitter: str,
    round_name: str,
    rehearsal: bool,
    output: Path | None,
    declare: tuple[str, ...],
    as_json: bool,
) -> int:
    """Turn the submission tree at PATH, of whatever layout, into a spec and imported records in this repository.

    Settings are read from the logs. `plan` has nothing to run afterwards, and the tree is rendered from the records;
    what of it cannot be derived is listed.
    """
    declared = parse_declarations(declare)
    places = find_repository()
    tree = replace(read_tree(path, submitter), rehearsal=rehearsal)
    target = output.resolve() if output else places.specs / f"{tree.submitter.lower()}.yaml"
    _refuse(places, target)
    places.work.mkdir(parents=True, exist_ok=True)
    with Lock(places.pass_lock, purpose="adoption").acquire(), tempfile.TemporaryDirectory(dir=places.work) as scratch:
        adoption, seen = _adopt(places, tree, target, round_name, Path(scratch), declared)
        reproduced = None if adoption.another_round else _reproduced(places, tree, seen)
    if as_json:
        say_json(_document(adoption, reproduced, places, target))
    else:
        say(_text(adoption, reproduced, places, target))
    return NOT_IN_SYNC if adoption.left_out else IN_SYNC


def _refuse(places: RepositoryPaths, target: Path) -> None:
    others = sorted(p for p in places.specs.glob("**/*") if p.suffix in (".yaml", ".yml"))
    if target.exists() or others:
        raise RepositoryError(
            f"this repository has specs already: {', '.join(p.name for p in [*others, target][:4])}",
            fix="adopt in a repository without any: mkdir DIR && cd DIR && git init, then adopt; nothing was written",
        )


def _adopt(
    places: RepositoryPaths, tree: TakenTree, target: Path, round_name: str, scratch: Path, declared: dict[str, str]
) -> tuple[Adoption, PlanResult]:
    """The records are made under the tree's own round; the spec may then name another one."""
    name = target.relative_to(places.root).as_posix() if target.is_relative_to(places.root) else str(target)
    published = copy_documents(tree, places.root)
    tree = copy_power(tree, places.root)
    own = declare(tree, tree.ruleset, name, places.root, published)
    write(target, own.text.encode())
    options = Options(specs=(name,))
    seen = compute_plan(places, options)
    recorder = open_recorder(places, seen, scratch, declared)
    adoption = adopt_runs(own, recorder)
    if round_name and round_name != tree.ruleset.round:
        other = declare(tree, load_ruleset(round_name), name, places.root, published)
        write(target, other.text.encode())
        left = {**adoption.left_out, **other.left_out}
        adoption = replace(adoption, left_out=left, another_round=round_name, text=other.text)
    return adoption, compute_plan(places, options)


def _reproduced(places: RepositoryPaths, tree: TakenTree, seen: PlanResult) -> Reproduced:
    def stored(ref: LogRef) -> Path:
        return find_readable(places, Artifact("", ref.sha256, ref.size, "logs"))

    content, ruleset = assemble_content(
        places, seen.desired, seen.difference, lambda identity: load_record(places, identity), stored
    )
    folders = {f"{place.division}/{place.submitter}": place.path for place in tree.places}
    # The tree may have another layout than its round: what counts is what its files hold.
    ruleset = replace(ruleset, layout=tree.places[0].layout)
    return compare_with(dict(render(content, ruleset)), folders, lambda ref: stored(ref).read_bytes(), tree.holds)


def _text(adoption: Adoption, reproduced: Reproduced | None, places: RepositoryPaths, target: Path) -> str:
    lines = [
        f"Wrote {_shown(target, places)}: {show_count(adoption.cells, 'cell')} "
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


def _shown(path: Path, places: RepositoryPaths) -> str:
    return path.relative_to(places.root).as_posix() if path.is_relative_to(places.root) else str(path)


def _document(
    adoption: Adoption, reproduced: Reproduced | None, places: RepositoryPaths, target: Path
) -> dict[str, object]:
    return render_document(
        "adopt",
        spec=_shown(target, places),
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
