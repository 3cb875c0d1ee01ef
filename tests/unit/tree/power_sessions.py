"""A result whose power was measured, in a tree of the tests."""

from __future__ import annotations

import hashlib
import json
import shutil
from datetime import timedelta
from pathlib import Path

from reconciler.loadgen.log import parse_detail

CELL = "closed/Acme/results/sys1/resnet/Offline/performance"
LOGS = ("mlperf_log_detail.txt", "mlperf_log_summary.txt")


def add_session(tree: Path) -> Path:
    """The performance folder of the Offline result, as the kit leaves it."""
    folder = tree / CELL
    shutil.copytree(folder / "run_1", folder / "ranging")
    (folder / "power").mkdir()
    for name in ("run_1/spl.txt", "ranging/spl.txt", "power/ptd_logs.txt", "power/client.log", "power/server.log"):
        (folder / name).write_text(f"{make_samples(folder)}{name}\n")
    logs = [f"{run}/{name}" for run in ("run_1", "ranging") for name in LOGS]
    write_session(folder, "client.json", [*logs, "power/client.log"])
    write_session(folder, "server.json", ["run_1/spl.txt", "ranging/spl.txt", "power/ptd_logs.txt", "power/server.log"])
    return folder


def make_samples(folder: Path, watts: str = "210.5", later: timedelta = timedelta(), every: int = 1) -> str:
    """One a second from before the run to after it; of every so many minutes."""
    log = parse_detail((folder / "run_1" / LOGS[0]).read_bytes())
    assert log.started is not None
    assert log.ended is not None
    seconds = int((log.ended - log.started).total_seconds()) + 5
    times = [log.started + timedelta(seconds=at) for at in range(-2, seconds)]
    return "".join(
        f"Time,{at + later:%m-%d-%Y %H:%M:%S}.5,Watts,{watts},Volts,230.1\n" for at in times if at.minute % every == 0
    )


def write_session(folder: Path, file: str, names: list[str]) -> None:
    document = {
        "session_name": "2026-07-23_12-54-21",
        "uuid": {"client": "c1", "server": "s1"},
        "results": {name: hashlib.sha1((folder / name).read_bytes()).hexdigest() for name in names},
    }
    if file == "server.json":
        document["ptd_messages"] = list_messages(folder)
    (folder / "power" / file).write_text(json.dumps(document, indent=1))


def list_messages(folder: Path, missing: int = 0) -> list[dict[str, str]]:
    """What the analyzer's daemon was asked, with its answers, before the last samples were taken."""
    messages = [{"cmd": "Hello", "reply": "Hello, PTDaemon here!"}]
    for run, phase in (("ranging", "ranging"), ("run_1", "testing")):
        messages += [{"cmd": f"Go,1000,0,2026-07-23_12-54-21_{phase}", "reply": "Starting"}]
        messages += [{"cmd": "Watts", "reply": count(folder / run / "spl.txt", missing)}]
        messages += [{"cmd": "Stop", "reply": "Stopping"}]
    return messages


def count(samples: Path, missing: int = 0) -> str:
    """As the daemon answers, of all samples but the last ones."""
    watts = [float(line.split(",")[3]) for line in samples.read_text().splitlines() if line.startswith("Time,")]
    watts = watts[: len(watts) - missing]
    valid = [each for each in watts if each > 0]
    figures = (sum(valid) / len(valid), min(valid), max(valid))
    counts = (len(watts), len(watts) - len(valid), len(valid))
    return ",".join(("Watts", *(f"{figure:.6f}" for figure in figures), *map(str, counts)))
