"""What a probe says of this machine, or of each node that a launcher reaches."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.contract import ProbeRequest, Result
from reconciler.errors import ReconcilerError
from reconciler.process import Child, child_environment, harness_command

LIMIT = 300.0  # seconds that a launcher may take; a queue may have to give it nodes first
# What launchers read of the caller's environment; a child of ours gets none of it.
_LAUNCHERS = ("SLURM", "PMI", "OMPI_", "PRTE_", "PBS_", "LSB_", "KUBE", "DOCKER_", "SSH_AUTH_SOCK", "XDG_RUNTIME")

# A node's facts: ``hardware``, ``accelerators``, ``machine``, ``backends`` and ``loadgen``.
Node = Mapping[str, Any]


def probe_nodes(request: ProbeRequest, launcher: Sequence[str], shared: Path) -> tuple[Node, ...]:
    """The values of each node's probe, in the order of their ranks.

    ``launcher``: words before the command, such as ``("srun", "-N", "2")``. Every process that it starts writes a
    result file of its own; of several on one node, as their local ranks say, the first counts. ``shared``: a folder
    that all nodes see.

    Raises ReconcilerError with what was printed when a process failed or none answered.
    """
    shared.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="probe-", dir=shared) as place:
        folder = Path(place)
        request.write(folder / "request.json")
        answers = folder / "answers"
        answers.mkdir()
        command = [*launcher, *harness_command("probe", folder / "request.json", answers)]
        status = _ended(command, folder, launched=bool(launcher))
        results = [Result.read(path) for path in sorted(answers.glob("*.json"))]
        said = "\n".join((folder / "log").read_text(errors="replace").splitlines()[-10:])
    failed = next((result for result in results if not result.done), None)
    if failed is not None:
        raise ReconcilerError(f"the probe failed: {failed.problem}", fix=failed.fix)
    if status != 0 or not results:
        ended = "not within the limit" if status is None else f"with status {status}"
        asked = shlex.join([*launcher, "python"])
        raise ReconcilerError(
            f"`{asked}` ended {ended} and {len(results)} answers\n{said}".strip(),
            fix="every node needs this Python environment and must see the repository's folder",
        )
    nodes = [result.values for result in results if _rank(result.values, "local") == 0]
    return tuple(sorted(nodes, key=lambda node: (_rank(node, "all"), str(node["hardware"]["host"]))))


def _rank(node: Node, which: str) -> int:
    return int(node.get("hardware", {}).get("rank", {}).get(which, 0))


def _ended(command: Sequence[str], folder: Path, *, launched: bool) -> int | None:
    environment = child_environment()
    if launched:
        # The parent of a probe is then the launcher, perhaps on another machine.
        del environment["RECONCILE_PARENT"]
        environment |= {name: value for name, value in os.environ.items() if name.startswith(_LAUNCHERS)}
    try:
        # A launcher may be named relative to where the user stands.
        at = Path.cwd() if launched else folder
        with Child(command, folder=at, log=folder / "log", environment=environment) as child:
            return child.wait(LIMIT)
    except OSError as error:
        raise ReconcilerError(f"{command[0]}: {error.strerror}", fix="name a program that can be started") from error


def differences(nodes: Sequence[Node], named: Callable[[Node], Mapping[str, str]]) -> list[str]:
    """Where a node is not like the first, one line each. ``named``: a node → what must be alike."""
    lines = []
    first = named(nodes[0])
    for number, node in enumerate(nodes[1:], start=2):
        here = named(node)
        for name in sorted(first.keys() | here.keys()):
            if first.get(name) != here.get(name):
                one, other = first.get(name, "nothing"), here.get(name, "nothing")
                host = node["hardware"]["host"]
                lines.append(f"node {number} ({host}): {name} is {other}; on node 1 {one}")
    return lines
