"""Output of a command. Its start and its end are logged, and its last line is shown."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Collection
from pathlib import Path

from harness.contract import LOG_PARTS

HEAD = TAIL = 8 << 20  # bytes of a log kept from its start and from its end
CAPTURED = 1 << 20  # maximum bytes of a scorer's output
_LINE = 200
_EVERY = 0.5  # seconds between two updates of the last line
_HIDDEN, _SHORTEST = b"[secret]", 6  # replacement of a secret; shorter values would match unrelated text


class SecretFilter:
    """Removes secrets from output, even if one arrives in pieces."""

    def __init__(self, secrets: Collection[str]) -> None:
        known = {secret.encode() for secret in secrets if len(secret) >= _SHORTEST}
        self._secrets = sorted(known, key=len, reverse=True)
        self._kept_bytes = b""

    def take(self, data: bytes) -> bytes:
        """Return the output that may be shown. A suffix that could begin a secret is withheld."""
        data = self._hide(self._kept_bytes + data)
        kept = self._count_begun(data)
        self._kept_bytes = data[len(data) - kept :]
        return data[: len(data) - kept]

    def flush(self) -> bytes:
        rest, self._kept_bytes = self._kept_bytes, b""
        return rest

    def _hide(self, data: bytes) -> bytes:
        for secret in self._secrets:
            data = data.replace(secret, _HIDDEN)
        return data

    def _count_begun(self, data: bytes) -> int:
        """Return the length of the longest suffix of ``data`` that begins a secret."""
        most = min(len(data), len(self._secrets[0]) - 1) if self._secrets else 0
        ends = (count for count in range(most, 0, -1) if any(s.startswith(data[-count:]) for s in self._secrets))
        return next(ends, 0)


class BoundedOutput:
    """Not thread-safe. ``captured``: the first bytes; ``captured_aside``: the first bytes of a separate standard error.
    ``secrets``: values to hide."""

    def __init__(
        self, descriptor: int, last_line: Path, *, head: int = HEAD, tail: int = TAIL, secrets: Collection[str] = ()
    ) -> None:
        self._filter, self._aside = SecretFilter(secrets), SecretFilter(secrets)
        self._descriptor, self._last_line, self._left, self._most = descriptor, last_line, head, tail
        self._tail: deque[bytes] = deque()
        self._kept_bytes = self._dropped = 0
        self._reported = float("-inf")
        self._recent = b""
        self.captured = self.captured_aside = b""

    def take(self, data: bytes, *, captured: bool = True) -> None:
        self._show((self._filter if captured else self._aside).take(data), captured=captured)

    def _show(self, data: bytes, *, captured: bool = True) -> None:
        if captured:
            self.captured += data[: CAPTURED - len(self.captured)]
        else:
            self.captured_aside += data[: CAPTURED - len(self.captured_aside)]
        self._recent = (self._recent + data)[-8192:]
        first, rest = data[: self._left], data[self._left :]
        if first:
            _write(self._descriptor, first)
            self._left -= len(first)
        if rest:
            self._take_rest(rest)
        self._report(data)

    def _take_rest(self, data: bytes) -> None:
        self._tail.append(data)
        self._kept_bytes += len(data)
        while self._kept_bytes - len(self._tail[0]) >= self._most:
            self._dropped += len(self._tail[0])
            self._kept_bytes -= len(self._tail.popleft())

    def read_last_lines(self, count: int = 20) -> str:
        return "\n".join(self._recent.decode(errors="replace").splitlines()[-count:])

    def close(self) -> None:
        self._show(self._filter.flush())
        self._show(self._aside.flush(), captured=False)
        if self._dropped:
            _write(self._descriptor, f"\n[{self._dropped} bytes left out]\n".encode())
        for chunk in self._tail:
            _write(self._descriptor, chunk)
        self._tail.clear()

    def _report(self, data: bytes) -> None:
        if time.monotonic() - self._reported < _EVERY:
            return
        lines = [line for line in data[-4096:].decode(errors="replace").splitlines() if line.strip()]
        if lines:
            self._last_line.write_text(lines[-1].strip()[:_LINE], encoding="utf-8")
            self._reported = time.monotonic()


class RotatedOutput(BoundedOutput):
    """Output of a server, which others read while the server runs. The start is in one file, the end in two alternating
    ones."""

    def __init__(
        self, folder: Path, last_line: Path, *, head: int = HEAD, tail: int = TAIL, secrets: Collection[str] = ()
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._start = os.open(folder / LOG_PARTS[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        super().__init__(self._start, last_line, head=head, tail=tail, secrets=secrets)

    def _take_rest(self, data: bytes) -> None:
        older, newer = (self._folder / name for name in LOG_PARTS[1:])
        with newer.open("ab") as stream:
            stream.write(data)
            full = stream.tell() >= self._most // 2
        if full:
            newer.replace(older)

    def close(self) -> None:
        self._show(self._filter.flush())
        os.close(self._start)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
