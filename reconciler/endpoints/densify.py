"""`reconcile densify CURVE`: suggest more points where a measured curve bends, and the edit of the spec for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from reconciler.cli.shared.options import json_option, spec_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.trials import PATCH_FILE, write_patch
from reconciler.endpoints.views.curve_status import CurveStatus, list_curves, render_denser_text
from reconciler.errors import IN_SYNC, ReconcilerError, SpecError
from reconciler.reconcile.desired_cache import list_spec_paths
from reconciler.reconcile.planning import compute_plan
from reconciler.render.documents import render_document
from reconciler.spec.cell_edit import edit_source, has_path, render_patch
from reconciler.spec.edit import EditError, append_values
from reconciler.spec.files import Source, read_readable_sources

_CURVE = click.Argument(["curve"], required=False, metavar="[CURVE]")
_COUNT = click.Option(
    ["--count"], type=click.IntRange(min=1), default=2, show_default=True, metavar="N", help="Add at most this many."
)


@click.command("densify")
@takes([_CURVE, _COUNT, PATCH_FILE, spec_option(), json_option()])
def command(curve: str | None, count: int, output: Path | None, specs: tuple[str, ...], as_json: bool) -> int:
    """Propose further points of CURVE (DIVISION/SYSTEM/BENCHMARK) next to the sharpest bends of the measured curve.

    Adds no more points than the rules allow. Prints the edit as a patch; the spec is unchanged. CURVE may be left out
    if the spec declares only one.
    """
    paths, options = find_asked_cells(specs)
    found = _find_curve(list_curves(compute_plan(paths, options), count), curve)
    sources = read_readable_sources(list_spec_paths(paths, options.specs), paths.root)
    patch = render_patch(sources, add_points(sources, found.curve, found.denser)) if found.denser else ""
    written = write_patch(patch, output)
    if as_json:
        document = {"curve": found.curve, "points": found.denser, "seconds": found.seconds, "patch": patch}
        say_json(render_document("densify", **document))
    else:
        say(render_denser_text(found, patch))
        if written:
            say(written)
    return IN_SYNC


def _find_curve(curves: tuple[CurveStatus, ...], name: str | None) -> CurveStatus:
    if not curves:
        fix = "`reconcile help endpoints` explains how to declare one"
        raise ReconcilerError("the spec declares no curve", fix=fix)
    meant = [curve for curve in curves if name in (None, curve.curve)]
    if len(meant) == 1:
        return meant[0]
    known = "name one of " + ", ".join(curve.curve for curve in curves)
    raise ReconcilerError("the spec declares several curves" if name is None else f"no such curve: {name!r}", fix=known)


def add_points(sources: Sequence[Source], curve: str, points: Sequence[int]) -> list[Source]:
    """Return the sources, with further ``points`` in the one that declares ``curve``: DIVISION/SYSTEM/BENCHMARK."""
    path = "spec", "divisions", *curve.split("/"), "points"
    for index, source in enumerate(sources):
        if not has_path(source, path):
            continue
        try:
            text = append_values(source.text, path, points)
        except (EditError, SpecError) as error:
            fix = f"add them to `points` of the curve in the spec: {', '.join(map(str, points))}"
            raise ReconcilerError(f"{source.name}: points cannot be added to {curve}: {error}", fix=fix) from error
        return [*sources[:index], edit_source(source, text), *sources[index + 1 :]]
    raise ReconcilerError(f"no spec file declares the points of {curve}", fix="add them to spec.divisions in one file")
