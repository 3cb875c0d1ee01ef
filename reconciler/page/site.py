"""Views as HTML: a document supplies the variables of a template, and everything in it is escaped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from jinja2 import Environment, Template
from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.page.cell_view import arrange_cell
from reconciler.page.charts import chart_history, draw_charts
from reconciler.page.history_view import arrange_comparison, arrange_history, arrange_recent
from reconciler.page.links import Links
from reconciler.page.live_view import arrange_live
from reconciler.page.matrix_view import NOTHING, UnderWay, arrange_matrix, list_under_way, load_program_page
from reconciler.page.plan_view import arrange_plan
from reconciler.page.plots import THEMES, can_draw, describe_plot, describe_theme
from reconciler.page.repository_page import FINDINGS, RepositoryPage
from reconciler.render.charts import Chart, find_curve
from reconciler.render.documents import Document
from reconciler.render.html import make_environment
from reconciler.resource.rules import Severity
from reconciler.rules.programs import load_programs
from reconciler.storage.escaping import escape_hidden

# Findings of `check` and `verify-tree`, by cause and individually.

_WORST = [severity.value for severity in Severity]  # the worst severity first
_MOST_FINDINGS = 3000  # maximum number of findings shown
_OPEN_FINDINGS = 12  # maximum number of findings shown without opening their group


def arrange_findings(document: Document, cells: Collection[str]) -> Document:
    """Arrange the findings. ``cells``: those that have a view, to which findings link."""
    found = sorted(document["findings"], key=lambda finding: _WORST.index(finding["severity"]))
    return {
        "rounds": " and ".join(document["rounds"]),
        "clean": document["clean"],
        "counts": [(name, number) for name, number in document["counts"].items() if number],
        "looked_at": len(document["results"]),
        "causes": sorted(document["causes"], key=lambda cause: _WORST.index(cause["severity"])),
        "cells": cells,
        "groups": list(_group_by_cell(found[:_MOST_FINDINGS])),
        "all_open": len(found) <= _OPEN_FINDINGS,
        "left_out": max(0, len(found) - _MOST_FINDINGS),
        "gaps": list(document["gaps"]["reasons"].items()),
        "severities": list(dict.fromkeys(f["severity"] for f in found)),
        "submitters": sorted({f["submitter"] for f in found if f["submitter"]}),
        "rules": sorted({f["rule"] for f in found}),
    }


def _group_by_cell(found: Iterable[Document]) -> Iterator[Document]:
    """Group findings by submitter and cell; the group with the worst finding comes first."""
    groups: dict[tuple[str, str], list[Document]] = {}
    for finding in found:
        place = f"{finding['file']}:{finding['line']}" if finding["line"] else finding["file"]
        shown = {**finding, "place": place, "subject": finding["cell"] or "the tree"}
        groups.setdefault((finding["submitter"], finding["cell"]), []).append(shown)
    for (submitter, cell), findings in groups.items():
        yield {"submitter": submitter, "subject": cell or "the tree", "findings": findings}


_POLL, _POLL_TIMED, _POLL_IDLE = 1.0, 2.0, 3.0  # seconds between updates of a pass; the last if nothing runs


class Site(Struct, dict=True):
    """``files``: whether every view is a file of an export."""

    source: RepositoryPage
    files: bool = False
    _matrix: tuple[Document, Links, UnderWay, str] | None = None

    @cached_property
    def _environment(self) -> Environment:
        environment = make_environment(__package__)
        plotting = {theme: describe_theme(theme) for theme in THEMES} if can_draw() else None
        views = [(view.name, view.title) for view in VIEWS if view.title]
        environment.globals.update(views=views, files=self.files, plotting=plotting)
        environment.filters["vega"] = describe_plot
        return environment

    def render(self, template: str, links: Links, at: str, **variables: Any) -> str:
        """Render a view. ``at``: the view of VIEWS that is shown as selected. Invisible characters are escaped."""
        return self._render(self._environment.get_template(template), links, at, **variables)

    def _render(self, template: Template, links: Links, at: str, **variables: Any) -> str:
        shown = {"links": links, "at": at, "repository": self.source.name, **variables}
        return escape_hidden(template.render(shown))

    def _list_cells(self) -> list[str]:
        return [entry["cell"] for entry in self.source.read_matrix()["cells"]]

    def show_matrix(self, links: Links) -> str:
        """Render the matrix once for all viewers, as long as it does not change."""
        document = self.source.read_matrix()
        under_way = NOTHING if self.files else list_under_way(self.source.read_live())
        if self._matrix is None or self._matrix[0] is not document or self._matrix[1:3] != (links, under_way):
            shown = self.render("matrix.html", links, "", **arrange_matrix(document, under_way))
            self._matrix = document, links, under_way, shown
        return self._matrix[3]

    def show_cell(self, cell: str, links: Links, other: str = "") -> str:
        """Show a cell. ``other``: another performance run, whose curves are drawn over those of the run that counts."""
        document = self.source.read_cell(cell)
        under_way = NOTHING if self.files else list_under_way(self.source.read_live())
        compared = self.source.read_run(cell, other) if other else None
        return self.render("cell.html", links, "", **arrange_cell(document, under_way, compared))

    def show_curve(self, curve: str, links: Links) -> str:
        matrix = self.source.read_matrix()
        find_curve(matrix, curve)
        page = load_program_page(curve)
        template = self._environment.from_string(page.read_template())
        return self._render(template, links, "", **page.arrange_curve(matrix, curve))

    def list_curves(self) -> list[str]:
        return [curve["curve"] for curve in self.source.read_matrix()["curves"]]

    def list_curve_charts(self, curve: str) -> tuple[Chart, ...]:
        found = find_curve(self.source.read_matrix(), curve)
        return load_program_page(curve).draw_curve(found)

    def show_live(self, links: Links) -> str:
        """Show the pass in progress, or the last. Links of an export lead only to the cells that it contains."""
        known = {"cells": self._list_cells()} if self.files else {}
        return self.render("live.html", links, "live", title="Live", **arrange_live(self.source.read_live()), **known)

    def read_live_part(self) -> tuple[str, float]:
        """Read the current live view, and for how many seconds it is valid."""
        document = self.source.read_live()
        pause = _POLL_TIMED if document["timed"] else _POLL if document["running"] else _POLL_IDLE
        return self.render("live_part.html", Links(), "live", **arrange_live(document)), pause

    def show_plan(self, links: Links, base: str = "", head: str = "") -> str:
        """Show the plan. ``base``: a commit into which ``head`` would be merged."""
        impact = self.source.read_impact(base, head or "HEAD") if base else None
        asked = {"base": base, "head": head, "refs": self.source.list_refs()}
        return self.render("plan.html", links, "plan", **arrange_plan(self.source.read_plan(), impact), **asked)

    def show_history(self, links: Links, cell: str = "", one: str = "", other: str = "") -> str:
        known = {
            "refs": self.source.list_refs(),
            "systems": self.source.list_systems(),
            "trees": self.source.list_trees()[1:],
            "cells": self._list_cells(),
        }
        histories = [arrange_history(self.source.read_history(cell))] if cell else []
        comparisons = [arrange_comparison(self.source.read_comparison(one, other))] if one and other else []
        asked = {"cell": cell, "one": one, "other": other}
        found = {"histories": histories, "comparisons": comparisons, **self._show_recent(unasked=not (cell or one))}
        return self.render("history.html", links, "history", title="History", **known, **asked, **found)

    def _show_recent(self, *, unasked: bool) -> Document:
        """Return the newest results; none before the first commit."""
        try:
            return {"recent": arrange_recent(self.source.read_recent()) if unasked else [], "problem": None}
        except ReconcilerError as error:
            return {"recent": [], "problem": error}

    def show_all_history(self, links: Links, compared: tuple[str, str] | None = None) -> str:
        """Show every cell of the matrix that has committed results, one below another, and one comparison."""
        cells = self._list_cells()
        histories = []
        for cell in cells:
            try:
                history = self.source.read_history(cell)
            except ReconcilerError:
                continue  # without committed results, or before the first commit
            histories.append(arrange_history(history))
        comparisons = [arrange_comparison(self.source.read_comparison(*compared))] if compared else []
        found = {"cells": cells, "histories": histories, "comparisons": comparisons, "recent": [], "problem": None}
        return self.render("history.html", links, "history", title="History", **found)

    def show_findings(self, links: Links, tree: str = "", command: str = "") -> str:
        trees = self.source.list_trees()
        tree, command = tree or trees[0], command or "check"
        asked = {"title": "Findings", "trees": trees, "tree": tree, "commands": FINDINGS, "command": command}
        if tree not in trees:
            raise ReconcilerError(f"there is no tree {tree!r} to look at", fix="name it: reconcile page --tree PATH")
        cells = self._list_cells()
        try:
            document = {"problem": None, **arrange_findings(self.source.read_findings(tree, command), cells)}
        except ReconcilerError as error:
            document = {"problem": error}
        return self.render("findings.html", links, "findings", **{**asked, **document})

    def draw_chart(self, cell: str, name: str) -> Chart:
        """Draw a chart of ``cell``, a cell or a curve. Raises ReconcilerError if there is nothing to plot."""
        if name in list_curve_charts():
            found = [chart for chart in self.list_curve_charts(cell) if chart.name == name]
        elif name == "history":
            found = [chart] if (chart := chart_history(self.source.read_history(cell))) else []
        else:
            found = [chart for chart in draw_charts(self.source.read_cell(cell)) if chart.name == name]
        if not found:
            raise ReconcilerError(f"{cell}: there is nothing to plot as {name!r}", fix="`reconcile` measures it")
        return found[0]

    def show_spec(self, links: Links, file: str) -> str:
        return self.render("spec.html", links, "", **self.source.read_spec(file))

    def show_log(self, links: Links, cell: str = "", name: str = "") -> str:
        return self.render("log.html", links, "", **self.source.read_log(cell, name))

    def show_problem(self, title: str, message: str, fix: str, links: Links) -> str:
        return self.render("problem.html", links, "-", title=title, message=message, fix=fix)


def list_curve_charts() -> tuple[str, ...]:
    """List the names of the charts of curves, the default first."""
    return tuple(name for program in load_programs() for name in program.load_page().CHARTS)


class View(NamedTuple):
    """``name``: the view's name in its address, and in its file name in an export. ``title``: the text of its link on
    every page, "" for none. ``asked``: the parameters of its address, which ``show`` takes in this order after the
    links."""

    name: str
    title: str
    show: Callable[..., str]
    asked: tuple[str, ...] = ()


VIEWS = (
    View("", "Matrix", Site.show_matrix),
    View("live", "Live", Site.show_live),
    View("plan", "Plan", Site.show_plan, ("base", "head")),
    View("history", "History", Site.show_history, ("cell", "one", "other")),
    View("findings", "Findings", Site.show_findings, ("tree", "command")),
    View("spec", "", Site.show_spec, ("file",)),
    View("log", "", Site.show_log, ("cell", "name")),
)
