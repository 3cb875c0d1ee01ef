"""Cells x conditions: a table for each division and system, with the keys for the filter of the address bar."""

from __future__ import annotations

import itertools
from collections import Counter
from decimal import Decimal
from typing import Any

from msgspec import Struct

from reconciler.render.charts import ProgramPage
from reconciler.render.documents import Document
from reconciler.render.status import render_metric_text
from reconciler.resource.conditions import NOT_REQUIRED, describe_reason
from reconciler.resource.kinds import ALL_DIVISIONS
from reconciler.resource.programs import PROGRAMS, find_program, find_program_of_division
from reconciler.resource.quantities import show_rate
from reconciler.resource.records import is_thin
from reconciler.rules.programs import load_program

WORDS = {"True": "ok", "False": "no", "Unknown": "?"}
_CLASSES = {"True": "ok", "False": "no", "Unknown": "maybe"}
_COLUMNS = ("margin", "percent")  # next to the result, for the systems that have any
_SLASHES = 3  # in a cell's name
_FACETS = ("division", "system", "benchmark", "scenario")
_SHORT = {"samples/s": "/s", "queries/s": "/s", "tokens/s": "tok/s"}  # for a square; its notes have the full unit
_FAILED, _NEVER = "PreviousAttemptFailed", "NotRecorded"  # reasons of a condition
_REMADE = ("ArtifactMissing", "ArtifactCorrupt")  # reasons that may concern a file shared with a cell that has steps
# State of a cell → its meaning. The first that applies.
STATES = {
    "running": "is being measured now",
    "waiting": "the pass in progress will measure it",
    "ready": "measured as declared, valid and rendered",
    "invalid": "measured, and LoadGen calls the run INVALID",
    "failed": "an attempt failed, or a result is not good enough",
    "unmeasured": "not measured yet",
    "stale": "measured, but an input differs or a file is missing",
}


def load_program_page(curve: str) -> ProgramPage:
    page: ProgramPage = load_program(find_program_of_division(curve.partition("/")[0])).load_page()
    return page


class UnderWay(Struct, frozen=True):
    """Cells of the pass in progress: those being measured now, and those that follow."""

    running: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()


NOTHING = UnderWay()


def list_under_way(live: Document) -> UnderWay:
    later = (step["cell"] for step in [*live["next"], *live["jobs"]])
    return UnderWay(frozenset(attempt["cell"] for attempt in live["attempts"]), frozenset(filter(None, later)))


def arrange_matrix(document: Document, under_way: UnderWay) -> Document:
    """Arrange a grid for each division: benchmarks by systems, with the scenarios in each square."""
    rows = [_arrange_cell(entry, under_way) for entry in document["cells"]]
    _open_curves(document["curves"], rows)
    values = {name: list(dict.fromkeys(row[name] for row in rows)) for name in _FACETS}
    divisions = [_arrange_division(name, [r for r in rows if r["division"] == name]) for name in values["division"]]
    counts = Counter(row["state"] for row in rows)
    return {
        "title": "Matrix",
        "submission": document["submission"],
        "program": name_program(document["round"]),
        "looked": document["looked"],
        "facets": list(values.items()),
        "states": [(name, counts[name], said) for name, said in STATES.items() if counts[name]],
        "divisions": divisions,
        "shared": any(row["each"] for row in rows),
        "count": len(rows),
        "ready": counts["ready"],
        "findings": document["findings"],
    }


def _arrange_division(name: str, rows: list[Document]) -> Document:
    systems = list(dict.fromkeys(row["system"] for row in rows))
    squares: dict[str, dict[str, list[Document]]] = {}
    for row in rows:
        squares.setdefault(row["benchmark"], {}).setdefault(row["system"], []).append(row)
    lines = [
        {
            "benchmark": benchmark,
            "squares": [found.get(system, []) for system in systems],
            "due": sum(row["steps"] for row in itertools.chain(*found.values())),
        }
        for benchmark, found in squares.items()
    ]
    states = {system: [row["state"] for row in rows if row["system"] == system] for system in systems}
    heads = [(system, found.count("ready"), len(found)) for system, found in states.items()]
    return {
        "name": name,
        "systems": heads,
        "lines": lines,
        "ready": sum(row["state"] == "ready" for row in rows),
        "count": len(rows),
        "columns": {
            system: [c for c in _COLUMNS if any(r[c] for r in rows if r["system"] == system)] for system in systems
        },
    }


def find_state(entry: Document, under_way: UnderWay) -> str:
    if entry["cell"] in under_way.running:
        return "running"
    if entry["cell"] in under_way.waiting:
        return "waiting"
    if entry["ready"]:
        return "ready"
    if entry["validity"] == "INVALID":
        return "invalid"
    reasons = {condition["type"]: condition["reason"] for condition in entry["conditions"]}
    remade = any(c["reason"] in _REMADE for c in entry["conditions"] if c["status"] != "True")
    if _FAILED in reasons.values() or not (entry["steps"] or remade):
        return "failed"
    return "unmeasured" if reasons["Performed"] == _NEVER else "stale"


