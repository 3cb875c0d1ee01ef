"""What the reporting commands share: a look at the repository, its cells, and who changed which line."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

from reconciler.cli.door import door
from reconciler.cli.places import from_root, places_for, sorted_words
from reconciler.diff.conditions import standings
from reconciler.files import Places
from reconciler.look import Look, Options, look, unfit
from reconciler.plan.plan import Plan
from reconciler.plan.select import parse
from reconciler.render.quantities import age
from reconciler.resource.conditions import Standing
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import Address, Cell, Kind


def asked(
    words: Sequence[str],
    *,
    exclude: Sequence[str] = (),
    only: Sequence[str] = (),
    rerun: Sequence[str] = (),
    deep: bool = False,
    commit: bool = False,
    busy: bool = False,
    wait: float = 0.0,
) -> tuple[Places, Options]:
    """The repository and the options of a look or a pass, from words as typed."""
    specs, selectors = sorted_words(words)
    for selection in (selectors, exclude, rerun):
        parse(selection)
    places = places_for(specs)
    options = Options(
        specs=tuple(from_root(places, spec) for spec in specs),
        select=selectors,
        exclude=tuple(exclude),
        only=tuple(only),
        rerun=tuple(rerun),
        deep=deep,
        commit=commit,
        busy=busy,
        wait=wait,
    )
    return places, options


def cells_of(look: Look, options: Options | None = None) -> tuple[Standing, ...]:
    """Every declared cell that the options select, in the order of the spec."""
    blocked = {step.change.address: step.blocked for step in look.plan.steps if step.blocked}
    found = standings(look.desired, look.recorded, look.observed, look.difference, blocked)
    if options is None or not (options.select or options.exclude):
        return found
    return tuple(standing for standing in found if _selected(standing.cell, options))


def selected_look(places: Places, options: Options) -> Look:
    """A look whose selection fits something. Raises ReconcilerError that names what there is to select."""
    seen = look(places, options)
    if options.select and not cells_of(seen, options):
        raise unfit(options.select, seen.desired)
    return seen


def _selected(cell: Cell, options: Options) -> bool:
    at = Address(Kind.RESULT, str(cell))
    # A kind chooses resources, not cells.
    words = [word for word in options.select if not word.startswith(("kind=", "mode="))]
    excluded = any(parse([word]).matches(at) for word in options.exclude if not word.startswith(("kind=", "mode=")))
    return parse(words).matches(at) and not excluded


class Commit(Protocol):
    """What git knows of a line; see ``reconciler.git.LineCommit``, which is imported only when there is a line."""

    @property
    def commit(self) -> str: ...
    @property
    def author(self) -> str: ...
    @property
    def when(self) -> datetime | None: ...
    @property
    def summary(self) -> str: ...
    @property
    def committed(self) -> bool: ...
    @property
    def boundary(self) -> bool: ...


def commits_of(places: Places, origins: Iterable[Origin]) -> dict[Origin, Commit]:
    """Who last changed each spec line, as far as git knows. Nothing is imported or asked when there is no line."""
    by_file: dict[str, list[Origin]] = {}
    for origin in origins:
        by_file.setdefault(origin.file, []).append(origin)
    found: dict[Origin, Commit] = {}
    for file, group in by_file.items():
        lines = door("reconciler.git").commits_of_lines(places.root, file, [origin.line for origin in group])
        found.update({origin: lines[origin.line] for origin in group if origin.line in lines})
    return found


def line_commits(places: Places, origins: Iterable[Origin]) -> dict[Origin, str]:
    """Spec line → "3f2c1ab  2 days ago"."""
    now = time.time()
    return {
        origin: f"{commit.commit[:7]}  {age(now - commit.when.timestamp())}" if commit.when else "not committed"
        for origin, commit in commits_of(places, origins).items()
    }


def exit_code(plan: Plan) -> int:
    """0 when everything selected is in sync, else 2."""
    return 0 if plan.in_sync else 2
