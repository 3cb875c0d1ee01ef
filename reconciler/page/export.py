"""The page as files that need no server: every view, every cell, and its plots in both colour schemes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.page.cell_view import list_comparable_runs
from reconciler.page.links import (
    Links,
    find_root,
    name_cell_file,
    name_curve_file,
    name_findings_file,
    name_run_file,
    name_spec_file,
)
from reconciler.page.plots import bundle_script, can_draw
from reconciler.page.repository_page import FINDINGS
from reconciler.page.server import STATIC, VEGA
from reconciler.page.site import VIEWS, Site
from reconciler.render.html import read_static
from reconciler.storage.files import is_leftover, replace
from reconciler.storage.leftovers import sweep

_BEGUN = "static"  # the folder that an export writes first, followed by index.html


class Exported(Struct, frozen=True):
    """``drawn``: whether it has plots, which need vl-convert."""

    files: int
    cells: int
    drawn: bool


def export_site(
    site: Site, folder: Path, *, base: str = "", compared: tuple[str, str] | None = None, on_cell: Callable[[str], None]
) -> Exported:
    """Write over an earlier export, never into a folder with other contents. ``base``: also show the effects of merging
    HEAD into it; ``on_cell`` is called for each cell. Nothing is written if ``base`` or ``compared`` is unknown."""
    _require_ours(folder)
    cells = [entry["cell"] for entry in site.source.read_matrix()["cells"]]
    views = tuple(_render_views(site, base, compared))
    sweep(folder)
    written = 0
    for name, data in itertools.chain(views, _render_cells(site, cells, on_cell)):
        replace(folder / name, data, durable=False)
        written += 1
    return Exported(written, len(cells), can_draw())


def _render_views(site: Site, base: str, compared: tuple[str, str] | None) -> Iterator[tuple[str, bytes]]:
    top = Links(files=True)
    for name in STATIC:
        yield f"static/{name}", read_static(name, __package__)
    if can_draw():
        yield f"static/{VEGA}", bundle_script()
    for view in VIEWS:
        if not view.asked:
            yield f"{view.name or 'index'}.html", view.show(site, top).encode()
    yield "plan.html", site.show_plan(top, base).encode()
    yield "history.html", site.show_all_history(top, compared).encode()
    for file in site.source.list_specs():
        yield (name := name_spec_file(file)), site.show_spec(_make_links(name), file).encode()
    for number, tree in enumerate(site.source.list_trees()):
        for command in FINDINGS:
            yield name_findings_file(command, number), site.show_findings(top, tree, command).encode()


def _render_cells(site: Site, cells: Sequence[str], on_cell: Callable[[str], None]) -> Iterator[tuple[str, bytes]]:
    for cell in cells:
        on_cell(cell)
        yield (name := name_cell_file(cell)), site.show_cell(cell, _make_links(name)).encode()
        for record in list_comparable_runs(site.source.read_cell(cell)):
            yield (name := name_run_file(cell, record)), site.show_cell(cell, _make_links(name), record).encode()
    for curve in site.list_curves():
        yield (name := name_curve_file(curve)), site.show_curve(curve, _make_links(name)).encode()


def _make_links(name: str) -> Links:
    return Links(find_root(name), files=True)


def _require_ours(folder: Path) -> None:
    """Require an empty or missing folder, or an earlier export, possibly incomplete: any other file is the user's."""
    try:
        found = _list_names(folder)
        parts = _list_names(folder / _BEGUN) if _BEGUN in found else set()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ReconcilerError(f"cannot write into {folder}: {error.strerror}", fix="name another folder") from error
    whole = {*STATIC} <= parts and "index.html" in found
    if found and (parts - {*STATIC, VEGA} or not (whole or found == {_BEGUN})):
        raise ReconcilerError(f"{folder} contains files that are not an export", fix="name a new or an empty folder")


def _list_names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not is_leftover(path.name)}
