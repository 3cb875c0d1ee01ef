"""Starts processes for the clients of this folder, as slurmd, dockerd and sshd do: they are no descendants of a client.

A client sends one line of JSON and its standard output, then its input; it is sent the status at the end. When a client
is gone, the input of what it started ends, and nothing else.

Where a client's words start a child of a pass, that is forked from a process that has loaded what it loads.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from itertools import takewhile

from tests.warm.forks import ForkedProcess, Forks
from tests.warm.server import fork_server

STARTED = {}
CHILD = "tests.launchers.child"


def main(words):
    """As a fork, which can fork its like."""
    forks = Forks(CHILD)
    forks.use(fork_server(CHILD))
    signal.signal(signal.SIGTERM, end)
    serve(words[0], forks)


def serve(path, forks):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(64)
        print("ready", flush=True)
        while True:
            client, _ = server.accept()
            threading.Thread(target=answer, args=(client, forks), daemon=True).start()


def answer(client, forks):
    data, descriptors, *_ = socket.recv_fds(client, 1 << 20, 2)
    while b"\n" not in data:
        data += client.recv(1 << 20)
    line, _, rest = data.partition(b"\n")
    request = json.loads(line)
    if "signal" in request:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(STARTED[request["name"]].pid, request["signal"])
        client.close()
        return
    process = start(request, descriptors[0], forks)
    os.close(descriptors[0])
    STARTED[request["name"]] = process
    threading.Thread(target=feed, args=(client, process, rest), daemon=True).start()
    status = process.wait()
    with contextlib.suppress(OSError):
        client.sendall(b"%d\n" % status)
        client.close()


def start(request, output, forks):
    named = {"cwd": request["cwd"], "stdout": output, "stderr": output}
    named["stdin"] = subprocess.PIPE if request["fed"] else subprocess.DEVNULL
    child, environment = find_child(**request) if forks else ([], {})
    if child:
        return ForkedProcess(forks, child, env=environment, **named)
    return subprocess.Popen(request["words"], env=request["environment"], start_new_session=True, **named)


def find_child(words, environment, cwd, **_):
    """What follows ``python -P -m harness`` in the words, and the environment that ``env`` gives it; nothing where
    something else is started."""
    if words[:2] == ["sh", "-c"] and words[2].startswith("env "):
        said = ["sh", "-c", f"printf '%s\\0' {words[2]}"]  # what a shell makes of the text
        printed = subprocess.run(said, env=environment, cwd=cwd, capture_output=True, text=True, check=True).stdout
        words = printed.split("\0")[:-1]
    if words[0] != "env":
        return [], {}
    setting = list(takewhile(lambda word: "=" in word, words[1:]))
    program, *options = words[1 + len(setting) :]
    if program not in (sys.executable, "python3") or options[:3] != ["-P", "-m", "harness"]:
        return [], {}
    return options[3:], {**environment, **dict(word.split("=", 1) for word in setting)}


def feed(client, process, data):
    with contextlib.suppress(OSError):
        while data or (data := client.recv(4096)):
            if process.stdin:
                process.stdin.write(data)
                process.stdin.flush()
            data = b""
    if process.stdin:
        with contextlib.suppress(OSError):
            process.stdin.close()


def end(*_):
    for process in STARTED.values():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    serve(sys.argv[1], None)
