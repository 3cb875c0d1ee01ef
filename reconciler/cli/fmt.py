"""`reconcile fmt [SPEC…]`: specs in one form, comments and all values kept."""

from __future__ import annotations

import difflib

import click

from reconciler.cli.shared.options import takes
from reconciler.cli.shared.output import say
from reconciler.cli.shared.repository import find_repository, show_from_root
from reconciler.errors import IN_SYNC, NOT_IN_SYNC, SpecError
from reconciler.reconcile.desired_cache import list_spec_paths
from reconciler.spec.files import read_sources
from reconciler.spec.formatting import format_spec
from reconciler.storage.files import replace
from reconciler.storage.leftovers import sweep_siblings

_SPECS = click.Argument(["specs"], nargs=-1, metavar="[SPEC]...", type=click.Path())
_CHECK = click.Option(["--check"], is_flag=True, help="Change nothing; show what would change, and exit 2 for it.")


@click.command("fmt")
@takes([_SPECS, _CHECK])
def command(specs: tuple[str, ...], check: bool) -> int:
    """Format SPEC (by default all files in specs/) uniformly: trailing spaces, line endings, empty lines.

    Comments, order and every value stay as they are; a file whose content would change is left alone.
    """
    paths = find_repository(specs)
    spec_paths = list_spec_paths(paths, [show_from_root(paths, spec) for spec in specs])
    sources, problems = read_sources(spec_paths, paths.root)
    if problems:
        raise SpecError(problems)
    changed = 0
    for source in sources:
        formatted = format_spec(source.text, source.name)
        path = paths.root / source.name
        if formatted.encode() == path.read_bytes():
            continue
        changed += 1
        if check:
            before, after = source.text.splitlines(), formatted.splitlines()
            for line in difflib.unified_diff(before, after, source.name, source.name, n=1, lineterm=""):
                say(line)
        else:
            sweep_siblings(path)
            replace(path, formatted.encode())
            say(f"Formatted {source.name}.")
    if not changed:
        say("Nothing to change.")
    return NOT_IN_SYNC if check and changed else IN_SYNC
