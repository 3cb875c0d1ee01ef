"""Job arrays: steps of one kind that come while Slurm takes another are handed over together, in one submission.

No job waits for company: the first goes alone, and those that came after it are the next array.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, field

from reconciler.execute.executors.executor import Handle, Submission
from reconciler.storage.files import hash_bytes, replace
from reconciler.storage.json_files import read_json
from reconciler.storage.storage_errors import refuse_storage_error

LARGEST = 100  # tasks of one array; Slurm takes 1001 by default
_MEMBER = "array.json"  # in the folder of an attempt that is a task of an array


class Waiting(Struct):
    """``taken``: somebody hands it over, or has; ``error``: what came of that."""

    submission: Submission
    handle: Handle
    taken: bool = False
    error: Exception | None = None


class Gathering(Struct):
    """``hand_over``: submits several that have one key, or raises for all of them. ``turn``: of the one that does."""

    hand_over: Callable[[Sequence[Waiting]], None]
    waiting: dict[str, list[Waiting]] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def submit(self, key: str, submission: Submission, handle: Handle) -> None:
        """Returns once it is handed over. ``key``: alike for steps that may be tasks of one array."""
        own = Waiting(submission, handle)
        with self.guard:
            self.waiting.setdefault(key, []).append(own)
        with self.turn:
            group = self._take(key, own)
            if group:
                try:
                    self.hand_over(group)
                except Exception as error:
                    for each in group:
                        each.error = error
        if own.error is not None:
            raise own.error

    def _take(self, key: str, own: Waiting) -> list[Waiting]:
        """Take the members that go now, this one among them; nothing where another took it along."""
        with self.guard:
            if own.taken:
                return []
            waiting = self.waiting.pop(key)
            others = [each for each in waiting if each is not own]
            group, rest = [own, *others[: LARGEST - 1]], others[LARGEST - 1 :]
            if rest:
                self.waiting[key] = rest
            for each in group:
                each.taken = True
            return group


class Member(Struct, frozen=True):
    """A task of an array: the name of that, and its own number."""

    name: str
    index: int

    def matches(self, job: str) -> bool:
        """True where Slurm's ``12_3`` is this one."""
        return job.rpartition("_")[2] == str(self.index)


def write_members(group: Sequence[Waiting]) -> str:
    """The name of the array, which each task finds again by its folder. Another array that begins with the same step,
    as after a submission whose answer was lost, has another name: its numbers are of other steps."""
    names = "\n".join(each.handle.name for each in group)
    name = f"{group[0].handle.name}-array-{hash_bytes(names.encode())[:8]}"
    for index, each in enumerate(group):
        replace(each.handle.folder / _MEMBER, json.dumps({"name": name, "index": index}).encode())
    return name


def read_member(folder: Path) -> Member | None:
    """None of a job by itself."""
    try:
        document = read_json(folder / _MEMBER)
        return Member(str(document["name"]), int(document["index"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        refuse_storage_error(error, folder)
        return None


def make_array_script(scripts: Sequence[str]) -> str:
    cases = "\n".join(f"{index})\n{script}\n;;" for index, script in enumerate(scripts))
    return f'case "$SLURM_ARRAY_TASK_ID" in\n{cases}\nesac'
