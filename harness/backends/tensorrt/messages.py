"""TensorRT's messages: into the child's log, and the errors into its result."""

from __future__ import annotations

import sys
from typing import Any


class Log:
    """``logger`` is what the library wants; ``errors`` what it said at that severity, oldest first.

    ``quiet``: only warnings and errors go into the child's log; a run makes many contexts and tells of each.
    """

    def __init__(self, trt: Any, *, quiet: bool = False) -> None:
        self.errors: list[str] = []
        self._silent = ("VERBOSE", "INFO") if quiet else ("VERBOSE",)
        self.logger = _logger(trt, self)

    def last(self) -> str:
        return self.errors[-1] if self.errors else "no reason given"

    def take(self, severity: str, message: str) -> None:
        if severity in ("ERROR", "INTERNAL_ERROR"):
            self.errors.append(message)
        if severity not in self._silent:
            sys.stdout.write(f"TensorRT {severity.lower()}: {message}\n")


def _logger(trt: Any, log: Log) -> Any:
    class Logger(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, msg: str) -> None:
            log.take(severity.name, msg)

    return Logger()
