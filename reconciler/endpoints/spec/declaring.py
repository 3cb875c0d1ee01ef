"""Curves of a validated document as declared cells: each point is one."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.endpoints.rules.curve_rules import CurveRules, load_endpoints_rules
from reconciler.endpoints.rules.ruleset import NAME
from reconciler.endpoints.spec.checks import (
    find_node_problems,
    find_point_problems,
    find_service_problems,
    find_unlocked,
)
from reconciler.endpoints.spec.curves import (
    ACCURACY_POINTS,
    SEED_SET,
    SIZE,
    complete_point,
    find_curve_problems,
    place_curve,
)
from reconciler.endpoints.spec.models import OFFLINE, CurveGroup
from reconciler.errors import ReconcilerError
from reconciler.resource.inputs import Value
from reconciler.resource.kinds import Cell, name_point
from reconciler.resource.settings import MAXIMUM
from reconciler.spec.checks import make_problem
from reconciler.spec.declaration import Declaring
from reconciler.spec.declared import DeclaredCell
from reconciler.spec.layers import Block, LayeredSetting, combine
from reconciler.spec.validation import find_position


def declare_cells(declaring: Declaring) -> Iterator[DeclaredCell]:
    """The points of every curve. A curve that the rules refuse has none."""
    try:
        rules = load_endpoints_rules(str(declaring.spec.round))
    except ReconcilerError as error:
        declaring.complain_of_value(("spec", "round"), error.message, error.fix)
        return
    for named, curve, where in declaring.list_entered(NAME):
        yield from _curve(declaring, named, curve, where, rules)


def _curve(
    declaring: Declaring, named: tuple[str, str, str], curve: CurveGroup, where: tuple[str, ...], rules: CurveRules
) -> Iterator[DeclaredCell]:
    for name in (name for name in (MAXIMUM, "points") if not getattr(curve, name)):
        example = "64" if name == MAXIMUM else "auto"
        if declaring.sound:
            declaring.complain(where, f"{name} is missing", f"write '{name}: {example}'")
            return
    if not curve.points or curve.max_supported_concurrency is None:
        return
    rehearsal = bool(declaring.spec.rehearsal)
    shared, own = declaring.layer(curve, where), declaring.benchmarks.get(named[2], {})
    size = combine([own, shared]).get(SIZE)
    try:
        placed = place_curve(
            tuple(curve.points),
            curve.max_supported_concurrency,
            rules,
            curve.accuracy_points or (),
            size=int(size[0].value.value) if size else 0,
            count=curve.point_count or 0,
            c_min=curve.min_concurrency,
        )
    except ReconcilerError as error:
        declaring.complain_of_value((*where, MAXIMUM), error.message, error.fix)
        return
    for problem in find_curve_problems(placed, rules):
        declaring.complain((*where, problem.name), problem.message, problem.fix)
    shared.pop(ACCURACY_POINTS, None)  # said to each point in another way
    at = LayeredSetting(Value(named[2], find_position(declaring.root, where)[0]), ".".join(where))
    for concurrency in placed.all_points:
        word = OFFLINE if concurrency == placed.offline else str(concurrency)
        point = declaring.layer(curve.points[word], (*where, "points", word)) if word in curve.points else {}
        block = combine([own, shared, point])
        try:
            block = complete_point(block, concurrency, placed, rules, at, rehearsal=rehearsal)
        except ReconcilerError as error:
            declaring.complain_of_value((*where, SEED_SET), error.message, error.fix)
            return
        _check_point(declaring, named, point, block, at, rules)
        yield declaring.declare_cell(Cell(*named, name_point(concurrency)), block, where)


def _check_point(
    declaring: Declaring,
    named: tuple[str, str, str],
    point: Block,
    block: Block,
    at: LayeredSetting,
    rules: CurveRules,
) -> None:
    """``point``: what it sets for itself; ``block``: all that it has."""
    system = declaring.systems.get(named[1])
    found = [*find_unlocked(point, block), *find_node_problems(block, dict(system.settings) if system else {})]
    if declaring.sound:
        found += find_point_problems(block, rules, rehearsal=bool(declaring.spec.rehearsal))
        found += find_service_problems(block, named[0], dict(system.description) if system else {})
    for name, message, fix in found:
        declaring.problems.append(make_problem(block.get(name, (at,))[0], message, fix))
