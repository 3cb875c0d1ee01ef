"""Programs that stand in for srun, docker and ssh: they parse options as these do, and start processes of this machine.

What a real one changes for a command changes here too: folder, environment, how words travel, which paths are seen, and
that what was started outlives a killed client. ``node`` makes a process believe that it is on a node of a test's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.warm.forks import ForkedProcess, Forks
from tests.warm.server import LOADED

HERE = Path(__file__).parent
_forks = Forks("tests.launchers.daemon", "tests.launchers.child", *LOADED)  # it ends with this process
PROGRAMS = ("srun", "docker", "podman", "ssh")


@dataclass(frozen=True, slots=True)
class Cluster:
    """``folder``: what the programs read and leave there: ``nodes.json``, ``calls``, one JSON list a line, and
    ``containers``."""

    folder: Path

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def calls(self, program: str) -> list[list[str]]:
        path = self.folder / "calls"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [call[1:] for call in map(json.loads, lines) if call[0] == program]

    def containers(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "containers").glob("*"))

    def nodes(self, **nodes: object) -> None:
        (self.folder / "nodes.json").write_text(json.dumps(nodes), encoding="utf-8")


@contextmanager
def installed(folder: Path) -> Iterator[Cluster]:
    """The programs in ``folder/bin``, for PATH, and the daemon behind them; two nodes, n0 and n1, without GPUs."""
    cluster = _install(folder)
    with _start_daemon(folder / "daemon") as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"ready\n"
        try:
            yield cluster
        finally:
            daemon.terminate()


def _start_daemon(path: Path) -> subprocess.Popen[bytes]:
    named: dict[str, Any] = {"stdout": subprocess.PIPE, "cwd": HERE.parents[1]}
    if _forks.on:
        return ForkedProcess(_forks, [str(path)], env=dict(os.environ), **named)
    return subprocess.Popen([sys.executable, "-m", "tests.launchers.daemon", str(path)], **named)


def _install(folder: Path) -> Cluster:
    cluster = Cluster(folder)
    (folder / "containers").mkdir(parents=True)
    cluster.bin.mkdir()
    for name in PROGRAMS:
        module = "docker" if name == "podman" else name
        code = f"import sys; sys.path.insert(0, {str(HERE)!r}); import {module}; {module}.main({str(folder)!r})"
        _script(cluster.bin / name, f'exec {sys.executable} -P -S -c "{code}" "$0" "$@"')
    image = folder / "image"
    image.mkdir()
    _script(image / "python3", f'exec {sys.executable} "$@"')
    cluster.nodes(n0={}, n1={})
    return cluster


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    os.chmod(path, 0o755)  # noqa: PTH101 - as chmod does
