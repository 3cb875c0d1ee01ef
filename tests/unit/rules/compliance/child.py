"""Runs the real LoadGen, several tests one after another, with given answers. No code of the project is used.

REQUEST.json is a list of runs: folder, model, scenario, mode, settings (attributes of TestSettings), audit (path or
""), total, answers (index -> hex of the response), tokens (0, or the bytes of a token; then first tokens
are reported).
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import mlperf_loadgen as lg

BUILT_IN, OTHER = 0, 2


def run(request: dict[str, Any]) -> None:
    settings = lg.TestSettings()
    settings.FromConfig("", request["model"], request["scenario"], BUILT_IN)
    settings.scenario = getattr(lg.TestScenario, request["scenario"])
    settings.mode = getattr(lg.TestMode, request["mode"])
    for name, value in request["settings"].items():
        setattr(settings, name, value)
    buffers = [ctypes.create_string_buffer(bytes.fromhex(text)) for text in request["answers"]]
    width = request["tokens"]

    def response(identity: int, index: int, *, first: bool = False) -> Any:
        buffer = buffers[index % len(buffers)]
        size = ctypes.sizeof(buffer) - 1  # without the closing zero of a C string
        if not width:
            return lg.QuerySampleResponse(identity, ctypes.addressof(buffer), size)
        size = min(size, width) if first else size
        return lg.QuerySampleResponse(identity, ctypes.addressof(buffer), size, size // width)

    def issue(samples: list[Any]) -> None:
        if width and request["scenario"] != "Offline":
            lg.FirstTokenComplete([response(s.id, s.index, first=True) for s in samples])
        lg.QuerySamplesComplete([response(s.id, s.index) for s in samples])

    sut = lg.ConstructSUT(issue, lambda: None)
    qsl = lg.ConstructQSL(request["total"], request["total"], lambda _: None, lambda _: None)
    log = lg.LogSettings()
    log.log_output.outdir = request["folder"]
    log.enable_trace = False
    lg.StartTestWithLogSettings(sut, qsl, settings, log, request["audit"])
    lg.DestroyQSL(qsl)
    lg.DestroySUT(sut)


if __name__ == "__main__":
    for item in json.loads(Path(sys.argv[1]).read_text()):
        run(item)
