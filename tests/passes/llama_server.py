"""llama.cpp's server, as the package ``xllamacpp`` has it: ``python -m tests.passes.llama_server MODEL.gguf PORT``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

SLOTS, CONTEXT = 4, 256  # of each


def serve(path: Path, port: int) -> Any:
    """It runs as long as what is returned."""
    import xllamacpp

    asked = xllamacpp.CommonParams()
    asked.model.path, asked.port = str(path), port
    asked.model_alias = {"tiny"}
    asked.n_parallel, asked.n_ctx, asked.cpuparams.n_threads = SLOTS, SLOTS * CONTEXT, 1
    return xllamacpp.Server(asked)


if __name__ == "__main__":
    server = serve(Path(sys.argv[1]), int(sys.argv[2]))
    signal.pause()
