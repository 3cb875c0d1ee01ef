"""Probe this machine, or each node that a launcher reaches."""

from __future__ import annotations

import secrets
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.contract import Busy, ProbeRequest, Result
from reconciler.errors import ReconcilerError
from reconciler.storage.launch.adapters import build_launch, choose_interpreter
from reconciler.storage.launch.launcher import Launcher
from reconciler.storage.leftovers import open_temporary
from reconciler.storage.process import (
    Child,
    build_child_environment,
    build_elsewhere_environment,
    build_harness_command,
    build_launcher_environment,
)

LIMIT = 300.0  # seconds that a launcher may take; a queue may have to allocate nodes first
_LATE = 2.0  # seconds until files from other nodes become visible here

# A node's facts: ``hardware``, ``accelerators``, ``machine``, ``backends`` and ``loadgen``.
Node = Mapping[str, Any]


def probe_nodes(request: ProbeRequest, launcher: Launcher, shared: Path, seen: Sequence[Path] = ()) -> tuple[Node, ...]:
    """Return the values of each node's probe, in the order of their ranks.

    Every process that the launcher starts writes its own result file. If there are several on one node, the one with
    the lowest local rank counts. ``shared``: a folder that all nodes see; ``seen``: paths that a container must see.

    Raises ReconcilerError with the output if a process failed or none answered.
    """
    shared.mkdir(parents=True, exist_ok=True)
    with open_temporary("probe", shared) as folder:
        request.write(folder / "request.json")
        answers = folder / "answers"
        answers.mkdir()
        status = _run_probe(launcher, folder, answers, (shared.resolve(), *seen))
        results = _read_answers(answers, status)
        said = "\n".join((folder / "log").read_text(errors="replace").splitlines()[-10:])
    failed = next((result for result in results if not result.done), None)
    if failed is not None:
        raise ReconcilerError(f"the probe failed: {failed.problem}", fix=failed.fix)
    if status != 0 or not results:
        ended = "not within the limit" if status is None else f"with status {status}"
        asked = shlex.join([*launcher.words, "python"])
        where = f" in {choose_interpreter(launcher, sys.executable)}" if launcher.words else ""
        raise ReconcilerError(
            f"`{asked}` ended {ended} and {len(results)} answers\n{said}".strip(),
            fix=f"its processes need {shared} and mlperf-reconciler{where}; set the system's `python` if needed",
        )
    nodes = [result.values for result in results if _read_rank(result.values, "local") == 0]
    return tuple(sorted(nodes, key=lambda node: (_read_rank(node, "all"), read_host(node))))


def read_host(node: Node) -> str:
    return str(node.get("machine", {}).get("machine.host") or node.get("hardware", {}).get("host", ""))


def find_first_busy(nodes: Sequence[Node], *, elsewhere: bool) -> Busy | None:
    """Return the first other user of a node, from the answers to ``ProbeRequest.quiet``. ``elsewhere``: include the
    node's name."""
    found = [(node, node["busy"]) for node in nodes if node.get("busy")]
    # Another process on a GPU disturbs more than one on processors, and can be identified reliably.
    found.sort(key=lambda item: not str(item[1]["what"]).startswith("GPU"))
    return next((Busy(**{**busy, "host": read_host(node) if elsewhere else ""}) for node, busy in found), None)


def _read_rank(node: Node, which: str) -> int:
    return int(node.get("rank", {}).get(which, 0))


def _read_answers(folder: Path, status: int | None) -> list[Result]:
    """Read the results; a shared file system may show another node's file with a delay."""
    give_up = time.monotonic() + (_LATE if status == 0 else 0.0)
    while not (found := sorted(folder.glob("*.json"))) and time.monotonic() < give_up:
        time.sleep(0.05)
    return [Result.read(path) for path in found]


def _run_probe(launcher: Launcher, folder: Path, answers: Path, seen: Sequence[Path]) -> int | None:
    child = build_harness_command(
        "probe", folder / "request.json", answers, choose_interpreter(launcher, sys.executable)
    )
    environment, command = build_child_environment(), tuple(child)
    ending: tuple[str, ...] = ()
    if launcher.words:
        started = build_launch(
            launcher, child, build_elsewhere_environment(), f"reconcile-probe-{secrets.token_hex(4)}", seen
        )
        command, ending = started.command, started.ending
        environment = build_launcher_environment()
    try:
        # A launcher may be relative to the user's folder.
        at = Path.cwd() if launcher.words else folder
        with Child(command, folder=at, log=folder / "log", environment=environment) as process:
            if launcher.words:
                process.report(b"{}\n")
            status = process.wait(LIMIT)
            if status is None and ending:
                _end(ending, folder)
            return status
    except OSError as error:
        raise ReconcilerError(f"{command[0]}: {error.strerror}", fix="use an executable program") from error


def _end(command: Sequence[str], folder: Path) -> None:
    with Child(command, folder=folder, log=folder / "log", environment=build_launcher_environment()) as process:
        process.wait(LIMIT / 10)


def find_differences(nodes: Sequence[Node], named: Callable[[Node], Mapping[str, str]]) -> list[str]:
    """List the differences of each node from the first, one line each. ``named``: a node → facts that must be equal."""
    lines = []
    first = named(nodes[0])
    for number, node in enumerate(nodes[1:], start=2):
        here = named(node)
        for name in sorted(first.keys() | here.keys()):
            if first.get(name) != here.get(name):
                one, other = first.get(name, "nothing"), here.get(name, "nothing")
                lines.append(f"node {number} ({read_host(node)}): {name} is {other}; on node 1 {one}")
    return lines
