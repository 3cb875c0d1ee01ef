"""A process's log for log readers: one JSON object per line, with a constant message and named facts.

Modules call ``log.info("step ended", extra=facts(cell=…))`` on a logger of the standard library. Each line includes the
facts of the command: the id of its pass, plan or audit, and the submission. Without a file or ``--verbose``, nothing is
written.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = "reconciler"
RECONCILING = "pass"
KEPT = 50  # files kept of earlier passes, and as many of plans and of audits

log = logging.getLogger(__name__)
_FACTS = "facts"
_CONTEXT: ContextVar[Mapping[str, Any]] = ContextVar("context", default={})  # noqa: B039 - replaced, never changed


def facts(**named: Any) -> dict[str, dict[str, Any]]:
    """Return the ``extra`` argument of a log call; None and "" are left out."""
    return {_FACTS: {name: value for name, value in named.items() if value not in (None, "")}}


def add_context(**named: Any) -> None:
    """Add facts to the current context."""
    _CONTEXT.set({**_CONTEXT.get(), **named})


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **_CONTEXT.get(),
            **getattr(record, _FACTS, {}),
        }
        if record.exc_info:
            document["error"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False, default=str)


class KeyValues(logging.Formatter):
    """The format for people: "12:00:00 step ended cell=… seconds=3.2"."""

    def format(self, record: logging.LogRecord) -> str:
        named = {**_CONTEXT.get(), **getattr(record, _FACTS, {})}
        words = (f"{name}={json.dumps(value, ensure_ascii=False, default=str)}" for name, value in named.items())
        return " ".join([f"{datetime.fromtimestamp(record.created):%H:%M:%S}", record.getMessage(), *words])


class _FileHandler(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - as the standard library names it
        """Ignore the error: a full disk must not end a pass or flood the terminal, since the results are in the
        records."""


def show_on_terminal() -> None:
    """Write every later line to standard error as well."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValues())
    _attach(handler)


@contextlib.contextmanager
def open_log(folder: Path, command: str) -> Iterator[str]:
    """Open a file in ``folder`` that logs this command from its start to its end or failure, and of whose kind only the
    newest ``KEPT`` are kept. Yields the id on every line."""
    identity = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{os.getpid()}"
    kind = "" if command == RECONCILING else command
    handler: logging.Handler = logging.NullHandler()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        for old in sorted(folder.glob(f"{kind}[-0-9]*.jsonl"))[: -(KEPT - 1)]:
            old.unlink(missing_ok=True)
        name = f"{kind}-{identity}" if kind else identity
        handler = _FileHandler(folder / f"{name}.jsonl", encoding="utf-8")
        handler.setFormatter(JsonLines())
    _attach(handler)
    token = _CONTEXT.set({**_CONTEXT.get(), "reconcile": identity})
    try:
        log.info("%s began", command)
        yield identity
    except BaseException as error:
        log.warning("%s broken off", command, extra=facts(error=type(error).__name__, problem=str(error)))
        raise
    finally:
        _CONTEXT.reset(token)
        logging.getLogger(ROOT).removeHandler(handler)
        with contextlib.suppress(OSError):
            handler.close()


def _attach(handler: logging.Handler) -> None:
    logger = logging.getLogger(ROOT)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
