"""``power``: run under the client of MLCommons' power kit. The kit's files are kept unchanged."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.child.group import Command, GroupEnd, run_group
from harness.child.output import BoundedOutput
from harness.contract import Counter, Result, as_notes
from harness.errors import HarnessError
from harness.power.requests import PowerRequest
from harness.verbs.command import LAST_LINE

DEFAULT_PORT = 4950
_CLIENT, _CHECK = "ptd_client_server/client.py", "compliance/check.py"
_CHECKED = "check.txt"
_LEFT = ("power/client.json", "power/server.json", "run_1/spl.txt", "ranging/spl.txt")
# A line of the analyzer's samples has the time, then the name and value of each quantity.
_WATTS = re.compile(r"^Time,[^,]*,Watts,(?P<watts>-?\d{1,12}(?:\.\d{1,12})?),")
_LARGEST = 64 << 20  # maximum bytes of a session's log: a day of samples has ten million
_NEVER = "see the output of client and director; a failed session cannot be submitted"


def execute(request: PowerRequest, _give_up: Callable[[BaseException], None]) -> Result:
    """Measure. values: those of the measured run, and power, with session, watts (mean), samples and check ("passed",
    or the message of the kit's own check). Raises HarnessError if the session failed."""
    began = time.monotonic()
    Counter(request.counter).close()
    kit, session, place = Path(request.kit), Path(request.session), Path(request.counter).parent
    if not (kit / _CLIENT).is_file():
        raise HarnessError(f"{kit} has no {_CLIENT}", "missing", "set `kit` to a checkout of mlcommons/power-dev")
    answer = place / "measured.json"
    workload = _write_workload(request, place, answer)
    host, _, port = request.director.partition(":")
    words = [
        *(sys.executable, str(kit / _CLIENT), "-a", host, "-p", port or str(DEFAULT_PORT), "-n", request.ntp),
        *("-w", workload, "-L", request.run.log_dir, "-o", str(session), "-T"),
    ]
    ended = run_apart(words, request.counter)
    missing = [name for name in _LEFT if not (session / name).is_file()]
    if ended.status or missing:
        left = f"; {missing[0]} is missing" if missing else ""
        raise HarnessError(f"the power kit's client ended with status {ended.status}{left}", "backend", _NEVER)
    measured = Result.read(answer)
    if not measured.done:
        return measured
    power = {**_describe(session), "check": _check(kit, session, request.counter)}
    facts = measured.facts | as_notes({"power.session": power["session"]})
    return measured.edit(values={**measured.values, "power": power}, facts=facts, seconds=time.monotonic() - began)


def _write_workload(request: PowerRequest, place: Path, answer: Path) -> str:
    """Write the workload, which the client starts twice; it empties the folder of the logs each time, as every run
    requires."""
    inner = place / "measure.json"
    request.run.edit(counter=request.counter).write(inner)
    logs = shlex.quote(request.run.log_dir)
    run = shlex.join([sys.executable, "-P", "-m", "harness", request.run.verb, str(inner), str(answer)])
    return f"find {logs} -mindepth 1 -delete; rm -f {shlex.quote(str(answer))}; exec {run}"


def run_apart(words: list[str], counter: str, afterwards: Callable[[], None] = lambda: None) -> GroupEnd:
    """Run a program that starts the measured run, in the folder of the counter. So the run's parent is not one of our
    processes."""
    environment = {name: value for name, value in os.environ.items() if name != "RECONCILE_PARENT"}
    output = BoundedOutput(sys.stdout.fileno(), Path(counter).with_name(LAST_LINE))
    return run_group(Command(words, Path(counter).parent, environment), output, afterwards)


def _describe(session: Path) -> Mapping[str, Any]:
    """Describe the session: its name from the client, and the analyzer's samples during the measurement."""
    lines = _read_log(session / "run_1/spl.txt").decode(errors="replace").splitlines()
    watts = [float(found["watts"]) for line in lines if (found := _WATTS.match(line))]
    watts = [each for each in watts if each > 0]  # an analyzer that was not ready reports -1
    if not watts:
        raise HarnessError("the analyzer's samples of the measured run contain no power", "backend", _NEVER)
    mean = sum(watts) / len(watts)
    return {"session": _read_name(session / "power/client.json"), "watts": f"{mean:.6g}", "samples": len(watts)}


def _read_name(path: Path) -> str:
    try:
        return str(json.loads(_read_log(path)).get("session_name", ""))
    except (ValueError, AttributeError, RecursionError) as error:
        raise HarnessError(f"{path.name} of the session is damaged: {error}", "backend", _NEVER) from error


def _read_log(path: Path) -> bytes:
    """Read a log with data that came from the director."""
    with path.open("rb") as stream:
        data = stream.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise HarnessError(f"{path.name} of the session has more than {_LARGEST:,} bytes", "backend", _NEVER)
    return data


def _check(kit: Path, session: Path, counter: str) -> str:
    """Check the session with the kit's own check, if available; its output is kept with the session."""
    if not (kit / _CHECK).is_file():
        return "not there"
    words = f"{shlex.join([sys.executable, str(kit / _CHECK), str(session)])} > {_CHECKED} 2>&1"
    ended = run_apart(["sh", "-c", words], counter)
    return "passed" if ended.status == 0 else f"failed, see {_CHECKED}"
