"""The pass that is running in this repository: its owner and its progress, from its lock and its log."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from reconciler.storage.files import RepositoryPaths, find_lock_owner
from reconciler.storage.json_files import parse_json_lines
from reconciler.storage.untrusted_files import open_regular

_PASSES = "[0-9]*.jsonl"  # other commands' logs begin with their names
_LARGEST = 16 << 20


class PassInProgress(Struct, frozen=True):
    """A running pass. ``owner``: its process; ``began``: from its log, "" without one; ``ended``: finished steps of
    ``planned``; ``under_way``: the resources being made."""

    owner: str
    began: str = ""
    planned: int = 0
    ended: int = 0
    under_way: tuple[str, ...] = ()

    def __str__(self) -> str:
        sentence = f"A pass is under way ({self.owner}{f', since {self.began[11:19]} UTC' if self.began else ''})"
        far = f": {self.ended} of {self.planned} steps ended" if self.planned else ""
        now = f"; now {', '.join(self.under_way)}" if self.under_way else ""
        return f"{sentence}{far}{now}."


def find_pass_in_progress(paths: RepositoryPaths) -> PassInProgress | None:
    """Return the running pass; None if the pass lock is free, or taken for another purpose."""
    owner, _, purpose = find_lock_owner(paths.pass_lock).partition(", ")
    if not purpose.startswith("pass"):
        return None
    process = owner.rpartition(" ")[2]
    logs = sorted(path for path in paths.log.glob(_PASSES) if path.stem.endswith(f"-{process}"))
    return _read(owner, logs[-1]) if logs else PassInProgress(owner)


def _read(owner: str, log: Path) -> PassInProgress:
    began, planned, ended = "", 0, 0
    under_way: dict[str, None] = {}
    for event in parse_json_lines(_read_start(log)):
        message, resource = event.get("message"), str(event.get("resource", ""))
        began = began or str(event.get("time", ""))
        if message == "planned":
            planned = steps if isinstance(steps := event.get("steps"), int) else 0
        elif message == "steps due" and isinstance(due := event.get("due"), list):
            planned = ended + len(due)
        elif message == "step started":
            under_way[resource] = None
        elif message == "step ended":
            ended += 1
            under_way.pop(resource, None)
    return PassInProgress(owner, began, planned, ended, tuple(under_way))


def _read_start(log: Path) -> bytes:
    with open_regular(log) as stream:
        return stream.read(_LARGEST)
