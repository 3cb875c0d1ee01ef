"""The process that is forked: ``python -P server.py DESCRIPTOR MAIN MODULE...``, a socket on which it is asked for
forks.

It does nothing but load modules, so that a fork of it is what ``python -P -m MAIN`` is once that has loaded them. A
request is one JSON document with the open files of the fork: where it says how it goes, its standard input, output and
error, and whatever else it keeps open.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import selectors
import signal
import socket
import sys
import time
from typing import Any, NoReturn

from tests.flushes import skip_flushes

MOST = 1 << 20  # bytes of a request
CHILD = "harness.__main__"
LOADED = tuple(f"harness.verbs.{verb}" for verb in ("build", "run", "score", "probe", "command"))  # by children
if all(map(importlib.util.find_spec, ("aiohttp", "tokenizers"))):
    LOADED += ("harness.backends.openai",)
_DESCRIPTORS = 16
_STREAMS = slice(1, 4)  # of the descriptors of a request


def serve(asked: socket.socket, main: str) -> None:
    """Until the other end of the socket is closed; then every child of a pass ends, since this is its parent."""
    watched = selectors.DefaultSelector()
    watched.register(asked, selectors.EVENT_READ)
    while True:
        for key, _ in watched.select():
            if key.fileobj is not asked:
                watched.unregister(key.fileobj)
                pid, reported = key.data
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                os.close(key.fd)
                os.write(reported, f"{status}\n".encode())
                os.close(reported)
                continue
            data, files, _, _ = socket.recv_fds(asked, MOST, _DESCRIPTORS)
            if not data:
                return
            pid = os.fork()
            if pid == 0:
                asked.close()
                for other in watched.get_map().values():
                    if other.data is not None:
                        os.close(other.fd)
                        os.close(other.data[1])
                become(main, json.loads(data), files)
            for descriptor in files[1:]:
                os.close(descriptor)
            watched.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, files[0]))


def fork_server(main: str) -> socket.socket:
    """Where forks are asked for of a process that is forked from this one, and ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    os.environ["RECONCILE_PARENT"] = str(os.getpid())
    if os.fork() == 0:
        ours.close()
        _serve_alone(theirs, main)
    del os.environ["RECONCILE_PARENT"]
    theirs.close()
    return ours


def _serve_alone(asked: socket.socket, main: str) -> NoReturn:
    from harness.child.orphan import die_with_parent

    try:
        die_with_parent()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nowhere, number)
        serve(asked, main)
    finally:
        os._exit(0)


def become(main: str, request: dict[str, Any], files: list[int]) -> NoReturn:
    """What a new process would be: a session, a folder, an environment and standard streams of its own."""
    status = 1
    try:
        os.setsid()
        os.write(files[0], f"{os.getpid()}\n".encode())
        os.close(files[0])
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"], RECONCILE_PARENT=str(os.getppid()))
        time.tzset()
        for number, descriptor in enumerate(files[_STREAMS]):
            os.dup2(descriptor, number)
        for descriptor in files[_STREAMS]:
            os.close(descriptor)
        sys.argv[1:] = request["words"]
        sys.modules[main].main(request["words"])
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for name in sys.argv[2:]:
        importlib.import_module(name)
    skip_flushes()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
