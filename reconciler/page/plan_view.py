"""The plan: steps by cause, the graph of dependencies, and the effects of a merge. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from reconciler.page.matrix_view import is_cell
from reconciler.render.causes import find_obstacle, word_reason
from reconciler.render.documents import Document
from reconciler.resource.kinds import ORDER, Address, find_upstream
from reconciler.resource.quantities import show_duration
from reconciler.resource.wording import show_change

_MOST = 200  # maximum number of steps listed per group
_BOX, _ACROSS, _DOWN, _BEND, _GAP = (168, 44), 214, 56, 46, 4  # pixels in the graph


def arrange_plan(document: Document, impact: Document | None) -> Document:
    """Arrange the view. ``document``: the output of `plan`, with its last line as ``summary``."""
    steps = document["steps"]
    known = [{"kind": kind, "where": at, "message": said, "fix": fix} for kind, at, said, fix in document["findings"]]
    return {
        "title": "Plan",
        "looked": document["looked"],
        "summary": document["summary"],
        "graph": _draw_graph(steps),
        "groups": _fold_steps(steps),
        "drifts": document["drifts"],
        "findings": [{**finding, "is_cell": is_cell(finding["where"])} for finding in known],
        "impact": _arrange_impact(impact) if impact is not None else None,
    }


def _index_steps(steps: Iterable[Document]) -> dict[str, Document]:
    return {address: step for step in steps for address in (step["address"], *step["shared"])}


def _fold_steps(steps: list[Document]) -> list[Document]:
    """Group steps by cause, in the order of the plan. Blocked steps come last, grouped by obstacle."""
    by_address = _index_steps(steps)

    @cache
    def find_causes(address: str) -> tuple[str, ...]:
        """Return the changes behind a step: its own, else those of the steps that it depends on, else its reason."""
        step = by_address[address]
        own = [_show_change(item) for item in step["inputs"] if find_upstream(item["origin"][0]) is None]
        inherited = (cause for up in step["because"] if up in by_address for cause in find_causes(up))
        reason = ": ".join(filter(None, (word_reason(step["reason"]), step["note"])))
        return tuple(own or dict.fromkeys(inherited)) or (reason,)

    groups: dict[tuple[str, tuple[str, ...]], list[Document]] = {}
    for step in steps:
        obstacle = find_obstacle(step["blocked"])
        groups.setdefault((obstacle, find_causes(step["address"])), []).append(step)
    found = [_arrange_group(*group, of_it) for group, of_it in groups.items()]
    return sorted(found, key=lambda group: group["blocked"])


def _arrange_group(obstacle: str, causes: tuple[str, ...], steps: list[Document]) -> Document:
    seconds = sum(step["seconds"] or 0 for step in steps)
    actions = Counter((_name_action(step), _find_label(step["address"])) for step in steps)
    words = {action: [f"{n} {kind}" for (by, kind), n in actions.items() if by == action] for action, _ in actions}
    rows = [(_find_label(step["address"]), step["address"].partition(":")[2], step) for step in steps[:_MOST]]
    return {
        "count": len(steps),
        "causes": causes,
        "blocked": obstacle,
        "fix": next((step["fix"] for step in steps if step["fix"]), ""),
        "actions": [f"{action} {', '.join(kinds)}" for action, kinds in words.items()],
        "about": _show_time(seconds) if seconds >= 1 else "",
        "steps": [
            (kind, of, len(step["shared"]), _name_action(step), _show_time(step["seconds"])) for kind, of, step in rows
        ],
        "left_out": max(0, len(steps) - _MOST),
    }


def _draw_graph(steps: list[Document]) -> Document:
    """Draw a box for all steps of one kind, to the right of its dependencies, with a line from each."""
    by_address = _index_steps(steps)
    counts = Counter(_find_label(step["address"]) for step in steps)
    blocked = Counter(_find_label(step["address"]) for step in steps if step["blocked"])
    needs: dict[str, Counter[str]] = {kind: Counter() for kind in counts}
    order = sorted((step["address"] for step in steps), key=lambda address: ORDER[Address.parse(address).kind])
    place = {kind: at for at, kind in enumerate(dict.fromkeys(map(_find_label, order)))}
    for step in steps:
        kind = _find_label(step["address"])
        ups = {by_address[up]["address"] for up in step["because"] if up in by_address}
        needs[kind].update({up for up in map(_find_label, ups) if place[up] < place[kind]})
    column = {kind: _find_column(kind, needs) for kind in place}
    lines = [
        (up, kind)
        for kind, ups in needs.items()
        for up in ups
        if not any(up in _find_needs(between, needs) for between in ups if between != up)
    ]
    at = {spot: (2 + _ACROSS * spot.column, 2 + _DOWN * row) for spot, row in _place_spots(column, lines).items()}
    wide, tall = _BOX
    boxes = [
        {"kind": spot.kind, "count": counts[spot.kind], "blocked": blocked[spot.kind], "x": x, "y": y}
        for spot, (x, y) in at.items()
        if not spot.passes
    ]
    drawn = []
    for up, kind in lines:
        x, y = at[_Spot(column[up], up)]
        path = f"M{x + wide} {y + tall / 2}"
        for number in range(column[up] + 1, column[kind] + 1):
            before, (x, y) = y + tall / 2, at[_find_spot(number, up, kind, column)]
            end = f"{x} {y + tall / 2} H{x + wide}" if number < column[kind] else f"{x - _GAP} {y + tall / 2}"
            path += f" H{x - _BEND} C{x - _BEND / 2} {before} {x - _BEND / 2} {y + tall / 2} {end}"
        drawn.append({"path": path, "said": f"{needs[kind][up]} {kind} after {up}"})
    size = (max(x for x, _ in at.values()) + wide + 2, max(y for _, y in at.values()) + tall + 2) if at else (0, 0)
    return {"boxes": boxes, "lines": drawn, "size": size, "box": _BOX}


class _Spot(NamedTuple):
    """A place in a column: the box of a kind, or, if ``passes``, the lines from this kind to later columns."""

    column: int
    kind: str
    passes: bool = False


def _find_spot(number: int, up: str, kind: str, column: Mapping[str, int]) -> _Spot:
    """Return the spot of a line in a column: its first box, its last box, or its passage between other boxes."""
    return _Spot(number, kind) if number == column[kind] else _Spot(number, up, passes=number > column[up])


def _place_spots(column: Mapping[str, int], lines: Sequence[tuple[str, str]]) -> dict[_Spot, int]:
    """Return the row of each spot: no line crosses a box, and each spot is at the height of those before it."""
    rows: dict[_Spot, int] = {}
    for number in range(max(column.values(), default=-1) + 1):
        spots = [_Spot(number, kind) for kind, at in column.items() if at == number]
        spots += dict.fromkeys(_Spot(number, up, True) for up, kind in lines if column[up] < number < column[kind])
        heights = {
            spot: [
                rows[_find_spot(number - 1, up, kind, column)]
                for up, kind in lines
                if column[up] < number and _find_spot(number, up, kind, column) == spot
            ]
            for spot in spots
            if number
        }
        spots.sort(key=lambda spot: sum(found) / len(found) if (found := heights.get(spot)) else 0)
        rows.update({spot: row for row, spot in enumerate(spots)})
    return rows


def _find_column(kind: str, needs: Mapping[str, Iterable[str]]) -> int:
    return max((1 + _find_column(up, needs) for up in needs[kind]), default=0)


def _find_needs(kind: str, needs: Mapping[str, Iterable[str]]) -> set[str]:
    """Return all direct and indirect dependencies of a kind."""
    return {found for up in needs[kind] for found in (up, *_find_needs(up, needs))}


@cache
def _find_label(address: str) -> str:
    found = find_upstream(address)
    return found.label if found else address.partition(":")[0]


def _name_action(step: Document) -> str:
    """Return the action as `plan` counts it: "create"; or "restore" and "render" if nothing is made."""
    return str(step["action"]).lower() if step["how"] == "make" else str(step["how"])


def _show_change(item: Document) -> str:
    return show_change(item["name"], item["before"], item["after"])


def _arrange_impact(document: Document) -> Document:
    shown = [cell for cell in document["cells"] if cell["effect"] != "unaffected"]
    return {
        **document,
        "shown": [
            {**c, "causes": [_show_cause(x) for x in c["causes"]], "about": _show_time(c["seconds"])} for c in shown
        ],
        "unaffected": len(document["cells"]) - len(shown),
    }


def _show_cause(cause: Document) -> str:
    where = f"{cause['file']}:{cause['line']}" if cause["line"] else cause["file"]
    return f"{_show_change(cause)}  {where}"


def _show_time(seconds: float | None) -> str:
    return show_duration(seconds) if seconds else ""
