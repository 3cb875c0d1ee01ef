"""What the stand-ins share: options, and processes that live on when the program that started them is killed."""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path

NODE = str(Path(__file__).parent / "node")


def note(folder, program, words):
    with (Path(folder) / "calls").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps([program, *words]) + "\n")


def options(program, words, flags, valued):
    """(options in order, the words after them). An option that the real program does not have ends it, as there."""
    found, at = [], 0
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        name, equals, value = word.partition("=")
        if name in flags and not equals:
            found.append((name, ""))
        elif name in valued and equals and name.startswith("--"):
            found.append((name, value))
        elif word in valued:
            at += 1
            found.append((word, words[at]))
        elif not word.startswith("--") and word[:2] in valued:
            found.append((word[:2], word[2:]))
        else:
            sys.exit(f"{program}: unknown option {word}")
        at += 1
    return found, words[at:]


def last(found, *names, default=""):
    return next((value for name, value in reversed(found) if name in names), default)


def on_node(folder, name, environment):
    return {**environment, "NODE_NAME": name, "NODES": str(Path(folder) / "nodes.json"), "PYTHONPATH": NODE}


def run(folder, commands, *, hand_on=True):
    """[(name, words, environment, cwd, gets input)] → the highest status, when all have ended. SIGTERM is handed on,
    unless no one there would take it."""
    clients = [_client(folder, command) for command in commands]
    names = [command[0] for command in commands]
    signal.signal(signal.SIGTERM, lambda *_: [kill(folder, name, signal.SIGTERM) for name in names if hand_on])
    threading.Thread(target=_feed, args=(clients,), daemon=True).start()
    return max(abs(int(_line(client))) for client in clients)


def kill(folder, name, number):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"{folder}/daemon")
        client.sendall(json.dumps({"signal": number, "name": name}).encode() + b"\n")
        client.recv(1)


def _client(folder, command):
    client = socket.socket(socket.AF_UNIX)
    client.connect(f"{folder}/daemon")
    request = dict(zip(("name", "words", "environment", "cwd", "fed"), command, strict=True))
    socket.send_fds(client, [json.dumps(request).encode() + b"\n"], [1])
    return client


def _line(client):
    data = b""
    while not data.endswith(b"\n"):
        read = client.recv(64)
        if not read:
            sys.exit("the daemon is gone")
        data += read
    return data


def _feed(clients):
    while data := os.read(0, 4096):
        for client in clients:
            with contextlib.suppress(OSError):
                client.sendall(data)
    for client in clients:
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_WR)
