"""Files that are not what their readers expect, by what they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

DEEP = b"[" * 200_000
STRANGE: dict[str, Callable[[Path], object]] = {
    "brackets": lambda path: path.write_bytes(DEEP),
    "a number beyond all": lambda path: path.write_bytes(b'{"name": "x", "index": 1e400, "size": 1e400}'),
    "digits": lambda path: path.write_bytes(b'{"name": "x", "index": %s, "size": 1}' % (b"9" * 5000)),
    "no UTF-8": lambda path: path.write_bytes(b"\xff\xfe"),
    "a list": lambda path: path.write_bytes(b"[1]"),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
}
