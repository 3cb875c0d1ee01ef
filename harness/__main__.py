"""``python -P -m harness VERB REQUEST.json RESULT.json``: one child process, one result."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import platform
import secrets
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from harness.child.launched import follow_input, is_launched, is_read_elsewhere
from harness.child.orphan import die_with_parent, keep_descriptors
from harness.contract import (
    BuildRequest,
    CommandRequest,
    FileMessage,
    LaunchRequest,
    ProbeRequest,
    RehearseRequest,
    Result,
    RunRequest,
    ScoreRequest,
    ServiceRequest,
)
from harness.errors import HarnessError, explain
from harness.parts import list_part_requests, load_mig

_REQUESTS: tuple[type[FileMessage], ...] = (
    *(BuildRequest, RunRequest, ScoreRequest, CommandRequest),
    *(ServiceRequest, ProbeRequest, LaunchRequest, RehearseRequest),
    *list_part_requests(),
)
VERBS = {request.verb: request for request in _REQUESTS}
GiveUp = Callable[[BaseException], None]


_NOT_THEIRS = (str(Path(__file__).parent), contextlib.__file__, "<frozen")


def _report(error: BaseException, known: HarnessError) -> None:
    """Write the child's log: a traceback for an unexpected error, otherwise the problem and the lines of the user's own
    code that led to it."""
    unforeseen = error.__cause__ is not None and not isinstance(error.__cause__, HarnessError | OSError)
    if known.problem_class == "crash" or unforeseen:
        traceback.print_exception(error)
        return
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_NOT_THEIRS)]
    sys.stderr.write("".join(traceback.format_list(frames)) + f"{known.problem}\n")
    if known.fix:
        sys.stderr.write(f"fix: {known.fix}\n")


class Ending:
    """Writes the result once and ends the process, on whichever thread calls it first.

    The process exits without unloading native libraries, since an existing result is complete. So no library's teardown
    can change the exit status.
    """

    def __init__(self, path: Path, report: Callable[[Result], None]) -> None:
        self._path, self._report = path, report
        self._began = time.monotonic()
        self._once = threading.Lock()

    def finish(self, result: Result) -> NoReturn:
        with self._once:
            status = 0
            try:
                result.write(self._path)
                self._report(result)
            except OSError:
                traceback.print_exc()
                status = 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def fail(self, error: BaseException) -> NoReturn:
        known, seconds = explain(error), time.monotonic() - self._began
        _report(error, known)
        kind = known.problem_class
        self.finish(Result(done=False, seconds=seconds, problem=known.problem, problem_class=kind, fix=known.fix))


def _perform(verb: str, request_path: Path, ending: Ending) -> Result:
    try:
        request = VERBS[verb].read(request_path)
    except ValueError as error:
        problem = str(error)
        raise HarnessError(problem, "input", "parent and child must be of one version of mlperf-reconciler") from error
    if wanted := _list_slices(request):
        # Must precede any CUDA call: CUDA reads the list of visible devices only once.
        load_mig().take_slices(wanted, anywhere=verb == BuildRequest.verb)
    return load_verb(verb)(request, ending.fail)


def load_verb(verb: str) -> Callable[[Any, GiveUp], Result]:
    """Import only the requested verb, since a probe must work even if the libraries that a run needs are missing."""
    module = importlib.import_module(VERBS[verb].module or f"harness.verbs.{verb}")
    execute: Callable[[Any, GiveUp], Result] = module.execute
    return execute


def keep_to_one_thread() -> None:
    """Limit BLAS to one thread. numpy is never the engine, so its pool would only compete with the engine's, and
    training results would depend on the number of cores."""
    for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")


def _list_slices(request: FileMessage) -> list[str]:
    """List the profiles of all slices that a child takes, those of background loads last."""
    loads = request.background if isinstance(request, RunRequest) else ()
    return [*getattr(request, "slices", ()), *(load.slice for load in loads if load.slice)]


def main(arguments: list[str], report: Callable[[Result], None] = lambda _: None) -> None:
    """``report``: called last, after the result is written; by then the reader may have removed the result."""
    if is_launched():
        follow_input()
    else:
        die_with_parent()
        keep_descriptors()
    faulthandler.enable()
    if len(arguments) != 3 or arguments[0] not in VERBS:
        sys.stderr.write(f"usage: python -P -m harness {'|'.join(VERBS)} REQUEST.json RESULT.json\n")
        sys.exit(1)
    if is_read_elsewhere(arguments[0]):
        return
    keep_to_one_thread()
    verb, request_path, result_path = arguments[0], Path(arguments[1]), Path(arguments[2])
    if is_launched():
        os.chdir(request_path.parent)  # a container or a login shell may start in any directory
    if result_path.is_dir():  # a launcher's processes: hosts may share a name, and containers may share process IDs
        result_path /= f"{platform.node()}.{os.getpid()}.{secrets.token_hex(4)}.json"
    ending = Ending(result_path, report)
    try:
        result = _perform(verb, request_path, ending)
    except BaseException as error:
        ending.fail(error)
    ending.finish(result)


if __name__ == "__main__":
    main(sys.argv[1:])
