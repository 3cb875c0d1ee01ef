"""What runs under way print, as they print it: for people who look on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path

from harness.contract import Progress, read_progress
from reconciler.execute.attempt import Attempt, read
from reconciler.resource.kinds import Address


@dataclass(frozen=True, slots=True)
class Printed:
    """``address``: what is made. ``began``: this attempt was not seen before. ``data``: what it printed since the last
    look; ``progress``: how far it is, None where it has not said."""

    address: Address
    log: Path
    began: bool
    data: bytes
    progress: Progress | None


@dataclass(slots=True)
class _Followed:
    """``rest``: the beginning of a line that is being written."""

    attempt: Attempt
    stream: BufferedReader | None = None
    rest: bytes = b""


@dataclass(slots=True)
class LogFollower:
    """Reads the logs of attempts below ``folders`` that make something ``wanted``. A log that is open is read to its
    end although its attempt was recorded meanwhile, and its folder removed."""

    folders: tuple[Path, ...]
    wanted: Callable[[Address], bool]
    _known: dict[Path, _Followed] = field(default_factory=dict)
    _others: set[Path] = field(default_factory=set)

    def look(self) -> Iterator[Printed]:
        """What is new since the last look, in whole lines, oldest attempt first. Of one that ended it is the last."""
        there = [folder for attempts in self.folders for folder in sorted(attempts.glob("*"))]
        for folder in there:
            began = folder not in self._known and folder not in self._others and self._begin(folder)
            if folder in self._known:
                yield self._read(self._known[folder], began=began)
        for folder in [folder for folder in self._known if folder not in there]:
            yield self._read(self._known[folder], began=False, ended=True)
            self._close(folder)

    def _begin(self, folder: Path) -> bool:
        attempt = read(folder)
        if attempt is None:
            return False  # perhaps not yet
        if any(map(self.wanted, (attempt.intent.address, *attempt.intent.shared))):
            self._known[folder] = _Followed(attempt)
            return True
        self._others.add(folder)
        return False

    def close(self) -> None:
        for folder in list(self._known):
            self._close(folder)

    def _read(self, followed: _Followed, *, began: bool, ended: bool = False) -> Printed:
        attempt = followed.attempt
        if followed.stream is None:
            with suppress(FileNotFoundError):  # its child has not begun
                followed.stream = attempt.log.open("rb")
        data = followed.rest + (followed.stream.read() if followed.stream is not None else b"")
        whole = len(data) if ended else data.rfind(b"\n") + 1
        followed.rest = data[whole:]
        return Printed(attempt.intent.address, attempt.log, began, data[:whole], read_progress(attempt.counter))

    def _close(self, folder: Path) -> None:
        stream = self._known.pop(folder).stream
        if stream is not None:
            stream.close()
