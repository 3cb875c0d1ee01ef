"""llama.cpp's server from the package ``xllamacpp``: ``python -P -m harness.run.llama_server MODEL PORT``.

MODEL is a GGUF file, or a folder with one. The server speaks the OpenAI protocol on loopback until a signal ends it.
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import HarnessError


def serve(model: Path, port: int, *, slots: int, context: int, threads: int) -> Any:
    """Start the server. It runs as long as the returned object exists. ``context``: tokens per slot."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.port = str(_find_file(model)), port
    params.n_parallel, params.n_ctx = slots, slots * context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    return xllamacpp.Server(params)


def _find_file(model: Path) -> Path:
    if model.is_file():
        return model
    found = sorted(model.glob("*.gguf"))
    if len(found) != 1:
        problem = f"{model} has {len(found)} GGUF files, not one" if model.is_dir() else f"{model} does not exist"
        raise HarnessError(problem, "input", "pass a GGUF file, or a folder with one")
    return found[0]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -P -m harness.run.llama_server", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("--slots", type=int, default=4, help="concurrent answers")
    parser.add_argument("--context", type=int, default=256, help="maximum tokens of a prompt and its answer")
    # Threads spin while waiting for each other, so none may use a core that LoadGen and its client need.
    half = max(1, len(os.sched_getaffinity(0)) // 2)
    parser.add_argument("--threads", type=int, default=half, help="default: half of the cores")
    asked = parser.parse_args(arguments)
    server = serve(asked.model, asked.port, slots=asked.slots, context=asked.context, threads=asked.threads)
    signal.pause()
    del server


if __name__ == "__main__":
    main()
