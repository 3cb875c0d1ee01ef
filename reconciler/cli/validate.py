"""`reconcile validate [SPEC…]`: are the specs right?"""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from reconciler.cli.shared.options import json_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.repository import find_repository, show_from_root
from reconciler.desired.checks import check, load_ruleset_of
from reconciler.desired.compile import compile_desired
from reconciler.desired.state import Desired, Pins
from reconciler.desired_cache import list_spec_paths
from reconciler.errors import IN_SYNC
from reconciler.mlperf.rules.rounds import load_ruleset
from reconciler.quantities import join_listing, show_count
from reconciler.render.documents import render_document
from reconciler.spec.declared import Declared
from reconciler.spec.loading import list_left_out, load

_SPECS = click.Argument(["specs"], nargs=-1, metavar="[SPEC]...", type=click.Path())


@click.command("validate")
@takes([_SPECS, json_option()])
def command(specs: tuple[str, ...], as_json: bool) -> int:
    """Check SPEC (by default all files in specs/): syntax, names, units, merging, and the rules of the round.

    Needs no model, data or device. Every problem is named in one run.
    """
    declared, desired, left_out = _read(specs)
    files = [file.path for file in declared.files]
    if as_json:
        counts = {"cells": len(declared.cells), "resources": len(desired.resources)}
        missing = list(desired.missing_cells)
        said = {"missing_cells": missing, "notes": list(desired.notes), "left_out": list(left_out), **counts}
        say_json(render_document("validate", valid=True, problems=[], files=files, **said))
        return IN_SYNC
    cells, resources = show_count(len(declared.cells), "cell"), show_count(len(desired.resources), "resource")
    say(f"Valid: {join_listing(files)} ({cells}, {resources}, round {declared.round.value}).")
    if left_out:
        say(f"Left out, since they apply only when they are named: {join_listing(left_out)}")
    for cell in desired.missing_cells:
        say(f"Not declared, but required by the round: {cell}")
    for note in desired.notes:
        say(note)
    return IN_SYNC


def _read(specs: Sequence[str]) -> tuple[Declared, Desired, tuple[str, ...]]:
    paths = find_repository(specs)
    spec_paths = list_spec_paths(paths, [show_from_root(paths, spec) for spec in specs])
    declared = load(spec_paths, paths.root, os.environ)
    ruleset = load_ruleset_of(declared, load_ruleset)
    check(declared, ruleset)
    return declared, compile_desired(declared, ruleset, Pins())[0], list_left_out(spec_paths, paths.root)