def _open_curves(curves: list[Document], rows: list[Document]) -> None:
    """Insert each curve before its first point."""
    for curve in curves:
        own = [row for row in rows if find_curve_name(row["cell"]) == curve["curve"]]
        if own:
            own[0]["opens"] = load_program_page(curve["curve"]).sum_up_curve(curve, own)


def name_program(round_name: str) -> str:
    """Return the program's usual name, with the version of its rules or its round."""
    program = find_program(round_name)
    title = PROGRAMS[program].title if program else "Inference"
    return f"MLPerf {title} {round_name.removeprefix(f'{program}-')}"


def find_curve_name(cell: str) -> str:
    """Return the curve of a point's cell; "" for a cell of MLPerf Inference."""
    return cell.rpartition("/")[0] if find_program_of_division(cell.partition("/")[0]) else ""


def is_cell(name: str) -> bool:
    """Return True if a place, such as that of a finding, is a cell; file names also contain "/"."""
    return name.count("/") == _SLASHES and name.partition("/")[0] in ALL_DIVISIONS


def split_cell(cell: str) -> list[str]:
    """Split into division, system, benchmark, scenario."""
    first, *middle, last = cell.split("/")
    return [first, middle[0], "/".join(middle[1:]), last]


def mark_condition(condition: Document) -> dict[str, Any]:
    """Describe one cell of the matrix: a word, its class, and its tooltip."""
    absent = condition["reason"] == NOT_REQUIRED
    said = ": ".join(filter(None, [describe_reason(condition["reason"]), condition["message"]]))
    return {
        "word": "-" if absent else WORDS[condition["status"]],
        "kind": "absent" if absent else _CLASSES[condition["status"]],
        "absent": absent,
        "said": "" if condition["status"] == "True" else said,
    }


def _arrange_cell(entry: Document, under_way: UnderWay) -> Document:
    state = find_state(entry, under_way)
    said = next((mark["said"] for c in reversed(entry["conditions"]) if (mark := mark_condition(c))["said"]), "")
    accuracy = show_measured(entry["accuracy"])
    published = compare_published(entry)
    measured, margin = entry["metric"] or entry["last"], entry["margin"]
    validity = entry["validity"] if entry["metric"] or not measured else measured["validity"]
    result = " ".join(filter(None, ["" if entry["metric"] else "last", show_measured(measured)])) if measured else ""
    invalid = "INVALID" if validity == "INVALID" else ""
    efficiency = show_measured(entry["efficiency"])
    notes = [STATES[state], said, f"{result} {invalid}".strip(), accuracy and f"accuracy {accuracy}", efficiency]
    if margin:
        notes.append(f"{margin['name']} {show_headroom(margin['headroom'])} from its limit")
    if published["asked"]:
        notes.append("{percent} of {asked} per accelerator: {source}".format(**published).removeprefix(" of "))
    return {
        **dict(zip(_FACETS, split_cell(entry["cell"]), strict=True)),
        "cell": entry["cell"],
        "state": state,
        "metric": _shorten(measured),
        "each": _shorten(_divide_by_accelerators(measured, entry["accelerators"])),
        "counts": entry["metric"] is not None,
        "invalid": invalid,
        "margin": show_headroom(margin["headroom"]) if margin else "",
        "room": classify_headroom(margin["headroom"]) if margin else "",
        **published,
        "steps": entry["steps"],
        "notes": "; ".join(filter(None, [*notes, *entry["marks"]])),
        "opens": None,
    }


def show_headroom(percent: float) -> str:
    return f"{percent:+.0f} %" if abs(percent) >= 10 else f"{percent:+.1f} %"


def classify_headroom(percent: float) -> str:
    """Return the class of a margin: "missed", "thin" or ""."""
    return "missed" if percent < 0 else "thin" if is_thin(percent) else ""


def _divide_by_accelerators(measured: Document | None, count: int) -> Document | None:
    """Return the rate per accelerator of a system with several; None for a latency."""
    if measured is None or count < 2 or not measured["unit"].endswith("/s"):
        return None
    return {**measured, "value": str(Decimal(str(measured["value"])) / count)}


def compare_published(entry: Document) -> dict[str, str]:
    """Compare the result per accelerator with published results for the same chip. ``percent``: "" if the units differ;
    for a latency, less is better."""
    published, measured = entry["published"], entry["metric"]
    if published is None:
        return {"percent": "", "asked": "", "source": ""}
    text, _, unit = published["value"].partition(" ")
    asked, value = Decimal(text), Decimal(str(measured["value"])) if measured else Decimal(0)
    ratio = None
    if value and measured["unit"] == unit:
        ratio = asked / value
    elif value and not unit and _SHORT.get(measured["unit"]) == "/s":
        ratio = value / max(1, entry["accelerators"]) / asked
    return {
        "percent": f"{100 * ratio:.0f} %" if ratio is not None else "",
        "asked": f"{show_rate(float(asked))} {unit}".rstrip(),
        "source": published["source"],
    }


def _shorten(measured: Document | None) -> str:
    return show_measured({**measured, "unit": _SHORT.get(measured["unit"], measured["unit"])}) if measured else ""


def show_measured(measured: Document | None) -> str:
    return render_metric_text((measured["value"], measured["unit"])) if measured else ""
