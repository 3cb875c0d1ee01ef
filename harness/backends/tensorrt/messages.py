"""Forward TensorRT's messages to the child's log, and the errors to its result."""

from __future__ import annotations

import sys
from typing import Any


def log_of(trt: Any, *, quiet: bool = False) -> Log:
    """Return this process's only log, emptied: the library always uses the first logger it received."""
    name = str(trt.__name__)
    if name not in _LOGS:
        _LOGS[name] = Log(trt)
    log = _LOGS[name]
    log.errors.clear()
    log.quiet = quiet
    return log


class Log:
    """``logger``: the object that the library requires; ``errors``: its error messages, oldest first.

    ``quiet``: log only warnings and errors, since the library reports each of a run's many contexts.
    """

    def __init__(self, trt: Any) -> None:
        self.errors: list[str] = []
        self.quiet = False
        self.logger = _logger(trt, self)

    def last(self) -> str:
        return self.errors[-1] if self.errors else "no reason given"

    def take(self, severity: str, message: str) -> None:
        if severity in ("ERROR", "INTERNAL_ERROR"):
            self.errors.append(message)
        if severity != "VERBOSE" and not (self.quiet and severity == "INFO"):
            sys.stdout.write(f"TensorRT {severity.lower()}: {message}\n")


def _logger(trt: Any, log: Log) -> Any:
    class Logger(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, msg: str) -> None:
            log.take(severity.name, msg)

    return Logger()


_LOGS: dict[str, Log] = {}
