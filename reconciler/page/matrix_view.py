"""Cells x conditions: a table for each division and system, with what a filter of the address bar compares."""

from __future__ import annotations

from typing import Any

from reconciler.render.charts import ProgramPage
from reconciler.render.documents import Document
from reconciler.render.status import render_metric_text
from reconciler.resource.conditions import CONDITIONS, NOT_REQUIRED
from reconciler.resource.programs import PROGRAMS, find_program, find_program_of_division
from reconciler.rules.programs import load_program

WORDS = {"True": "ok", "False": "no", "Unknown": "?"}
_CLASSES = {"True": "ok", "False": "no", "Unknown": "maybe"}
_FACETS = ("division", "system", "benchmark", "scenario")


def load_program_page(curve: str) -> ProgramPage:
    page: ProgramPage = load_program(find_program_of_division(curve.partition("/")[0])).load_page()
    return page


def arrange_matrix(document: Document) -> Document:
    groups: dict[tuple[str, str], list[Document]] = {}
    values: dict[str, dict[str, None]] = {name: {} for name in _FACETS}
    for entry in document["cells"]:
        parts = dict(zip(_FACETS, split_cell(entry["cell"]), strict=True))
        for name, part in parts.items():
            values[name][part] = None
        groups.setdefault((parts["division"], parts["system"]), []).append(_row(entry, parts))
    rows = [row for group in groups.values() for row in group]
    _open_curves(document["curves"], rows)
    columns = [name for i, name in enumerate(CONDITIONS) if any(not row["marks"][i]["absent"] for row in rows)]
    for row in [*rows, *(row["opens"] for row in rows if row["opens"])]:
        row["marks"] = [mark for name, mark in zip(CONDITIONS, row["marks"], strict=True) if name in columns]
    return {
        "title": "Matrix",
        "submission": document["submission"],
        "program": name_program(document["round"]),
        "looked": document["looked"],
        "facets": [(name, list(found)) for name, found in values.items()],
        "columns": columns,
        "groups": [{"division": d, "system": s, "rows": found} for (d, s), found in groups.items()],
        "count": len(rows),
        "ready": sum(entry["ready"] == "True" for entry in document["cells"]),
        "findings": document["findings"],
    }


def _open_curves(curves: list[Document], rows: list[Document]) -> None:
    """Before the first point of each curve there is a row of the curve itself."""
    for curve in curves:
        own = [row for row in rows if find_curve_name(row["cell"]) == curve["curve"]]
        if own:
            own[0]["opens"] = load_program_page(curve["curve"]).sum_up_curve(curve, own)


def name_program(round_name: str) -> str:
    """As people call it, with the version of its rules or its round."""
    program = find_program(round_name)
    title = PROGRAMS[program].title if program else "Inference"
    return f"MLPerf {title} {round_name.removeprefix(f'{program}-')}"


def find_curve_name(cell: str) -> str:
    """The curve that a cell is a point of; "" for a cell of MLPerf Inference."""
    return cell.rpartition("/")[0] if find_program_of_division(cell.partition("/")[0]) else ""


def split_cell(cell: str) -> list[str]:
    """Division, system, benchmark, scenario."""
    first, *middle, last = cell.split("/")
    return [first, middle[0], "/".join(middle[1:]), last]


def mark_condition(condition: Document) -> dict[str, Any]:
    """One cell of the matrix: a word, its class, and what to say on pointing at it."""
    absent = condition["reason"] == NOT_REQUIRED
    said = ": ".join(filter(None, [condition["reason"], condition["message"]]))
    return {
        "word": "-" if absent else WORDS[condition["status"]],
        "kind": "absent" if absent else _CLASSES[condition["status"]],
        "absent": absent,
        "said": "" if condition["status"] == "True" else said,
    }


def _row(entry: Document, parts: dict[str, str]) -> Document:
    marks = [mark_condition(condition) for condition in entry["conditions"]]
    return {
        **parts,
        "cell": entry["cell"],
        "state": "ready" if entry["ready"] == "True" else "due",
        "marks": marks,
        "metric": render_measured(entry["metric"]),
        "accuracy": render_measured(entry["accuracy"]),
        "steps": entry["steps"],
        "notes": ", ".join([*_list_notes(entry), *entry["marks"]]),
        "opens": None,
    }


def _list_notes(entry: Document) -> list[str]:
    efficiency = [render_measured(entry["efficiency"])] if entry["efficiency"] else []
    return efficiency + ([entry["validity"]] if entry["validity"] == "INVALID" else [])


def render_measured(measured: Document | None) -> str:
    return render_metric_text((measured["value"], measured["unit"])) if measured else ""
