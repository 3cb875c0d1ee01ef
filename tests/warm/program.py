"""``reconcile`` as a program for shells without its start: it asks a test for a fork, and ends as that does."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.warm.commands import start_command

_ASK = """\
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({path!r})
    request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(asked, [len(request).to_bytes(4, "big")], [0, 1, 2])
    asked.sendall(request)
    sys.exit(int(asked.recv(16)))
"""


@contextlib.contextmanager
def program(folder: Path) -> Iterator[Path]:
    """A folder for PATH with the program in it, one at a time."""
    (folder / "bin").mkdir()
    (folder / "ask.py").write_text(_ASK.format(path=str(folder / "socket")), encoding="utf-8")
    script = folder / "bin/reconcile"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{folder}/ask.py" "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as asked:
        asked.bind(str(folder / "socket"))
        asked.listen()
        threading.Thread(target=_answer, args=(asked,), daemon=True).start()
        yield script.parent
        asked.shutdown(socket.SHUT_RDWR)


def _answer(asked: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is closed
        while True:
            client, _ = asked.accept()
            with client, contextlib.ExitStack() as streams:
                size, descriptors, *_ = socket.recv_fds(client, 4, 3)
                stdin, stdout, stderr = (streams.enter_context(os.fdopen(number, "rb")) for number in descriptors)
                request = b""
                while len(request) < int.from_bytes(size, "big"):
                    request += client.recv(1 << 16)
                words, folder, environment = json.loads(request)
                ended = start_command(words, Path(folder), environment, stdin=stdin, stdout=stdout, stderr=stderr)
                client.sendall(str(ended.wait()).encode())
