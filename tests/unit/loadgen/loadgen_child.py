"""Runs the real LoadGen in a process of its own, for the fixtures of this folder. No code of the project is used.

run REQUEST: one test; read REQUEST: what TestSettings.FromConfig makes of many confs, printed as JSON.
"""

from __future__ import annotations

import array
import json
import sys
import time
from pathlib import Path
from typing import Any

import mlperf_loadgen as lg


def run(request: dict[str, Any]) -> None:
    """Answer every query with one float32, after ``delay`` seconds per call, and a fifth of a second more in the call
    ``stalls_at``; with ``tokens`` as a language model does, with a first token and then a few more."""
    settings = lg.TestSettings()
    if settings.FromConfig(request["user_conf"], request["model"], request["scenario"]) != 0:
        raise SystemExit("FromConfig failed")
    settings.scenario = getattr(lg.TestScenario, request["scenario"])
    settings.mode = getattr(lg.TestMode, request["mode"])
    answer = array.array("f", [1.0])
    address, size = answer.buffer_info()[0], answer.itemsize

    calls = 0

    def issue(samples: list[Any]) -> None:
        nonlocal calls
        calls += 1
        if delay := request["delay"] + 0.2 * (calls == request.get("stalls_at")):
            time.sleep(delay)
        if request.get("tokens"):
            lg.FirstTokenComplete([lg.QuerySampleResponse(s.id, address, size) for s in samples])
            time.sleep(0.0002)
        counts = [[3 + s.index % 7] if request.get("tokens") else [] for s in samples]
        lg.QuerySamplesComplete(
            [lg.QuerySampleResponse(s.id, address, size, *count) for s, count in zip(samples, counts, strict=True)]
        )

    sut = lg.ConstructSUT(issue, lambda: None)
    qsl = lg.ConstructQSL(request["total"], request["loaded"], lambda _: None, lambda _: None)
    log = lg.LogSettings()
    log.log_output.outdir = request["log_dir"]
    log.enable_trace = False
    lg.StartTestWithLogSettings(sut, qsl, settings, log, request["audit"])
    lg.DestroyQSL(qsl)
    lg.DestroySUT(sut)


def read(request: dict[str, Any]) -> list[dict[str, Any]]:
    """FromConfig on fresh settings, for each conf; type 2 leaves the built-in conf out, type 0 reads only that."""
    answers = []
    path = Path(request["scratch"])
    for conf in request["confs"]:
        path.write_bytes(bytes.fromhex(conf["data"]))
        settings = lg.TestSettings()
        code = settings.FromConfig(str(path), conf["model"], conf["scenario"], conf["type"])
        names = [name for name in dir(settings) if not name.startswith("_")]
        values = {name: getattr(settings, name) for name in names}
        numbers = {name: value for name, value in values.items() if isinstance(value, (bool, int, float))}
        answers.append({"code": code, **numbers})
    return answers


if __name__ == "__main__":
    document = json.loads(Path(sys.argv[2]).read_text())
    if sys.argv[1] == "run":
        run(document)
    else:
        print(json.dumps(read(document)))
