"""Starts processes for the clients of this folder, as slurmd, dockerd and sshd do: they are no descendants of a client.

A client sends one line of JSON and its standard output, then its input; it is sent the status at the end. When a client
is gone, the input of what it started ends, and nothing else.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading

STARTED = {}


def serve(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(64)
        print("ready", flush=True)
        while True:
            client, _ = server.accept()
            threading.Thread(target=answer, args=(client,), daemon=True).start()


def answer(client):
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
    process = subprocess.Popen(
        request["words"],
        env=request["environment"],
        cwd=request["cwd"],
        stdin=subprocess.PIPE if request["fed"] else subprocess.DEVNULL,
        stdout=descriptors[0],
        stderr=descriptors[0],
        start_new_session=True,
    )
    os.close(descriptors[0])
    STARTED[request["name"]] = process
    threading.Thread(target=feed, args=(client, process, rest), daemon=True).start()
    status = process.wait()
    with contextlib.suppress(OSError):
        client.sendall(b"%d\n" % status)
        client.close()


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
    serve(sys.argv[1])
