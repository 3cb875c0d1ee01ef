"""Runs pytest in forks of a process that has imported the libraries already: most of a short test is its start.

Started with the folder of the checkout to test. Reads one JSON document per line, {tests, seconds, output}; for each it
writes the process group of the fork, and then its wait status. ``seconds``: of the processor, for each process.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import sys
import traceback
from typing import Any, NoReturn

# Libraries alone: what is tested, and its tests, must be imported anew in each fork.
LIBRARIES = (
    "_pytest.assertion.rewrite",
    "click",
    "git",
    "hypothesis.strategies",
    "jsonschema",
    "numpy",
    "psutil",
    "pydantic",
    "pytest",
    "rich.console",
    "rich.table",
    "ruamel.yaml",
    "watchdog.observers",
)


def main() -> None:
    os.chdir(sys.argv[1])
    sys.path.insert(0, sys.argv[1])
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            run(request)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


def run(request: dict[str, Any]) -> NoReturn:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (request["seconds"], request["seconds"] + 5))
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    status = 3
    try:
        status = int(importlib.import_module("pytest").main(request["tests"]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
