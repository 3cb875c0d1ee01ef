"""Backoff of retries: by class of error, doubling, and capped low, so that a problem fixed long ago is not waited
for."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

# Class → (first wait, longest wait), in seconds. "resources": a child lacked memory or hung; "preempted",
# "node-failure", "requeued" and "lost": how a cluster's queue ended its job.
WAITS = {
    "locked": (2.0, 30.0),
    "storage": (10.0, 300.0),
    "remote": (15.0, 300.0),
    "repository": (10.0, 300.0),
    "resources": (30.0, 300.0),
    "preempted": (30.0, 300.0),
    "node-failure": (30.0, 300.0),
    "requeued": (30.0, 300.0),
    "lost": (30.0, 300.0),
    "failed": (60.0, 900.0),
}


class Wait(Struct, frozen=True):
    """``until`` on the caller's clock; ``seconds`` is this wait's length, ``tries`` how many went wrong in a row."""

    kind: str
    tries: int
    seconds: float
    until: float


class Backoff(Struct):
    """Waits by name: the key of a step, or what the loop itself could not do."""

    waits: dict[str, Wait] = field(default_factory=dict)

    def record_failure(self, name: str, kind: str, now: float) -> Wait:
        first, longest = WAITS.get(kind, WAITS["failed"])
        tries = self.waits[name].tries + 1 if name in self.waits else 1
        seconds = min(longest, first * 2 ** min(tries - 1, 30))
        self.waits[name] = Wait(kind, tries, seconds, now + seconds)
        return self.waits[name]

    def record_success(self, name: str) -> None:
        self.waits.pop(name, None)

    def keep(self, names: set[str]) -> None:
        """Forget steps that are no longer wanted."""
        self.waits = {name: wait for name, wait in self.waits.items() if name in names}

    def list_waiting(self, now: float) -> frozenset[str]:
        return frozenset(name for name, wait in self.waits.items() if wait.until > now)

    def list_ends(self, now: float) -> Iterator[float]:
        return (wait.until for wait in self.waits.values() if wait.until > now)
