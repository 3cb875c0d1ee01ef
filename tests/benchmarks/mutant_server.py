"""Runs pytest in forks of a process that has imported the libraries already: most of a short test is its start.

Started with the folder of the checkout to test. Reads one JSON document per line, {tests, seconds, output, failed,
reach}; for each it writes the process group of the fork, and then its wait status. ``seconds``: of the processor, for
each process. ``failed``: where to name each test or file that fails; ``reach``: where to write what each test that
passes has reached, or "".
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import Any, NoReturn

import pytest

NOTES = "reach_notes"  # the module in which instrumented code leaves its notes, see reach.py
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


class Failures:
    """A plugin that names what fails."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._path.write_text("", encoding="utf-8")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report.failed, report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report.failed, report.nodeid)

    def _note(self, failed: bool, name: str) -> None:
        if failed:
            with self._path.open("a", encoding="utf-8") as file:
                print(name, file=file)


class Reach:
    """A plugin that writes a line {test, seconds, reached} for each test that passes."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._passed = True
        self._notes = importlib.import_module(NOTES)
        self._notes.OWNER = os.getpid()
        self._of_children = Path(self._notes.PATH)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._notes.SEEN.clear()
        self._of_children.write_text("", encoding="utf-8")
        self._passed, began = True, time.monotonic()
        result = yield
        if self._passed:
            lines = self._of_children.read_text(encoding="utf-8").splitlines()
            reached = sorted({place for _, place in self._notes.SEEN} | set(map(int, lines)))
            row = {"test": item.nodeid, "seconds": round(time.monotonic() - began, 4), "reached": reached}
            with self._path.open("a", encoding="utf-8") as file:
                print(json.dumps(row), file=file)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._passed = self._passed and report.passed


def run(request: dict[str, Any]) -> NoReturn:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (request["seconds"], request["seconds"] + 5))
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    status = 3
    try:
        plugins: list[object] = [Failures(request["failed"])]
        plugins += [Reach(request["reach"])] if request["reach"] else []
        status = int(pytest.main(request["tests"], plugins))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
