"""Order changes into a plan: one step per key, accuracy before performance, each step after the steps that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.diff.change import Change, Difference, InputChange, Work
from reconciler.plan.plan import Plan, Step
from reconciler.plan.select import Selection, Selector
from reconciler.resource.kinds import ALL_DIVISIONS, ORDER, Address, Cell, Kind, find_proved_run
from reconciler.resource.resources import Resource

# External knowledge: blocked(address) → (why, fix) or None; seconds(address) → (prediction, basis); frozen(address) →
# (why, fix) or None.
Blocked = Callable[[Address], tuple[str, str] | None]
Predict = Callable[[Address], tuple[float | None, str]]
Explain = Callable[[Change], tuple[InputChange, ...]]
_NEEDED, _WAITS = "needed only by what is blocked", "waits for "
_WORK = (Work.MAKE, Work.START)  # runs in a child process, and may be blocked


class Policy(Struct, frozen=True):
    """``select``/``exclude``: which cells; ``only``: which kinds. It adds everything that these need, but nothing that
    needs them."""

    select: Selector = field(default_factory=Selector)
    exclude: Selection = field(default_factory=Selection)
    only: frozenset[str] = frozenset()


class PlanContext(Struct, frozen=True):
    resources: Mapping[Address, Resource]
    blocked: Blocked
    predict: Predict
    explain: Explain
    frozen: Blocked = lambda _: None


def make_plan(
    name: str, desired: str, recorded: str, difference: Difference, policy: Policy, context: PlanContext
) -> Plan:
    selected = (c for c in difference.changes if _is_selected(c.address, policy, context.resources))
    by_kind = bool(policy.only) or policy.select.names_kind
    # Runs start their servers themselves, so a server is added with the runs that need it.
    wanted = [c for c in selected if c.how is not Work.START and (by_kind or not c.is_for_others)]
    wanted = _add_needs(wanted, difference, context.resources, as_recorded=by_kind)
    changed = {change.address for change in difference.changes}
    steps: list[Step] = []
    due = {change.address for change in difference.changes if change.how is Work.MAKE}
    left_out = due - {change.address for change in wanted}
    stuck: dict[Address, str] = {}
    groups: dict[tuple[str, Work], list[Change]] = {}
    for change in _sort_changes(wanted, context.resources):
        groups.setdefault((change.key, change.how), []).append(change)
    for first, *others in groups.values():
        steps.append(_make_step(first, tuple(o.address for o in others), changed, left_out, stuck, context))
    return Plan(
        name=name,
        desired=desired,
        recorded=recorded,
        steps=_block_idle(steps, context.resources),
        unchanged=difference.unchanged,
        excluded=len({c.key for c in difference.changes} - {c.key for c in wanted}),
        drifts=difference.drifts,
        findings=tuple(f for f in difference.findings if _selects_finding(f.where, policy)),
        undeclared=difference.undeclared,
        acceptances=tuple(found for found in difference.acceptances if _selects_finding(str(found[1].cell), policy)),
        frozen=difference.frozen,
    )


def _is_selected(address: Address, policy: Policy, resources: Mapping[Address, Resource]) -> bool:
    if policy.only and not any(
        name.lower() in (str(address.kind).lower(), address.label.lower()) for name in policy.only
    ):
        return False
    if address.cell and policy.exclude.matches(address):
        return False
    if not policy.select.matches(address):
        return False
    if address.cell is None and policy.select.terms and address.kind is not Kind.SUBMISSION:
        cells = policy.select.drop_resource_terms()
        return any(r.cell and address in r.upstream and cells.matches(r.address) for r in resources.values())
    return True


def _selects_finding(where: str, policy: Policy) -> bool:
    if where.split("/")[0] not in ALL_DIVISIONS:
        return True  # a finding about a file rather than a cell belongs to every selection
    address = Address(Kind.RESULT, where)
    return policy.select.matches(address) and not policy.exclude.matches(address)


def _add_needs(
    wanted: list[Change], difference: Difference, resources: Mapping[Address, Resource], *, as_recorded: bool
) -> list[Change]:
    """Add the upstream steps of the selected ones. ``as_recorded``: add none for rendering, since a selection of
    results means the recorded ones and does not wait for runs."""
    changes = {change.address: change for change in difference.changes}
    found = {change.address: change for change in wanted}
    queue = [change.address for change in wanted if not (as_recorded and change.how is Work.RENDER)]
    while queue:
        for up in resources[queue.pop()].upstream:
            if up in changes and up not in found and changes[up].how in _WORK and ORDER[up.kind] < ORDER[Kind.RESULT]:
                found[up] = changes[up]
                queue.append(up)
    return list(found.values())


def _sort_changes(changes: list[Change], resources: Mapping[Address, Resource]) -> list[Change]:
    """Sort in pipeline order, cell by cell, so that cells become publishable as early as possible. Cells that use the
    same server follow each other, so that it starts once."""
    position = {address: index for index, address in enumerate(resources)}
    groups = _group_by_server(changes, position, resources)
    cells = {change.address: resources[change.address].cell for change in changes}
    ordered = sorted(changes, key=lambda c: (groups.get(cells[c.address], position[c.address]), position[c.address]))
    return ordered if not groups else _sort_needs_first(ordered, resources)


def _group_by_server(
    changes: list[Change], position: Mapping[Address, int], resources: Mapping[Address, Resource]
) -> dict[Cell | None, int]:
    """Map each cell to the position of the first cell that uses the same server."""
    first: dict[str, int] = {}
    found: dict[Cell | None, int] = {}
    for change in sorted(changes, key=lambda c: position[c.address]):
        resource = resources[change.address]
        if change.how is Work.START and resource.cell is not None:
            found[resource.cell] = first.setdefault(change.key, position[change.address])
    return found


def _sort_needs_first(changes: list[Change], resources: Mapping[Address, Resource]) -> list[Change]:
    """Keep the order, but move each step behind its upstream steps."""
    waiting = {change.address: change for change in changes}
    ordered: list[Change] = []

    def take(address: Address) -> None:
        change = waiting.pop(address, None)
        if change is not None:
            for up in resources[address].upstream:
                take(up)
            ordered.append(change)

    for change in changes:
        take(change.address)
    return ordered


def _block_idle(steps: list[Step], resources: Mapping[Address, Resource]) -> tuple[Step, ...]:
    """Block shared steps whose users are all blocked here, such as a dataset for another machine."""
    users: dict[Address, list[Step]] = {}
    for step in steps:
        for address in (step.change.address, *step.shared):
            for up in resources[address].upstream:
                users.setdefault(up, []).append(step)
    blocked = {step.change.key: step for step in steps if step.blocked}
    for step in reversed(steps):
        address = step.change.address
        shared = step.change.how is Work.MAKE and ORDER[address.kind] <= ORDER[Kind.MODEL]
        if step.blocked or not (shared or step.change.how is Work.START):
            continue
        needed = [u for a in (address, *step.shared) for u in users.get(a, ()) if u.change.how in _WORK]
        if needed and all(user.change.key in blocked for user in needed):
            users_blocked = [blocked[user.change.key] for user in needed]
            # A step that merely waits for another one has no fix.
            user = next((u for u in reversed(users_blocked) if not u.blocked.startswith(_WAITS)), users_blocked[-1])
            why = user.blocked if user.blocked.startswith(_NEEDED) else f"{_NEEDED} ({user.blocked})"
            blocked[step.change.key] = replace(step, blocked=why, fix=user.fix)
    return tuple(blocked.get(step.change.key, step) if step.change.how in _WORK else step for step in steps)


def _make_step(
    change: Change,
    shared: tuple[Address, ...],
    changed: set[Address],
    left_out: set[Address],
    stuck: dict[Address, str],
    context: PlanContext,
) -> Step:
    resource = context.resources[change.address]
    because = tuple(up for up in resource.upstream if up in changed)
    reason = _explain_freeze((change.address, *shared), change.how, context)
    if reason is None and change.how in _WORK:
        reason = context.blocked(change.address)
    waits = None
    # The tree shows the finished cells, even if others are stuck.
    if reason is None and change.address.kind is not Kind.SUBMISSION:
        needs = (*resource.upstream, find_proved_run(change.address))
        waits = next((up for up in needs if up in stuck), None)
        reason = (f"{_WAITS}{waits.label} ({stuck[waits]})", "") if waits else None
    if reason is None and change.how is Work.RENDER and (unasked := left_out.intersection(resource.upstream)):
        first = min(unasked, key=lambda address: (ORDER[address.kind], address))
        reason = (f"{first.label} is due but not selected", "select it, too, or omit --only")
    if reason is not None:
        root = stuck[waits] if waits else reason[0]
        for address in (change.address, *shared):
            stuck[address] = root
    seconds, basis = context.predict(change.address) if change.how in _WORK else (0.0, "")
    return Step(
        change=change,
        shared=shared,
        explained=context.explain(change),
        because=because,
        seconds=seconds,
        basis=basis,
        blocked=reason[0] if reason else "",
        fix=reason[1] if reason else "",
    )


def _explain_freeze(addresses: tuple[Address, ...], how: Work, context: PlanContext) -> tuple[str, str] | None:
    """Return why a step is frozen; a shared step is frozen only if all its cells are. Restoring a log is always
    allowed, since it changes nothing."""
    found = [context.frozen(address) for address in addresses] if how is not Work.RESTORE else [None]
    return found[0] if all(found) else None
