"""A Ray of one's own on 127.0.0.1: a head and further nodes, each with its own processes.

    python -m tests.cluster.ray_nodes start FOLDER [NODES [APART]]    FOLDER holds its sessions, logs and ports; APART:
                                                              a folder of which each node sees one of its own (as root)
    python -m tests.cluster.ray_nodes kill FOLDER NODE        kill -9 one node and all that runs on it
    python -m tests.cluster.ray_nodes revive FOLDER NODE      start it again where it is dead
    python -m tests.cluster.ray_nodes stop FOLDER             end what `start` started, and nothing else

Nodes n1 (the head), n2, ... each offer one of the resource `machine`, and have the label kind=h200 (odd) or b200
(even).
Ray is installed with `pip install 'mlperf-reconciler[ray]'`, in any environment on PATH.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import psutil

from tests.processes import find_free_ports

_MARK = "TESTED_RAY_NODE"  # in the environment of every process of a node
_PORTS = (
    *("dashboard-agent-listen-port", "dashboard-agent-grpc-port", "runtime-env-agent-port", "metrics-export-port"),
    *("object-manager-port", "node-manager-port"),
)
# The head notices the loss of a node within seconds; nothing is sent anywhere.
_VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "60",
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_failure_threshold": "5",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_worker_prestart": "0",
}
_LIMIT = 120.0
_TRIES = 4  # a node gives up where its agent takes 15 s to start, as on a machine that is busy


def find_missing() -> str:
    """Why there is no Ray to test with here; "" where there is."""
    return "" if shutil.which("ray") else "ray is not installed: pip install 'mlperf-reconciler[ray]'"


def start(folder: Path, count: int = 3, apart: Path | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "apart").write_text(str(apart.resolve()) if apart is not None else "")
    gcs, dashboard = find_free_ports(2)
    (folder / "ports.json").write_text(json.dumps({"gcs": gcs, "dashboard": dashboard}))
    for number in range(1, count + 1):
        _start_node(folder, f"n{number}")
    _wait(lambda: len(list_nodes(folder)) == count, "the nodes did not come up")


def find_address(folder: Path) -> str:
    return f"http://127.0.0.1:{_read_ports(folder)['dashboard']}"


def list_nodes(folder: Path) -> dict[str, str]:
    """Ray's own id → name, of those that live."""
    found = _ask(folder, "/nodes?view=summary")["data"]["summary"]
    raylets = [node["raylet"] for node in found]
    return {raylet["nodeId"]: raylet["nodeName"] for raylet in raylets if raylet["state"] == "ALIVE"}


def list_jobs(folder: Path) -> list[dict[str, Any]]:
    return [job for job in _ask(folder, "/api/jobs/") if job.get("submission_id")]


def stop_job(folder: Path, name: str) -> None:
    _ask(folder, f"/api/jobs/{name}/stop", "POST")


def kill(folder: Path, node: str) -> None:
    """As a machine that loses power: its processes, and what they started."""
    _kill(_find_processes(lambda mark: mark == _mark(folder, node)))


def revive(folder: Path, node: str) -> None:
    if not any(process.name() == "raylet" for process in _find_processes(lambda mark: mark == _mark(folder, node))):
        kill(folder, node)  # what is left of it
        _start_node(folder, node)
        _wait(lambda: node in list_nodes(folder).values(), f"{node} did not come up")


def stop(folder: Path) -> None:
    _kill(_find_processes(lambda mark: mark.startswith(_mark(folder, ""))))
    shutil.rmtree(_find_session(folder), ignore_errors=True)


def _start_node(folder: Path, node: str) -> None:
    ports, head = _read_ports(folder), node == "n1"
    kind = "h200" if int(node.removeprefix("n")) % 2 else "b200"
    place = (
        ["--head", f"--port={ports['gcs']}", f"--dashboard-port={ports['dashboard']}", "--dashboard-host=127.0.0.1"]
        if head
        else [f"--address=127.0.0.1:{ports['gcs']}"]
    )
    words = [
        *("ray", "start", *place, "--node-ip-address=127.0.0.1", f"--node-name={node}", "--disable-usage-stats"),
        *("--num-cpus=1", "--num-gpus=0", '--resources={"machine": 1}', f"--labels=kind={kind}"),
        *("--object-store-memory=80000000", f"--temp-dir={_find_session(folder)}"),
        *(f"--{name}={port}" for name, port in zip(_PORTS, find_free_ports(len(_PORTS)), strict=True)),
    ]
    if apart := (folder / "apart").read_text():
        disk = folder / f"disk-{node}"
        disk.mkdir(exist_ok=True)
        own = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
        words = ["unshare", "--mount", "sh", "-c", own, "sh", str(disk), apart, *words]
    environment = {**os.environ, **_VARIABLES, _MARK: _mark(folder, node)}
    environment.pop("RAY_ADDRESS", None)
    for _ in range(_TRIES):
        with (folder / f"{node}.log").open("ab") as out:  # daemons keep what they were given open: no pipe would end
            ended = subprocess.run(
                words, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=folder, check=False
            )
        if ended.returncode == 0:
            return
        kill(folder, node)
    raise AssertionError((folder / f"{node}.log").read_text(errors="replace"))


def _find_session(folder: Path) -> Path:
    """Ray puts sockets there, whose names may have 107 bytes."""
    return Path("/tmp") / f"ray-{_read_ports(folder)['gcs']}"


def _read_ports(folder: Path) -> dict[str, int]:
    found: dict[str, int] = json.loads((folder / "ports.json").read_text())
    return found


def _ask(folder: Path, path: str, method: str = "GET") -> Any:
    connection = HTTPConnection("127.0.0.1", _read_ports(folder)["dashboard"], timeout=30)
    try:
        connection.request(method, path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def _mark(folder: Path, node: str) -> str:
    return f"{folder.resolve()}/{node}"


def _find_processes(belongs: Callable[[str], bool]) -> list[psutil.Process]:
    """Those of a node, and what they started: a job's command keeps little of its environment."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if belongs(process.environ().get(_MARK, "")):
                found |= {each.pid: each for each in (process, *process.children(recursive=True))}
    return list(found.values())


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(processes, timeout=10)


def _wait(condition: Callable[[], bool], problem: str) -> None:
    give_up = time.monotonic() + _LIMIT
    while not _holds(condition):
        assert time.monotonic() < give_up, problem
        time.sleep(0.5)


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except (OSError, HTTPException, ValueError, KeyError, TypeError):  # the dashboard is not there yet
        return False


@contextlib.contextmanager
def started(folder: Path, count: int = 3, apart: Path | None = None) -> Iterator[Path]:
    try:
        start(folder, count, apart)
        yield folder
    finally:
        stop(folder)


def main(words: list[str]) -> None:
    commands = {"start": start, "kill": kill, "revive": revive, "stop": stop}
    if len(words) < 2 or words[0] not in commands:
        raise SystemExit(__doc__)
    folder, more = Path(words[1]), words[2:]
    if words[0] == "start":
        start(folder, int(more[0]) if more else 3, Path(more[1]) if more[1:] else None)
        print(f"export RAY_API_SERVER_ADDRESS={find_address(folder)}")
    else:
        commands[words[0]](folder, *more)


if __name__ == "__main__":
    main(sys.argv[1:])
