"""A terminal of so many columns, for commands of this process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import termios
import threading
from collections.abc import Sequence
from pathlib import Path

from reconciler.cli.main import main
from reconciler.errors import BUG

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def print_on_terminal(root: Path, words: Sequence[str], columns: int) -> list[str]:
    """The lines that a command prints there, to both streams, without their colours."""
    return _STYLE.sub("", print_in_colour(root, words, columns)).splitlines()


def print_in_colour(root: Path, words: Sequence[str], columns: int) -> str:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    printed: list[bytes] = []
    reader = threading.Thread(target=_drain, args=(ours, printed))
    reader.start()
    with (
        os.fdopen(theirs, "w", encoding="utf-8") as terminal,
        contextlib.chdir(root),
        contextlib.redirect_stdout(terminal),
        contextlib.redirect_stderr(terminal),
    ):
        code = main(words)
    reader.join()
    os.close(ours)
    assert code != BUG
    return b"".join(printed).decode().replace("\r\n", "\n")


def _drain(descriptor: int, printed: list[bytes]) -> None:
    with contextlib.suppress(OSError):  # Linux: of a terminal that is closed on the other side
        while data := os.read(descriptor, 65536):
            printed.append(data)
