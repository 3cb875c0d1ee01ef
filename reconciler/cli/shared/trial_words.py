"""What `try`, `tune` and `densify` share: settings as typed, the cell meant, and edits of the specs as patches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from reconciler.cli.shared.cells import find_cell
from reconciler.diff.conditions import trace_lineages
from reconciler.errors import ReconcilerError
from reconciler.reconcile.desired_cache import list_spec_paths
from reconciler.reconcile.planning import Options, PlanResult, compute_plan
from reconciler.resource.kinds import Cell
from reconciler.resource.settings import Trial
from reconciler.spec.cell_edit import edit_cell, render_patch
from reconciler.spec.files import Source, read_sources
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.leftovers import write_output
from reconciler.tune.trials import find_run

Settings = tuple[tuple[str, str], ...]


def patch_option() -> click.Option:
    return click.Option(
        ["-o", "--output"],
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write the patch there too, for `git apply FILE`.",
    )


def parse_settings(words: Sequence[str]) -> Settings:
    """``name=value`` words. A name is a path below the cell in the spec: target_qps, run.batch_size."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise click.UsageError(f"{word!r} is not a setting; write one as target_qps=250 or run.batch_size=8")
        if name in found:
            raise click.UsageError(f"{name} is given twice")
        found[name] = value
    return tuple(found.items())


def find_trial_cell(paths: RepositoryPaths, options: Options, text: str) -> tuple[PlanResult, Cell]:
    """A look at what is declared, and the one cell meant, which has runs of its own."""
    seen = compute_plan(paths, options)
    cell = find_cell(text, trace_lineages(seen.desired))
    find_run(seen, cell)
    return seen, cell


def propose_patch(paths: RepositoryPaths, options: Options, trial: Trial) -> str:
    """The edit of the specs that makes these settings the declared ones; "" where they are."""
    assert trial.cell is not None
    sources = read_spec_sources(paths, options)
    return render_patch(sources, edit_cell(sources, trial.cell, trial.settings))


def write_patch(patch: str, output: Path | None) -> str:
    """What there is to say of the file, "" where none is written."""
    if output is None or not patch:
        return ""
    write_output(output.absolute(), patch.encode())
    return f"Written to {output}; apply it with: git apply {output}"


def read_spec_sources(paths: RepositoryPaths, options: Options) -> list[Source]:
    """ReconcilerError where a file cannot be read."""
    sources, problems = read_sources(list_spec_paths(paths, options.specs), paths.root)
    if problems:
        raise ReconcilerError(str(problems[0]))
    return sources
