"""Steps of a plan that may begin, where several machines work at a time. Pure: the caller says what has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct, field

from reconciler.plan.plan import Step
from reconciler.resource.kinds import Address

_UNKNOWN = 60.0  # seconds: of a step without a prediction, for the order alone


class Machine(Struct, frozen=True):
    """Machine of a step: ``places`` of its steps may be under way at a time."""

    name: str
    places: int = 1


class Dispatch(Struct):
    """``waiting`` and ``running`` steps. ``needs``: address → what must have ended before it begins, where this plan
    makes that; ``limit``: steps under way on all machines together, 0 for no limit. ``first``: keys that go before all
    others, since they run already. ``places``: of each machine, by its name."""

    waiting: list[Step]
    needs: Mapping[Address, AbstractSet[Address]]
    machines: Mapping[Address, Machine]
    limit: int = 0
    first: frozenset[str] = frozenset()
    running: dict[Address, Step] = field(default_factory=dict)
    unmade: set[Address] = field(default_factory=set)
    places: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chains = measure_chains(self.waiting, self.needs)
        self.unmade = {address for step in self.waiting for address in list_made(step)}
        self.places = {machine.name: machine.places for machine in self.machines.values()}
        place = {id(step): number for number, step in enumerate(self.waiting)}
        self.waiting.sort(
            key=lambda step: (
                step.change.key not in self.first,
                -chains[step.change.address],
                place[id(step)],
            )
        )

    def take(self) -> list[Step]:
        """The steps that begin now: of those that wait for nothing, the ones with the longest way to go first."""
        room = Counter(self.places)
        room.subtract(self.machines[address].name for address in self.running)
        free = sum(count for count in room.values() if count > 0)
        taken: list[Step] = []
        left: list[Step] = []
        for number, step in enumerate(self.waiting):
            if not free or (self.limit and len(self.running) >= self.limit):
                left += self.waiting[number:]
                break
            address = step.change.address
            name = self.machines[address].name
            if room[name] > 0 and not self.needs[address] & self.unmade:
                room[name] -= 1
                free -= 1
                self.running[address] = step
                taken.append(step)
            else:
                left.append(step)
        self.waiting = left
        return taken

    def end(self, step: Step) -> None:
        """It has ended, well or not."""
        self.running.pop(step.change.address, None)
        self.unmade.difference_update(list_made(step))


def list_made(step: Step) -> tuple[Address, ...]:
    return (step.change.address, *step.shared)


def measure_chains(steps: Sequence[Step], needs: Mapping[Address, AbstractSet[Address]]) -> dict[Address, float]:
    """Seconds from the beginning of each step to the end of the longest chain of steps that follow from it. ``steps``
    in the order of a plan: each after what it needs."""
    chains: dict[Address, float] = {}
    after: dict[Address, float] = {}
    for step in reversed(steps):
        longest = max(after.get(address, 0.0) for address in list_made(step))
        whole = longest + (_UNKNOWN if step.seconds is None else step.seconds)
        chains[step.change.address] = whole
        for address in needs[step.change.address]:
            after[address] = max(after.get(address, 0.0), whole)
    return chains
