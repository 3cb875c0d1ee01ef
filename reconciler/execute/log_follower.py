"""Follow the output of running attempts as it is printed, for people who watch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

from msgspec import Struct, field

from harness.contract import LOG_PARTS, Progress, read_progress
from reconciler.execute.attempt import Attempt, read
from reconciler.resource.kinds import Address, Kind


class Printed(Struct, frozen=True):
    """New output of an attempt. ``address``: the resource being made. ``began``: this log is new. ``data``: output
    since the last look; ``progress``: progress of the attempt, None if it has reported none and for a server."""

    address: Address
    log: Path
    began: bool
    data: bytes
    progress: Progress | None


class _Tail(Struct):
    """Reads a growing log. ``parts``: its files, oldest text first; a part may be renamed to another part's name.
    ``rest``: the beginning of an incomplete line."""

    parts: tuple[Path, ...]
    streams: dict[int, BufferedReader] = field(default_factory=dict)
    rest: bytes = b""

    def read(self, *, ended: bool = False) -> bytes:
        """Read the new whole lines, or all new text if the log is complete."""
        self._open()
        removed = [number for number, stream in self.streams.items() if not os.fstat(stream.fileno()).st_nlink]
        data = self.rest + b"".join(stream.read() for stream in self.streams.values())
        for number in removed:
            self.streams.pop(number).close()
        whole = len(data) if ended else data.rfind(b"\n") + 1
        self.rest = data[whole:]
        return data[:whole]

    def _open(self) -> None:
        """Open a log that exists by now. It is identified by its inode, which no other file gets while it is open."""
        for part in self.parts:
            with suppress(FileNotFoundError):  # its writer has not started
                stream = part.open("rb")
                if self.streams.setdefault(os.fstat(stream.fileno()).st_ino, stream) is not stream:
                    stream.close()

    def close(self) -> None:
        for stream in self.streams.values():
            stream.close()


class _Followed(Struct, frozen=True):
    """An attempt whose output is followed. ``server``: the log folder of the server that it queries or that it is; None
    without a server."""

    attempt: Attempt
    tail: _Tail
    server: Path | None


class LogFollower(Struct):
    """Reads the logs of attempts below ``folders`` that make something ``wanted``, and of the servers that they query.
    An open log is read to its end even if its attempt has been recorded and its folder removed."""

    folders: tuple[Path, ...]
    wanted: Callable[[Address], bool]
    _known: dict[Path, _Followed] = field(default_factory=dict)
    _others: set[Path] = field(default_factory=set)
    _servers: dict[Path, _Tail] = field(default_factory=dict)

    def look(self) -> Iterator[Printed]:
        """Yield the whole lines printed since the last look, oldest attempt first. For an ended attempt, they include
        its last line."""
        there = [folder for attempts in self.folders for folder in sorted(attempts.glob("*"))]
        for folder in there:
            began = folder not in self._known and folder not in self._others and self._begin(folder)
            if folder in self._known:
                yield from self._read(self._known[folder], began=began)
        for folder in [folder for folder in self._known if folder not in there]:
            yield from self._read(self._known[folder], began=False, ended=True)
            self._known.pop(folder).tail.close()

    def _begin(self, folder: Path) -> bool:
        attempt = read(folder)
        if attempt is None:
            return False  # possibly not yet
        if any(map(self.wanted, (attempt.intent.address, *attempt.intent.shared))):
            self._known[folder] = _Followed(attempt, _Tail((attempt.log,)), _find_server(attempt))
            return True
        self._others.add(folder)
        return False

    def close(self) -> None:
        for tail in (*(followed.tail for followed in self._known.values()), *self._servers.values()):
            tail.close()
        self._known.clear()
        self._servers.clear()

    def _read(self, followed: _Followed, *, began: bool, ended: bool = False) -> Iterator[Printed]:
        attempt, progress = followed.attempt, read_progress(followed.attempt.counter)
        yield Printed(attempt.intent.address, attempt.log, began, followed.tail.read(ended=ended), progress)
        if followed.server is not None:
            yield from self._read_server(followed.server, attempt.intent.address)

    def _read_server(self, folder: Path, address: Address) -> Iterator[Printed]:
        """Read a server's log once for all attempts that query it. Yields nothing without new output."""
        tail = self._servers.setdefault(folder, _Tail(tuple(folder / name for name in LOG_PARTS)))
        began = not tail.streams
        data = tail.read(ended=not folder.exists())
        if data or (began and tail.streams):
            yield Printed(address, folder / LOG_PARTS[0], began, data, None)


def _find_server(attempt: Attempt) -> Path | None:
    if attempt.intent.server is not None and attempt.intent.server.log:
        return Path(attempt.intent.server.log)
    return attempt.server_log if attempt.intent.address.kind is Kind.SERVICE else None
