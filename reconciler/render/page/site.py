"""Views as HTML: a document becomes the variables of a template, and everything in it is escaped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from reconciler.escaping import escape_hidden
from reconciler.quantities import show_count, show_duration, show_rate, show_size
from reconciler.render.page.cell_view import arrange_cell
from reconciler.render.page.links import Links
from reconciler.render.page.live_view import arrange_live
from reconciler.render.page.matrix_view import arrange_matrix
from reconciler.render.page.source import PageSource

VIEWS = (("", "Matrix"), ("live", "Live"))
_POLL, _POLL_TIMED, _POLL_IDLE = 1.0, 2.0, 3.0  # seconds between looks at a pass; where nothing runs


@dataclass
class Site:
    """``files``: every view as a file of an export."""

    source: PageSource
    files: bool = False

    @cached_property
    def _environment(self) -> Environment:
        environment = Environment(
            loader=PackageLoader("reconciler.render.page"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
        )
        filters: dict[str, Callable[..., str]] = {
            "duration": lambda value: show_duration(value) if value is not None else "",
            "size": show_size,
            "rate": lambda value: show_rate(value) if value is not None else "",
            "count": show_count,
            "moment": lambda text: f"{text[:16].replace('T', ' ')} UTC" if text else "",
        }
        environment.filters.update(filters)
        environment.globals.update(views=VIEWS, files=self.files)
        return environment

    def render(self, template: str, links: Links, at: str, **variables: Any) -> str:
        """``at``: the view of VIEWS that is shown as chosen. What nobody would see is written out."""
        shown = {"links": links, "at": at, "repository": self.source.name, **variables}
        return escape_hidden(self._environment.get_template(template).render(shown))

    def show_matrix(self, links: Links) -> str:
        return self.render("matrix.html", links, "", **arrange_matrix(self.source.read_matrix()))

    def show_cell(self, cell: str, links: Links) -> str:
        document = self.source.read_cell(cell)
        return self.render("cell.html", links, "", **arrange_cell(document))

    def show_live(self, links: Links) -> str:
        return self.render("live.html", links, "live", title="Live", **arrange_live(self.source.read_live()))

    def read_live_part(self) -> tuple[str, float]:
        """What a viewer of the live view sees now, and for how many seconds it may stand."""
        document = self.source.read_live()
        pause = _POLL_TIMED if document["timed"] else _POLL if document["running"] else _POLL_IDLE
        return self.render("live_part.html", Links(), "live", **arrange_live(document)), pause

    def show_log(self, cell: str, name: str, links: Links) -> str:
        return self.render("log.html", links, "", **self.source.read_log(cell, name))

    def show_problem(self, title: str, message: str, fix: str, links: Links) -> str:
        return self.render("problem.html", links, "-", title=title, message=message, fix=fix)
